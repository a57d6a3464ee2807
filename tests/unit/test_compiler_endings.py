"""How a packet's way ends: parsers that reject within others, and what is dropped by whatever a program calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe import ask, program, switch

INNER = """#define OWN_PARSER
#define EXTRA_HEADERS inner_t inner; tail_t tail;
#define EXTRA_TYPES header inner_t { bit<8> v; } header tail_t { bit<8> v; }"""
PARSERS = """parser Innermost(packet_in packet, inout headers_t hdr) {
    state start { transition select(hdr.inner.v) { 1: accept; 2: reject; 4: far; } }
    state far { verify(false, error.HeaderTooShort); transition accept; }
}
parser Inner(packet_in packet, inout headers_t hdr, out bit<8> left) {
    Innermost() innermost;
    state start { left = 9; packet.extract(hdr.inner); innermost.apply(packet, hdr); transition accept; }
}
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Inner() inner;
    state start {
        packet.extract(hdr.ethernet); packet.extract(hdr.probe); meta.unused = 1;
        inner.apply(packet, hdr, meta.unused);
        packet.extract(hdr.tail); transition accept;
    }
}"""


@pytest.mark.parametrize(
    ("value", "goes_on", "error"),
    [(1, True, "NoError"), (2, False, "NoError"), (3, False, "NoError"), (4, False, "HeaderTooShort")],
    ids=["accepts", "rejects", "no case matches", "error"],
)
def test_a_parser_that_does_not_accept_ends_those_that_apply_it(value: int, goes_on: bool, error: str, tmp_path: Path) -> None:
    """p4c inlines it, so that its `reject` is theirs; simple_switch goes on with the packet, and sets no NoMatch."""
    body = f"""standard.egress_spec = 1; hdr.probe.a = hdr.inner.isValid() ? 8w1 : 0;
        hdr.probe.b = hdr.tail.isValid() ? 16w1 : 0; hdr.probe.s = standard.parser_error == error.{error} ? 8s1 : 0;
        hdr.probe.wide = (bit<128>)meta.unused;"""
    with switch(program(tmp_path, body, "", PARSERS, INNER)) as running:
        out = ask(running, bytes(20) + bytes([value]) + b"tail")
    assert (out[0], int.from_bytes(out[1:3], "big"), out[3]) == (1, goes_on, 1)
    assert out[19] == 9  # what it wrote is copied out however it ends
    assert out[20:] == bytes([value]) + b"tail"


CALLED = {
    "itself": ("", "", "mark_to_drop(standard);"),
    "action": ("", "action end(inout standard_metadata_t sm) { mark_to_drop(sm); }", "end(standard);"),
    "action of a table": (
        "",
        "action end(inout standard_metadata_t sm) { mark_to_drop(sm); } "
        "table t { actions = { end(standard); } default_action = end(standard); }",
        "t.apply();",
    ),
    "action in an action": (
        "",
        "action end(inout standard_metadata_t sm) { mark_to_drop(sm); } action outer(inout standard_metadata_t sm) { end(sm); }",
        "outer(standard);",
    ),
    "function": ("void end(inout standard_metadata_t sm) { mark_to_drop(sm); }", "", "end(standard);"),
    "control": ("control End(inout standard_metadata_t sm) { apply { mark_to_drop(sm); } }", "End() e;", "e.apply(standard);"),
}


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("egress", [False, True], ids=["ingress", "egress"])
def test_mark_to_drop_drops_however_the_metadata_came_to_it(called: str, egress: bool, tmp_path: Path) -> None:
    outside, locals_, body = CALLED[called]
    dropped = f"if (hdr.probe.a == 1) {{ {body} }}"
    after = (
        "control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) "
        f"{{ {locals_} apply {{ {dropped} }} }}"
    )
    if egress:
        path = program(tmp_path, "standard.egress_spec = 1;", "", f"{outside} {after}")
        path.write_text(path.read_text().replace("\nNO_EGRESS\n", "\n", 1))
    else:
        path = program(tmp_path, f"standard.egress_spec = 1; {dropped}", locals_, outside)
    with switch(path) as running:
        assert ask(running, bytes(20)) == bytes(20)
        assert ask(running, b"\x01" + bytes(19)) == b""


def test_a_packet_that_an_action_drops_may_be_sent_all_the_same(tmp_path: Path) -> None:
    """What is written last holds, as for everything that is copied out."""
    action = "action end(inout standard_metadata_t sm) { mark_to_drop(sm); sm.egress_spec = 1; }"
    with switch(program(tmp_path, "end(standard);", action)) as running:
        assert ask(running, bytes(20)) == bytes(20)
