"""What simple_switch has in no parser, deparser or checksum control is refused here, too, and what p4c takes away is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.errors import CompileError

TABLE = "action a() {} table t { key = { h.e.t : exact; } actions = { a; NoAction; } default_action = NoAction(); }"
SUM = "update_checksum(true, {h.e.d}, h.e.t, HashAlgorithm.csum16);"
PLACES = (
    "parser locals",
    "parser",
    "verify",
    "ingress locals",
    "ingress",
    "compute locals",
    "compute",
    "deparser locals",
    "deparser",
)


def program(**parts: str) -> str:
    at = dict.fromkeys((name.replace(" ", "_") for name in PLACES), "") | parts
    return f"""
#include <core.p4>
#include <v1model.p4>
header e_t {{ bit<48> d; bit<48> s; bit<16> t; }}
struct H {{ e_t e; }}
struct M {{ bit<32> x; bit<16> y; }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    {at["parser_locals"]}
    state start {{ p.extract(h.e); {at["parser"]} transition accept; }}
}}
control V(inout H h, inout M m) {{ apply {{ {at["verify"]} }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{ {at["ingress_locals"]} apply {{ {at["ingress"]} s.egress_spec = 1; }} }}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
control Sub(inout H h) {{ apply {{ {SUM} }} }}
control Sub2() {{ counter(4, CounterType.packets) c; apply {{ c.count(1); }} }}
control C(inout H h, inout M m) {{ {at["compute_locals"]} apply {{ {at["compute"]} }} }}
control D(packet_out p, in H h) {{ {at["deparser_locals"]} apply {{ {at["deparser"]} p.emit(h.e); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def key(text: str) -> dict[str, str]:
    table = f"action a() {{}} table t {{ key = {{ {text}; }} actions = {{ a; NoAction; }} default_action = NoAction(); }}"
    return {"ingress_locals": table, "ingress": "t.apply();"}


REFUSED = {
    "simple_switch has no if in a deparser": {"deparser": "if (h.e.t == 5) { p.emit(h.e); }"},
    "simple_switch has no switch in a deparser": {"deparser": "switch (h.e.t) { 5: { p.emit(h.e); } default: {} }"},
    r"simple_switch has no table \(t\) in a deparser": {"deparser_locals": TABLE, "deparser": "t.apply();"},
    r"simple_switch has no action \(a\) in a deparser": {"deparser_locals": "action a() {}", "deparser": "a();"},
    r"simple_switch has no register \(r\) in a deparser": {
        "deparser_locals": "register<bit<32>>(4) r;", "deparser": "r.write(0, 5);",
    },
    r"simple_switch has no counter \(c\) in a parser": {
        "parser_locals": "counter(4, CounterType.packets) c;", "parser": "c.count(1);",
    },
    r"simple_switch has no counter \(c\) in a compute checksum control": {
        "compute_locals": "Sub2() sub;", "compute": "sub.apply();",
    },
    "simple_switch has no assert in a parser": {"parser": "assert(h.e.t == 5);"},
    "simple_switch has no hash in a parser": {"parser": "hash(m.y, HashAlgorithm.crc16, 16w0, {h.e.d}, 16w5);"},
    "simple_switch has no branch in a verify checksum control: give verify_checksum the condition": {
        "verify": "if (h.e.t == 5) { verify_checksum(true, {h.e.d}, h.e.t, HashAlgorithm.csum16); }",
    },
    "simple_switch has no branch in a compute checksum control": {"compute": f"if (h.e.t == 5) {{ {SUM} }}"},
    "simple_switch has no assignment to headers or metadata in a compute checksum control": {"compute": "m.x = 5;"},
    "simple_switch has no log_msg in a compute checksum control: it has calls of update_checksum": {"compute": 'log_msg("x");'},
    r"simple_switch has no table \(t\) in a compute checksum control": {"compute_locals": TABLE, "compute": "t.apply();"},
    "simple_switch computes nothing in update_checksum: keep the value in a field": {"compute": SUM.replace("h.e.d", "h.e.d + 1")},
    "simple_switch computes nothing in update_checksum: ": {"compute": SUM.replace("h.e.d", "h.e.d[15:0]")},
    r'a computed key has no name of its own: write @name\("..."\) behind its match kind': key("h.e.t + 1 : exact"),
    "a computed key has no name": key("(bit<8>)h.e.t : exact"),
}  # fmt: skip

TAKEN = [
    {"deparser": "if (true) { p.emit(h.e); }"}, {"deparser": "bool q = true; if (q) { p.emit(h.e); }"},
    {"deparser": 'assert(h.e.t == 5); log_msg("x");'}, {"parser": "if (h.e.t == 5) { m.x = 5; } verify(h.e.t == 5, error.NoMatch);"},
    {"compute": "bit<16> z = h.e.t; update_checksum(true, {z, 16w5}, h.e.t, HashAlgorithm.csum16);"},
    {"compute": "update_checksum(h.e.isValid() && h.e.t == 5, {h.e.d}, h.e.t, HashAlgorithm.csum16);"},
    {"compute": f"if (true) {{ {SUM} }} return;"}, {"compute_locals": "Sub() sub;", "compute": "sub.apply(h);"},
    key('h.e.t + 1 : exact @name("k")'), key("h.e.t & 5 : exact"), key("h.e.t & m.y : exact"), key("h.e.t[7:0] : exact"),
    key("h.e.isValid() : exact"), key("16w5 : exact"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "parts"), REFUSED.items())
def test_what_simple_switch_has_not_is_refused(why: str, parts: dict[str, str], tmp_path: Path) -> None:
    (path := tmp_path / "program.p4").write_text(program(**parts))
    with pytest.raises(CompileError, match=rf"program.p4:\d+:\d+: error: {why}"):
        check_p4(path)


@pytest.mark.parametrize("parts", TAKEN)
def test_what_it_has_is_taken(parts: dict[str, str], tmp_path: Path) -> None:
    (path := tmp_path / "program.p4").write_text(program(**parts))
    check_p4(path)


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
@pytest.mark.parametrize(
    ("parts", "refused"), [*((parts, True) for parts in REFUSED.values()), *((parts, False) for parts in TAKEN)]
)
def test_p4c_says_the_same(parts: dict[str, str], refused: bool, tmp_path: Path) -> None:
    (path := tmp_path / "program.p4").write_text(program(**parts))
    done = subprocess.run(["p4c-bm2-ss", "-o", tmp_path / "out.json", path], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is refused, done.stderr
