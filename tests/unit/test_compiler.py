"""What the compiler says of programs that are wrong or use what it lacks; and the command line's bad input."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.compiler import compile_p4
from inalab.switches.embedded.errors import CompileError
from inalab.switches.embedded.offline import OfflineSwitch
from tests.probe import compile_, program


@pytest.mark.parametrize(
    ("parts", "line", "message"),
    [
        ({"body": "hdr.probe.a = hdr.probe.b;"}, 9, "this is bit<16>, where bit<8> is needed"),
        ({"body": "hdr.probe.c = 1;"}, 9, "probe_t has no field c"),
        ({"body": "nobody = 1;"}, 9, "nobody is not declared"),
        ({"body": "hdr.probe.a = hdr.probe.a + hdr.probe.b;"}, 9, "the operands are bit<8> and bit<16>"),
        ({"body": "hdr.probe.b = (bit<16>)hdr.probe.s;"}, 9, "changes sign and width at once"),
        ({"body": "if (hdr.probe.a) { }"}, 9, "a condition must be bool"),
        ({"body": "hdr.probe.a = 1"}, 9, "expected ';'"),
        ({"body": "hdr.probe.a = 1 // no more\n"}, 9, "expected ';'"),
        ({"body": "hdr.probe.a = (1;"}, 9, "syntax error at ';', expected ')'"),
        ({"body": "if (hdr.probe.a == 1) { hdr.probe.a = 2; } }"}, 11, "syntax error at '}'"),
        ({"body": "/* no end\nhdr.probe.a = 2;"}, 9, "this comment is never closed"),
        ({"body": "tt.apply();"}, 9, "tt is not declared"),
        ({"body": "bitt<8> x = 1;"}, 9, "bitt is not declared"),
        ({"outside": "value_set<bit<8>>(4) x;"}, 5, "syntax error"),
        ({"body": "hash(hdr.probe.b, HashAlgorithm.crc16, 128w0, { hdr.probe.a }, 128w9);"}, 9, "the base or maximum of a hash as bit<128>"),
        ({"locals_": "register<bit<8>>>(4) r;"}, 7, "syntax error at '>'"),
        ({"body": "thing_t x;"}, 9, "thing_t is not declared"),
        ({"locals_": "regster<bit<8>>(4) r;"}, 7, "regster is not declared: did you mean register?"),
        ({"outside": "control C(inout headrs_t h) { apply {} }"}, 5, "headrs_t is not declared: did you mean headers_t?"),
        ({"outside": "struct s_t { headrs_t h; }"}, 5, "headrs_t is not declared: did you mean headers_t?"),
        ({"body": "hdr.probe.wide = hdr.probe.wide / 3;"}, 9, "not supported by the embedded switch: / on bit<128>"),
        ({"body": "resubmit(hdr.probe);"}, 9, "not supported by the embedded switch: resubmit (use resubmit_preserving_field_list)"),
        ({"body": "bit<8> counter = 3; if (counter < 5 && hdr.probe.a < counter) { nobody = 1; }"}, 9, "nobody is not declared"),
        ({"locals_": "table t { key = { hdr.probe.a : selector; } actions = { NoAction; } }"}, 7, "a selector key belongs to a table"),
        ({"outside": "extern void mine();", "body": "mine();"}, 9, "not supported by the embedded switch: mine"),
        ({"outside": "header odd_t { bit<7> x; } struct user_t { odd_t odd; }"}, 5, "no multiple of 8"),
        ({"locals_": "register<bit<8>>(4) r;", "body": "r.write(9, 1);"}, 9, "has 4 cells, no cell 9"),
        ({"locals_": "action a(bit<8> x) {} table t { key = { hdr.probe.a : exact; } actions = { a; } default_action = b(); }",
          "body": "t.apply();"}, 7, "default action b is not among"),
        ({"body": "elseif (hdr.probe.a == 1) { hdr.probe.a = 2; }"}, 9, "syntax error at 'elseif': did you mean else if?"),
        ({"locals_": "table t { keys = { hdr.probe.a : exact; } actions = { NoAction; } }"}, 7, "'keys': did you mean key?"),
        ({"locals_": "table t { key = { hdr.probe.a : exat; } actions = { NoAction; } }"}, 7, "not a match kind: did you mean exact?"),
        ({"locals_": "table t { actions = { NoAction; } defalt_action = NoAction; }"}, 7, "defalt_action: did you mean default_action?"),
        ({"outside": "contorl C(inout headers_t h) { apply {} }"}, 5, "'contorl': did you mean control?"),
        ({"outside": "header table { bit<8> a; }"}, 5, "table is a keyword of P4: choose another name"),
        ({"outside": "struct s_t { bit<8> action; }"}, 5, "action is a keyword of P4: choose another name"),
        ({"locals_": "action in() {}"}, 7, "in is a keyword of P4: choose another name"),
        ({"outside": "control C(inout headers_t h) { }"}, 5, "expected apply { … }, which every control has"),
        ({"outside": "parser Q(packet_in p, out headers_t h) { state start { transistion accept; } }"}, 5, "did you mean transition?"),
        ({"body": "hdr.probe.setvalid();"}, 9, "probe_t has no method setvalid: did you mean setValid?"),
        ({"before": '#include "missing.p4"'}, 2, "cannot find include file"),
        ({"before": "#error not today"}, 2, "#error not today"),
        ({"body": "hdr.probe.a = 1 $ 2;"}, 9, "a character that P4 does not have"),
        ({"body": "hdr.probe.a[9:0] = 1;"}, 9, "is not within bit<8>"),
        ({"body": "standard.nothing = 1;"}, 9, "has no field nothing"),
    ],
)  # fmt: skip
def test_errors_name_line_and_reason(tmp_path: Path, parts: dict[str, str], line: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_(program(tmp_path, **parts))
    text = str(caught.value)
    assert message in text
    assert f"probe.p4:{line}:" in text
    assert "\n" not in text


def test_missing_main_and_missing_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.p4"
    empty.write_text("")
    with pytest.raises(CompileError, match="no V1Switch"):
        compile_p4(empty)
    with pytest.raises(CompileError, match="cannot read"):
        compile_p4(tmp_path / "none.p4")


def run_switch(*words: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as runtime:
        command = [sys.executable, "-m", "inalab.switches.embedded", *words]
        environment = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_command_line_prints_c_and_reports_errors(tmp_path: Path) -> None:
    done = run_switch("p4/switchml.p4", "-D", "K=32", "--emit-c")
    assert done.returncode == 0
    assert "control SwitchMLIngress" in done.stdout
    wrong = program(tmp_path, "hdr.probe.a = hdr.probe.b;")
    done = run_switch(str(wrong), "-I", "tests/programs", "--emit-c")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_bad_interfaces_are_one_sentence() -> None:
    for words, message in (
        (["p4/switchml.p4"], "at least one port"),
        (["p4/switchml.p4", "-i", "0@" + "x" * 16], "longer than the 15 characters"),
        (["p4/switchml.p4", "-i", "0@nosuch0"], "there is no interface nosuch0"),
        (["p4/switchml.p4", "-i", "nosuch0"], "PORT@INTERFACE"),
    ):
        done = run_switch(*words)
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_cache_is_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    includes = [Path("tests/programs").resolve()]
    first = build(program(tmp_path, "hdr.probe.a = 1;"), {}, includes)
    made = first.stat().st_mtime_ns
    assert build(program(tmp_path, "hdr.probe.a = 1;"), {}, includes) == first
    assert first.stat().st_mtime_ns == made
    assert build(program(tmp_path, "hdr.probe.a = 2;"), {}, includes) != first
    (elsewhere := tmp_path / "elsewhere").mkdir()
    moved = program(elsewhere, "hdr.probe.a = 1;")
    assert build(moved, {}, includes) == first
    traced = [build(path, {}, includes, traced=True) for path in (program(tmp_path, "hdr.probe.a = 1;"), moved)]
    assert [b"elsewhere/probe.p4" in made.read_bytes() for made in traced] == [False, True]  # where a step is


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table_add nosuch f 1 =>", r"there is no table nosuch: choose one of [\w.]*by_prefix, [\w.]+"),
        ("table_add by_prefix nosuch 10.0.0.0/8 =>", r"has no action nosuch: choose one of [\w.]*set_result"),
        ("table_add by_prefix set_result 10.0.0.0 => 1", "value/length of 32 bits is needed"),
        ("table_add by_prefix set_result 10.0.0.0/8 => 256", "not a value for value"),
        ("table_add by_prefix set_result 10.0.0.0/8 =>", "takes 1 parameters"),
        ("table_add fixed set_third 1 1 => 1", "are const"),
        ("table_delete by_prefix 7", "no entry 7"),
        ("mc_node_associate 9 0", "no multicast group 9"),
        ("register_read nosuch 0", "there is no register nosuch"),
        ("set_queue_depth x", "not possible"),
        ("no_such_command", "there is no command no_such_command"),
    ],
)
def test_refused_commands_are_one_sentence_and_the_switch_goes_on(line: str, message: str) -> None:
    with OfflineSwitch(build(Path("tests/programs/tables.p4"))) as switch:
        with pytest.raises(ControlError, match=message):
            switch.command(line)
        switch.command("table_add by_prefix set_result 10.0.0.0/8 => 1")
        assert switch.command("table_num_entries by_prefix") == "1\n"
