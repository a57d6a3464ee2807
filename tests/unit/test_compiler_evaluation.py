"""Copy-in and copy-out (specification, section 6.8), order of evaluation (8.1), validity and comparison of headers (8.17), and generic
functions and controls (8.20, 11.3): what compiled programs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.switches.embedded.errors import CompileError
from tests.probe import ask, compile_, program, switch

ZERO = bytes(20)
PAIR = "struct pair_t { bit<8> x; bit<8> y; }"
LABELS = "#define EXTRA_TYPES header label_t { bit<8> v; }\n#define EXTRA_HEADERS label_t[3] labels;"


def first(tmp_path: Path, data: bytes = ZERO, **parts: str) -> bytes:
    """The probe's first field, a, and the two bytes of its second, b, after the program has handled it."""
    body = parts.pop("body")
    with switch(program(tmp_path, f"standard.egress_spec = 1; {body}", **parts)) as running:
        return ask(running, data)[:3]


CASES: dict[str, tuple[dict[str, str], bytes]] = {
    "an index on the left side is evaluated before the right side, once": (
        {
            "before": LABELS,
            "outside": "bit<32> next(inout bit<8> n) { n = n + 1; return (bit<32>)n - 1; }",
            "body": """hdr.labels[0].setValid(); hdr.labels[1].setValid(); bit<8> n = 0;
                hdr.labels[next(n)].v = n; hdr.probe.a = hdr.labels[0].v; hdr.probe.b[7:0] = n;
                hdr.labels[0].setInvalid(); hdr.labels[1].setInvalid();""",
        },
        b"\x01\x00\x01",
    ),
    "arguments are copied in from left to right, and out in the same order": (
        {
            "outside": "void both(out bit<8> u, out bit<8> v) { u = 1; v = 2; }",
            "body": "both(hdr.probe.a, hdr.probe.a);",
        },
        b"\x02\x00\x00",
    ),
    "what is copied out is not seen before the call is over": (
        {
            "locals_": "action twice(inout bit<8> u) { u = u + 1; hdr.probe.b[7:0] = hdr.probe.a; }",
            "body": "hdr.probe.a = 5; twice(hdr.probe.a);",
        },
        b"\x06\x00\x05",
    ),
    "a struct given twice has two copies": (
        {
            "outside": f"{PAIR} void swap(inout pair_t p, inout pair_t q) {{ p.x = q.y; q.y = 9; p.y = 7; }}",
            "body": "pair_t s = { 1, 2 }; swap(s, s); hdr.probe.a = s.x; hdr.probe.b[7:0] = s.y;",
        },
        b"\x01\x00\x09",
    ),
    "a header that an action changes while it has a copy of it": (
        {
            "locals_": "action f(inout probe_t h) { hdr.probe.a = 3; h.b = 4; }",
            "body": "hdr.probe.a = 1; f(hdr.probe);",
        },
        b"\x01\x00\x04",
    ),
    "an out header is invalid at first": (
        {
            "outside": "bool is(out ethernet_t e) { return e.isValid(); }",
            "body": "ethernet_t e = { 1, 2, 3 }; if (!is(e) && !e.isValid()) { hdr.probe.a = 1; }",
        },
        b"\x01\x00\x00",
    ),
    "a control that is given overlapping structs works on copies": (
        {
            "outside": f"{PAIR} control C(inout pair_t p, in pair_t q) {{ apply {{ p.x = 5; p.y = q.x; }} }}",
            "locals_": "C() c; pair_t s;",
            "body": "s = { 1, 2 }; c.apply(s, s); hdr.probe.a = s.x; hdr.probe.b[7:0] = s.y;",
        },
        b"\x05\x00\x01",
    ),
    "a control applied to two structs": (
        {
            "outside": f"{PAIR} control C(inout pair_t p) {{ apply {{ p.x = p.x + p.y; }} }}",
            "locals_": "C() c; pair_t lasting;",
            "body": """pair_t s = { 1, 2 }; lasting = { 10, 20 }; c.apply(s); c.apply(lasting);
                hdr.probe.a = s.x; hdr.probe.b[7:0] = lasting.x;""",
        },
        b"\x03\x00\x1e",
    ),
    "a control given to another's constructor": (
        {
            "outside": """control Step(inout bit<8> v); control One(inout bit<8> v) { apply { v = v + 1; } }
                control Twice(inout bit<8> v)(Step s) { apply { s.apply(v); s.apply(v); } }""",
            "locals_": "One() one; Twice(one) twice;",
            "body": "twice.apply(hdr.probe.a);",
        },
        b"\x02\x00\x00",
    ),
    "a function that writes its argument is called once, in its turn": (
        {
            "outside": "bit<8> f(inout probe_t p) { p.a = p.a + 1; return p.a; } bit<8> sum(in bit<8> u, in bit<8> v) { return u * 16 + v; }",
            "body": "hdr.probe.a = 3; bit<8> x = 100 / f(hdr.probe); bit<8> y = sum(hdr.probe.a, f(hdr.probe)); "
            "hdr.probe.b = (bit<16>)(x ++ y);",
        },
        b"\x05\x19\x45",
    ),
    "a slice is written into what a function has left": (
        {
            "outside": "bit<4> f(inout probe_t p) { p.a = 0x20; return 5; }",
            "body": "hdr.probe.a = 0x10; hdr.probe.a[3:0] = f(hdr.probe);",
        },
        b"\x25\x00\x00",
    ),
    "functions return structs and headers": (
        {
            "outside": f"""{PAIR} pair_t make(in bit<8> x) {{ pair_t p; p.x = x; p.y = x + 1; return p; }}
                ethernet_t frame(in ethernet_t e) {{ return e; }}""",
            "body": "hdr.probe.a = make(4).y; if (frame(hdr.ethernet).isValid()) { hdr.probe.b = 1; }",
        },
        b"\x05\x00\x01",
    ),
    "headers are equal if both are invalid, or both are valid and their fields are equal": (
        {
            "body": """ethernet_t e; ethernet_t f; if (e == f) { hdr.probe.a = 1; }
                e = hdr.ethernet; if (e == hdr.ethernet && e != f) { hdr.probe.a = hdr.probe.a + 2; }
                e.setInvalid(); if (e == f) { hdr.probe.a = hdr.probe.a + 4; }""",
        },
        b"\x07\x00\x00",
    ),
    "a header is compared with a list": (
        {"body": "ethernet_t e = { 1, 2, 3 }; if (e == { 1, 2, 3 } && { 1, 2, 4 } != e) { hdr.probe.a = 1; }"},
        b"\x01\x00\x00",
    ),
    "fields of a list by name stand in any order": (
        {
            "outside": f"{PAIR} bit<8> difference(in pair_t p) {{ return p.x - p.y; }}",
            "body": "hdr.probe.a = difference({ y = 2, x = 9 });",
        },
        b"\x07\x00\x00",
    ),
    "arguments by name stand in any order": (
        {"outside": "bit<8> less(in bit<8> u, in bit<8> v) { return u - v; }", "body": "hdr.probe.a = less(v = 2, u = 9);"},
        b"\x07\x00\x00",
    ),
    "an extern's arguments by v1model's names": (
        {"body": "hash(max = 16w1000, base = 16w7, data = { hdr.probe.b }, algo = HashAlgorithm.identity, result = hdr.probe.b);"},
        b"\x00\x00\x07",
    ),
    "a default value of a parameter": (
        {"outside": "bit<8> less(in bit<8> u, in bit<8> v = 3) { return u - v; }", "body": "hdr.probe.a = less(9);"},
        b"\x06\x00\x00",
    ),
    "a slice of a slice is written": ({"body": "hdr.probe.b[11:4][5:2] = 0xf;"}, b"\x00\x03\xc0"),
    "a slice of a slice is read": ({"body": "hdr.probe.b = 0x03c0; hdr.probe.a = (bit<8>)hdr.probe.b[11:4][5:2];"}, b"\x0f\x03\xc0"),
    "a generic function": (
        {
            "outside": "T larger<T>(in T u, in T v) { T r = u; if (u < v) { r = v; } return r; }",
            "body": "hdr.probe.a = larger(hdr.probe.a, 5); hdr.probe.b = larger<bit<16>>(300, 299);",
        },
        b"\x05\x01\x2c",
    ),
    "a generic struct and a generic control": (
        {
            "outside": """struct two_t<T> { T x; T y; } control Add<T>(inout two_t<T> p) { apply { p.x = p.x + p.y; } }""",
            "locals_": "Add<bit<16>>() add;",
            "body": "two_t<bit<16>> p = { 300, 2 }; add.apply(p); hdr.probe.b = p.x;",
        },
        b"\x00\x01\x2e",
    ),
    "?: evaluates one side": (
        {
            "outside": "bit<8> up(inout bit<8> n) { n = n + 1; return n; }",
            "body": "bit<8> n = 0; hdr.probe.a = hdr.probe.a == 0 ? up(n) : up(n) + up(n); hdr.probe.b[7:0] = n;",
        },
        b"\x01\x00\x01",
    ),
    "a type of v1model's name is the program's own": ({"outside": "typedef bit<8> MeterType;", "body": "MeterType m = 7; hdr.probe.a = m;"}, b"\x07\x00\x00"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_the_specification_says_happens(name: str, tmp_path: Path) -> None:
    parts, expected = CASES[name]
    assert first(tmp_path, **dict(parts)) == expected


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"body": "hdr.prbe.a = 1;"}, "has no field prbe: did you mean probe?"),
        ({"body": "bit<8> total = 1; hdr.probe.a = totl;"}, "totl is not declared: did you mean total?"),
        ({"outside": "T none<T>() { T r; return r; }", "body": "hdr.probe.a = none();"}, "type parameter T of none is not known here"),
        ({"outside": "bit<8> f(in bit<8> u) { return u; }", "body": "hdr.probe.a = f(v = 1);"}, "f has no parameter v"),
        ({"body": "static_assert(1 == 2, \"sizes\");"}, "static_assert failed: sizes"),
    ],
)  # fmt: skip
def test_messages_tell_what_was_meant(parts: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_(program(tmp_path, **parts))
    assert message in str(caught.value)
