"""Header unions, what fields of headers may be, and what a parser can do with them (specification, sections 7.2, 8.20 and 13.8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.switches.embedded.errors import CompileError
from tests.probe import ask, compile_, program, switch

UNION = """#define EXTRA_TYPES header one_t { bit<8> v; } header two_t { bit<16> v; } header_union u_t { one_t one; two_t two; }
#define EXTRA_HEADERS u_t u; u_t w; u_t[2] us;"""
SHOW = """action show(in u_t u) { hdr.probe.b = (u.isValid() ? 16w4 : 0) + (u.one.isValid() ? 16w2 : 0) + (u.two.isValid() ? 16w1 : 0); }
    action none() { hdr.u.one.setInvalid(); hdr.u.two.setInvalid(); hdr.w.one.setInvalid(); hdr.w.two.setInvalid();
        hdr.us[0].one.setInvalid(); hdr.us[0].two.setInvalid(); }"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("", 0),
        ("hdr.u.one.setValid();", 6),
        ("hdr.u.one.setValid(); hdr.u.two.setValid();", 5),
        ("hdr.u.one.setValid(); hdr.u.two.setInvalid();", 6),
        ("hdr.u.one.setValid(); hdr.u.one.setInvalid();", 0),
        ("hdr.u.one.setValid(); hdr.u.two = { 7 };", 5),
        ("two_t t; t.setValid(); hdr.u.one.setValid(); hdr.u.two = t;", 5),
        ("two_t t; hdr.u.one.setValid(); hdr.u.two = t;", 6),
        ("hdr.u.one.setValid(); fill(hdr.u.two);", 5),
        ("hdr.u.one.setValid(); pass(hdr.u.two);", 6),
        ("hdr.u.one.setValid(); c.apply(hdr.u.two);", 5),
        ("hdr.w.two.setValid(); hdr.u.one.setValid(); hdr.u = hdr.w;", 5),
        ("bit<8> i = hdr.probe.a; hdr.us[i].one.setValid(); hdr.us[i].two.setValid(); hdr.u = hdr.us[0];", 5),
    ],
)
def test_at_most_one_header_of_a_union_is_valid(body: str, wanted: int, tmp_path: Path) -> None:
    outside = """void fill(out two_t t) { t.setValid(); } void pass(inout two_t t) {}
        control Fill(inout two_t t) { apply { t.setValid(); t.v = 1; } }"""
    text = f"standard.egress_spec = 1; {body} show(hdr.u); none();"
    with switch(program(tmp_path, text, f"Fill() c; {SHOW}", outside, UNION)) as running:
        assert int.from_bytes(ask(running, bytes(20))[1:3], "big") == wanted


def test_unions_are_equal_if_the_same_header_is_valid_and_equal(tmp_path: Path) -> None:
    body = """standard.egress_spec = 1; bit<8> n = 0; if (hdr.u == hdr.w) { n = n + 1; }
        hdr.u.one.setValid(); hdr.u.one.v = 1; hdr.w.two.setValid(); hdr.w.two.v = 1; if (hdr.u != hdr.w) { n = n + 2; }
        hdr.w = hdr.u; if (hdr.u == hdr.w) { n = n + 4; }
        hdr.w.one.v = 2; if (hdr.u != hdr.w) { n = n + 8; } none(); hdr.probe.a = n;"""
    with switch(program(tmp_path, body, SHOW, "", UNION)) as running:
        assert ask(running, bytes(20))[0] == 15


PARSED = f"""#define OWN_PARSER
#define EXTRA_DECLARATIONS
{UNION}"""
UNION_PARSER = """parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); packet.extract(hdr.probe);
        transition select(hdr.probe.a) { 1: one; 2: two; default: accept; } }
    state one { packet.extract(hdr.us.next.one); transition select(hdr.us.last.one.v) { 0xFF: accept; default: two; } }
    state two { packet.extract(hdr.us.next.two); transition accept; }
}"""


def test_unions_in_stacks_are_parsed_and_emitted(tmp_path: Path) -> None:
    """Headers stay in their order, and nothing is emitted of what is not valid."""
    body = """standard.egress_spec = 1; hdr.probe.b = (hdr.us[0].one.isValid() ? 16w8 : 0) + (hdr.us[0].two.isValid() ? 16w4 : 0)
        + (hdr.us[1].one.isValid() ? 16w2 : 0) + (hdr.us[1].two.isValid() ? 16w1 : 0);"""
    with switch(program(tmp_path, body, "", UNION_PARSER, PARSED)) as running:
        for first, rest, valid in ((0, b"", 0), (1, b"\xff", 8), (1, b"\x01\x02\x03", 9), (2, b"\x02\x03", 4)):
            sent = bytes([first]) + bytes(19) + rest + b"payload"
            assert ask(running, sent) == sent[:1] + valid.to_bytes(2, "big") + sent[3:]


FIELDS = """#define EXTRA_TYPES enum bit<4> kind_t { A = 1, B = 9 } struct pair_t { bit<3> x; int<5> y; } \
    header odd_t { bool flag; bit<3> low; kind_t kind; pair_t pair; bit<80> wide; }
#define EXTRA_HEADERS odd_t odd;
#define OWN_PARSER"""
FIELDS_PARSER = """struct ahead_t { bool flag; bit<7> rest; pair_t pair; }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); packet.extract(hdr.probe);
        ahead_t ahead = packet.lookahead<ahead_t>();
        hdr.probe.a = (ahead.flag ? 8w128 : 0) + (bit<8>)ahead.pair.x;
        packet.extract(hdr.odd); packet.extract<odd_t>(_); transition accept; }
}"""


def test_bool_enum_and_struct_fields_of_headers(tmp_path: Path) -> None:
    """They lie side by side on the wire; `_` skips a header."""
    body = """standard.egress_spec = 1; if (hdr.odd.flag) { hdr.probe.b[15:8] = 1; } hdr.odd.flag = !hdr.odd.flag;
        if (hdr.odd.kind == kind_t.B) { hdr.odd.kind = kind_t.A; } hdr.odd.pair.y = hdr.odd.pair.y - 1; hdr.odd.low = 7;
        hdr.odd.wide = hdr.odd.wide + 1;"""
    odd = bytes([0b1_010_1001, 0b110_00000]) + b"\xff" * 10
    with switch(program(tmp_path, body, "", FIELDS_PARSER, FIELDS)) as running:
        out = ask(running, bytes(20) + odd + b"skipped-head" + b"rest")
    assert out[:3] == bytes([0x80 + 6, 1, 0])
    assert out[20:] == bytes([0b0_111_0001, 0b110_11111]) + bytes(10) + b"rest"


LISTED = """#define EXTRA_TYPES header label_t { bit<8> v; bit<4> x; bit<4> y; } header tail_t { bit<8> n; varbit<32> v; } \\
    header eight_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; bit<8> g; }
#define EXTRA_HEADERS label_t[2] labels; tail_t tail; eight_t eight;
#define OWN_PARSER"""
LISTED_PARSER = """parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); packet.extract(hdr.probe);
        transition select(hdr.probe.a) { 1: label; 2: tail; default: accept; } }
    state label { packet.extract(hdr.labels.next); transition accept; }
    state tail { packet.extract(hdr.tail, (bit<32>)packet.lookahead<bit<8>>() * 8); transition accept; }
}"""


@pytest.mark.parametrize(
    ("values", "packet", "data"),
    [
        ("hdr.labels[0].v, hdr.probe.a", "01 ab 5c", "ab 01"),
        ("8w119, hdr.labels[0].v, hdr.labels[0].x, 4w5", "01 ab 5c", "77 ab 55"),
        ("8w119, hdr.labels[0].v, hdr.labels[0].x, 4w5", "00", "77 50"),
        ("hdr.labels[0].x, hdr.probe.a, hdr.labels[0].y", "01 ab 5c", "50 1c"),
        ("8w119, hdr.labels[0], 8w51", "00", "77 33"),
        ("hdr.labels[1], hdr.probe.a, hdr.labels[0]", "01 ab 5c", "01 ab 5c"),
        ("hdr.tail.v, hdr.probe.a", "02 03 aa bb cc", "aa bb cc 02"),
        ("hdr.tail, hdr.probe.a", "02 02 aa bb", "02 aa bb 02"),
        ("8w119, hdr.tail, 8w51", "00", "77 33"),
        ("(bit<4>)9, hdr.tail.v, (bit<4>)6", "02 01 ab", "9a b6"),
        ("hdr.eight.d, hdr.eight.c, hdr.eight.b, hdr.eight.a", "00", "04 03 02 01"),
        ("hdr.eight.a, hdr.eight.c, hdr.eight.e, hdr.eight.g", "00", "01 03 05 07"),
        ("hdr.eight.d, hdr.eight.d, hdr.eight.d, hdr.eight.d", "00", "04 04 04 04"),
        ("hdr.eight, hdr.eight.d", "00", "01 02 03 04 05 06 07 04"),
    ],
)
def test_a_hash_leaves_out_what_headers_that_are_not_valid_have(values: str, packet: str, data: str, tmp_path: Path) -> None:
    """As simple_switch (BufBuilder in calculations.cpp); whole headers and varbits count as far as they are there."""
    body = f"""standard.egress_spec = 1; bit<64> h; hdr.eight = {{ 1, 2, 3, 4, 5, 6, 7 }}; hash(h, HashAlgorithm.identity, 64w0, {{ {values} }}, 64w0xFFFFFFFFFFFFFFFF);
        hdr.probe.wide = (bit<128>)h; hdr.labels[0].setInvalid(); hdr.tail.setInvalid(); hdr.eight.setInvalid();"""
    first, *rest = bytes.fromhex(packet)
    with switch(program(tmp_path, body, "", LISTED_PARSER, LISTED)) as running:
        out = ask(running, bytes([first]) + bytes(19) + bytes(rest))
    assert int.from_bytes(out[4:20], "big") == int.from_bytes(bytes.fromhex(data), "big")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"outside": "header_union u_t { bit<8> x; }"}, "a header_union is made of headers, and bit<8> is none"),
        ({"outside": "struct s_t { bit<8> x; } header h_t { s_t s; string t; }"}, "a field of type string"),
        ({"outside": "header h_t { error e; }"}, "a header cannot have a field of type error"),
        ({"before": UNION, "body": "hdr.u.setValid();"}, "u_t has no method setValid"),
        ({"before": UNION, "body": "hdr.u = { { 1 }, { 2 } };"}, "u_t is a header_union: assign one of its headers, not a list"),
    ],
)
def test_what_fields_cannot_be(parts: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_(program(tmp_path, **parts))
    assert message in str(caught.value)


def test_an_index_in_a_list_to_hash_is_evaluated_once(tmp_path: Path) -> None:
    outside = "bit<8> next(inout bit<8> n) { n = n + 1; return n - 1; }"
    before = "#define EXTRA_TYPES header label_t { bit<8> v; }\n#define EXTRA_HEADERS label_t[2] labels;"
    body = """standard.egress_spec = 1; bit<8> n = 0; hdr.labels[0].setValid(); hdr.labels[0].v = 9; bit<16> h; bit<16> g;
        hash(h, HashAlgorithm.identity, 16w0, { hdr.labels[next(n)].v, n }, 32w65536); hdr.probe.b = h; hdr.probe.a = n;
        hdr.labels[0].setInvalid();"""
    with switch(program(tmp_path, body, "", outside, before)) as running:
        assert ask(running, bytes(20))[:3] == b"\x01\x09\x01"


def test_types_of_like_names_are_told_apart(tmp_path: Path) -> None:
    outside = "struct S<T> { T x; } struct S_bit_8_ { bit<16> y; }"
    body = """standard.egress_spec = 1; tuple<tuple<bit<8>>, bit<8>> t = { { 1 }, 2 }; tuple<tuple<bit<8>, bit<8>>> u = { { 3, 4 } };
        S<bit<8>> s = { 5 }; S_bit_8_ r = { 6 }; hdr.probe.a = t[0][0] + t[1] + u[0][1] + s.x; hdr.probe.b = r.y;"""
    with switch(program(tmp_path, body, "", outside)) as running:
        assert ask(running, bytes(20))[:3] == b"\x0c\x00\x06"


def test_tuples_are_values(tmp_path: Path) -> None:
    outside = """struct s_t { tuple<bit<8>, bit<16>> t; } tuple<bit<8>, bit<16>> swapped(in tuple<bit<8>, bit<16>> t) {
        return { (bit<8>)t[1], (bit<16>)t[0] }; }"""
    body = """standard.egress_spec = 1; tuple<bit<8>, bit<16>> t = { 3, 5 }; t[1] = t[1] + 1; s_t s; s.t = swapped(t);
        if (s.t == { 6, 3 } && s.t != t) { hdr.probe.a = s.t[0]; hdr.probe.b = s.t[1]; }"""
    with switch(program(tmp_path, body, "", outside)) as running:
        assert ask(running, bytes(20))[:3] == b"\x06\x00\x03"
