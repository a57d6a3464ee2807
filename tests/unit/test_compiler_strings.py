"""Text of a program (strings, names, file names) stays data: nothing of it becomes C."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from inalab.switches.embedded.build import build
from inalab.switches.embedded.compiler import compile_p4
from inalab.switches.embedded.errors import CompileError, Position
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.text import c_comment, c_string, is_identifier, one_line, unescape
from tests.probe import INCLUDES, PROGRAM, ask, program, switch
from tests.scenarios import ETHERNET

MARK = "made_by_the_program"  # a file that exists once text of the program has run
RUN = f'__attribute__((constructor)) static void own(void) {{ fopen("{MARK}", "w"); }}'
HOSTILE = {
    "quote": '"; ' + RUN + " //",
    "quote escaped": r"\"; " + RUN + " //",
    "backslash at the end": "x\\",
    "two backslashes": r"x\\",
    "newline": f"x\n{RUN}\n",
    "newline escaped": r"x\n\";" + RUN,
    "continued line": f"x\\\n{RUN}\n",
    "formats": "%s%n%s%n%d%%{}",
    "trigraph": '??/"; ' + RUN + " //",
    "comment": "*/ " + RUN + " /*",
    "line comment": "// " + RUN,
    "NUL": "x\0" + RUN,
    "control characters": "\x01\x02\x03\x04line 7",
    "line directive": '#line 1 "x"',
    "no ASCII": "größe 𝄞 \u2028",
    "long": "x" * 100_000,
    "hexadecimal": r"\x41\101",
}
PLACES = {
    "@name of a table": {"locals_": '@name("{}") table t {{ key = {{ hdr.probe.a : exact; }} actions = {{ NoAction; }} }}', "body": "t.apply();"},
    "@name of a key": {"locals_": 'table t {{ key = {{ hdr.probe.a : exact @name("{}"); }} actions = {{ NoAction; }} }}', "body": "t.apply();"},
    "@name of an action": {"locals_": '@name("{}") action x() {{}} table t {{ key = {{ hdr.probe.a : exact; }} actions = {{ x; NoAction; }} }}', "body": "t.apply();"},
    "@name of a register": {"locals_": '@name("{}") register<bit<8>>(4) r;', "body": "r.write(0, 1);"},
    "@name of a counter": {"locals_": '@name("{}") counter(4, CounterType.packets) c;', "body": "c.count(0);"},
    "@name of a direct counter": {
        "locals_": '@name("{}") direct_counter(CounterType.packets) c; table t {{ key = {{ hdr.probe.a : exact; }} actions = {{ NoAction; }} counters = c; }}',
        "body": "t.apply();",
    },
    "@field_list": {"before": '#define METADATA_FIELDS @field_list("{}") bit<8> kept;'},
    "another annotation": {"locals_": '@other("{}", x = 1) action x() {{}}', "body": "x();"},
    "an annotation with types": {"locals_": '@other("{}", bit<32>, string) action x() {{}}', "body": "x();"},
    "log_msg": {"body": 'log_msg("{}");'},
    "log_msg with a value": {"body": 'log_msg("{}", {{ hdr.probe.a }});'},
    "a string elsewhere": {"body": 'hdr.probe.a = "{}";'},
    "a constant string": {"outside": 'const string K = "{}";'},
    "#include": {"before": '#include "{}"'},
    "#include <>": {"before": "#include <{}>"},
    "#line": {"before": '#line 1 "{}"'},
    "#error": {"before": "#error {}"},
    "#pragma": {"before": "#pragma {}"},
    "#define": {"before": "#define X {}", "body": 'log_msg("X");'},
    "a comment": {"body": "/* {} */"},
    "an identifier": {"body": "bit<8> {} = 1;"},
    "an enum": {"outside": "enum {} {{ A }}"},
    "an enum's member": {"outside": "enum E {{ {} }}"},
    "an error": {"outside": "error {{ {} }}"},
    "a header's field": {"before": "#define EXTRA_TYPES header own_t {{ bit<8> {}; }}"},
    "a state": {"outside": "parser Own(packet_in p) {{ state start {{ transition {}; }} state {} {{ transition accept; }} }}"},
    "a number": {"body": "hdr.probe.a = {};"},
}  # fmt: skip


def place(folder: Path, parts: dict[str, str], text: str) -> Path:
    filled = {"body": "", "locals_": "", "outside": "", "before": ""}
    for name, form in parts.items():
        filled[name] = form.replace("{{", "\1").replace("}}", "\2").replace("{}", text).replace("\1", "{").replace("\2", "}")
    path = folder / "probe.p4"
    whole = PROGRAM.replace("{{", "\1").replace("}}", "\2").replace("{locals}", "{locals_}")
    for name, text_ in filled.items():
        whole = whole.replace("{" + name + "}", text_)
    path.write_text(whole.replace("\1", "{").replace("\2", "}"))
    return path


def outcome(path: Path) -> str | None:
    """The C, or None for a refusal in one line."""
    try:
        return compile_p4(path, {}, INCLUDES)
    except CompileError as error:
        assert "\n" not in str(error)
        assert "which is a defect" not in str(error)
        assert len(str(error)) < 2000
        return None


@pytest.mark.parametrize("where", PLACES)
def test_no_text_of_a_program_becomes_c(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All hostile texts that compile at a place are put into C once more, and the C compiler must find no `own` in it."""
    made = {c for text in HOSTILE.values() if (c := outcome(place(tmp_path, PLACES[where], text))) is not None}
    for c in made:
        check = subprocess.run(
            ["cc", "-std=gnu11", "-trigraphs", "-fsyntax-only", "-w", "-DRUNTIME", "-I", "switches/embedded/runtime", "-x", "c", "-"],
            input=c, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert check.returncode == 0, check.stderr[:500]
        bare = subprocess.run(
            ["cc", "-fpreprocessed", "-E", "-P", "-x", "c", "-"], input=c, capture_output=True, text=True, check=True
        )
        outside_strings = "".join(bare.stdout.replace('\\"', "").split('"')[::2])
        assert "constructor" not in outside_strings


def test_log_messages_arrive_as_written(tmp_path: Path) -> None:
    """Every text that a string can hold, in a program that runs in a folder of its own, where nothing may appear."""
    texts = [text.replace("{}", "") for text in HOSTILE.values() if text.isprintable()]
    written = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    body = " ".join(f'log_msg("{text}");' for text in written)
    path = place(tmp_path, {"body": 'X log_msg("<{}|{}>", {hdr.probe.a, hdr.probe.s});'}, "{}")
    path.write_text(path.read_text().replace("X log", body + "log"))
    executable = build(path, {}, INCLUDES)
    empty = tmp_path / "empty"
    empty.mkdir()
    packet = ETHERNET + bytes([7, 0, 0, 0xFE]) + bytes(16)
    record = (0).to_bytes(2, "big") + len(packet).to_bytes(4, "big") + packet
    done = subprocess.run([executable, "--offline", "1"], input=record, capture_output=True, cwd=empty, check=True)
    assert done.stderr.decode().split("\n") == [*texts, "<7|-2>", ""]
    assert os.listdir(empty) == []


def test_names_with_quotes_are_what_commands_use(tmp_path: Path) -> None:
    locals_ = r"""
        @name(".a\"b\\c??/d%s*/") register<bit<8>>(4) r;
        @name("x\"y") action put(bit<8> v) { hdr.probe.a = v; }
        @name("of\"the\\table") table t { key = { hdr.probe.a : exact @name("the \"key\" %n"); } actions = { put; NoAction; } }"""
    with switch(program(tmp_path, "standard.egress_spec = 1; r.write(1, hdr.probe.a); t.apply();", locals_)) as running:
        running.command(r'table_add of"the\table x"y 7 => 9')
        assert running.send(0, ETHERNET + b"\x07" + bytes(19))[0][1][14] == 9
        assert running.command(r'register_read a"b\c??/d%s*/ 1').rstrip().endswith("= 7")
        assert r'Work.of"the\table' in running.command("show_tables")
        assert 'the "key" %n(exact, 8)' in running.command(r'table_info of"the\table')


@pytest.mark.parametrize("name", ["a b", "", "#x", "a\\tb c"])
def test_names_that_no_command_can_hold_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="a command cannot name this"):
        compile_p4(place(tmp_path, PLACES["@name of a register"], name), {}, INCLUDES)


def test_file_names_are_data(tmp_path: Path) -> None:
    path = tmp_path / ('a"b\\*??!%n%s größe ' + "x" * 200 + ".p4")
    path.write_text(program(tmp_path, "assert(hdr.probe.a == 1); mark_to_drop(standard);").read_text())
    with OfflineSwitch(build(path, {}, INCLUDES)) as running:
        assert running.send(0, ETHERNET + bytes(20)) == []
    (tmp_path / 'in"c\\.p4').write_text("\n\nconst bit<8> INCLUDED = nothing;")
    path.write_text('#include <in"c\\.p4>\n')
    with pytest.raises(CompileError, match=r"p4:3:\d+: error: nothing is not declared"):
        compile_p4(path, {}, INCLUDES)


@pytest.mark.parametrize("name", ["a\nb.p4", "a\rb.p4", "a\x1b.p4", "a\x04.p4"])
def test_file_names_that_cannot_be_printed_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("")
    with pytest.raises(CompileError, match="rename the file") as caught:
        compile_p4(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("name", "value"), [("a b", "1"), ("1x", "1"), ("f(x)", "x"), ("", "1"), ("A\n#define B", "1")])
def test_macro_names_are_identifiers(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="a macro's name"):
        compile_p4(program(tmp_path), {name: value}, INCLUDES)


def test_words_of_c_are_names_like_any_other(tmp_path: Path) -> None:
    words = [
        "__asm__",
        "asm",
        "typeof",
        "_Bool",
        "linux",
        "main",
        "valid",
        "NULL",
        "int8_t",
        "__attribute__",
        "i386",
        "phv",
        "INT64_C",
    ]
    before = f"#define EXTRA_TYPES header own_t {{ {' '.join(f'bit<8> {w};' for w in words)} }}\n#define EXTRA_HEADERS own_t own;"
    body = "hdr.own.setValid(); standard.egress_spec = 1;" + " ".join(f"bit<8> {w} = 3; hdr.own.{w} = {w};" for w in words)
    with switch(program(tmp_path, body, before=before)) as running:
        assert ask(running, bytes(20)) == bytes(20) + b"\x03" * len(words)


def test_a_c_literal_holds_exactly_its_text(tmp_path: Path) -> None:
    texts = [*HOSTILE.values(), "a1\x007", "\udcff"]
    source = "#include <stdio.h>\nint main(void) {\n"
    for text in texts:
        source += f"    // {c_comment(text)}\n    fwrite({c_string(text)}, 1, sizeof {c_string(text)}, stdout);\n"
    (tmp_path / "literals.c").write_text(source + "}\n")
    subprocess.run(["cc", "-trigraphs", "-w", "-o", tmp_path / "literals", tmp_path / "literals.c"], check=True)
    printed = subprocess.run([tmp_path / "literals"], capture_output=True, check=True).stdout
    assert printed == b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in texts)


def test_identifiers_and_lines() -> None:
    assert all(is_identifier(name) for name in ("a", "_", "A9_"))
    assert not any(is_identifier(name) for name in ("", "9a", "a-b", "a\n", "é", "a b", 'a"'))
    assert one_line("a\nb\0c\u2028\udcff") == r"a\nb\x00c\u2028\udcff"
    assert "\n" not in str(CompileError(Position("a\nb", 1, 1), "c\nd"))
    assert unescape(r"\"a\\b\n") == r'"a\b' + r"\n"
