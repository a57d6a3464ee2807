"""Loops and assignments with an operator (specification 1.2.5, sections 12.8 and 12.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.switches.embedded.errors import CompileError
from tests.probe import ask, compile_, program, switch

LABELS = "#define EXTRA_TYPES header label_t { bit<8> v; }\n#define EXTRA_HEADERS label_t[3] labels;"
NEXT = "bit<32> next(inout bit<8> n) { n = n + 1; return (bit<32>)n - 1; }"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("for (bit<8> i = 0; i < 5; i = i + 1) { b += (bit<16>)i; }", 10),
        ("for (bit<8> i = 0, bit<8> j = 9; i < j; i += 1, j -= 1) { b += 1; }", 5),
        ("bit<8> i = 0; for (; i < 3;) { i += 1; b += 2; }", 6),
        ("for (bit<8> i in 1 .. 4) { b += (bit<16>)i; }", 10),
        ("for (bit<8> i in 250 .. 255) { b += 1; }", 6),
        ("for (bit<8> i in 5 .. 4) { b += 1; }", 0),
        ("for (int<8> i in -2 .. 2) { b += 1; }", 5),
        ("for (bit<64> i in 0xFFFFFFFFFFFFFFFE .. 0xFFFFFFFFFFFFFFFF) { b += 1; }", 2),
        ("for (bit<8> i = 0; i < 9; i += 1) { if (i == 3) { i = 5; continue; } b += 1; }", 6),
        ("for (bit<8> i in 0 .. 9) { if (i == 3) { continue; } if (i == 6) break; b += (bit<16>)i; }", 12),
        ("for (bit<8> i in 0 .. 2) { for (bit<8> j in 0 .. 9) { if (j > i) { break; } b += 1; } }", 6),
        ("for (bit<8> i in 0 .. 9) { switch (i) { 2: { continue; } 4: { break; } default: { b += 1; } } }", 3),
        ("for (bit<8> i in 0 .. 2) { bit<8> fresh; fresh = i; i = 7; b += (bit<16>)fresh; }", 3),
        ("b = sum(10);", 55),
        ("hdr.labels[1].setValid(); hdr.labels[1].v = 4; for (label_t l in hdr.labels) { if (l.isValid()) { b += (bit<16>)l.v; } } "
         "hdr.labels[1].setInvalid();", 4),
        ("b = 7; b |= 8; b &= 0xE; b ^= 1; b <<= 4; b >>= 1; b *= 3; b /= 2; b %= 100;", 80),
        ("b = 0xFFF0; b |+|= 100; b -= 0xFF00; b |-|= 0xFFFF; b += 3;", 3),
        ("b[7:4] = 5; b[7:4] += 12; b[3:0] |= 2;", 0x12),
        ("hdr.labels[0].setValid(); hdr.labels[0].v = 3; bit<8> n = 0; hdr.labels[next(n)].v += n; b = (bit<16>)hdr.labels[0].v; "
         "hdr.labels[0].setInvalid();", 4),
    ],
)  # fmt: skip
def test_loops_do_what_they_say(body: str, wanted: int, tmp_path: Path) -> None:
    outside = f"{NEXT} bit<16> sum(in bit<16> n) {{ bit<16> s = 0; for (bit<16> i in 1 .. n) {{ s += i; }} return s; }}"
    text = f"standard.egress_spec = 1; bit<16> b = 0; {body} hdr.probe.b = b;"
    with switch(program(tmp_path, text, "", outside, LABELS)) as running:
        assert int.from_bytes(ask(running, bytes(20))[1:3], "big") == wanted


def test_a_loop_in_an_action_is_left_by_return_and_exit(tmp_path: Path) -> None:
    locals_ = """action f(bit<8> most) { for (bit<8> i in 0 .. 9) { if (i == most) { return; } hdr.probe.a = i; } }
        action g() { for (bit<8> i in 0 .. 9) { if (i == 2) { exit; } hdr.probe.s += 1; } }"""
    with switch(program(tmp_path, "standard.egress_spec = 1; f(4); g(); hdr.probe.a = 99;", locals_)) as running:
        out = ask(running, bytes(20))
    assert (out[0], out[3]) == (3, 2)


def test_a_loop_that_never_ends_is_left(tmp_path: Path) -> None:
    """And the next packet finds the switch alive."""
    body = "standard.egress_spec = 1; for (bit<8> i = 0; true; i += 1) { if (hdr.probe.a == 0) { break; } } hdr.probe.b = 1;"
    with switch(program(tmp_path, body)) as running:
        for _ in range(3):
            assert ask(running, b"\x01" + bytes(19))[1:3] == b"\x00\x01"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("break;", "this belongs in a loop"),
        ("for (bit<8> i in 0 .. 300) { }", "value does not fit"),
        ("for (bit<8> i in hdr.probe.a) { }", "a loop goes over low .. high, or over a stack of bit<8>; this is bit<8>"),
        ("hdr.probe.a += hdr.probe.b;", "the operands are bit<8> and bit<16>: cast one of them"),
    ],
)
def test_what_a_loop_cannot_be(body: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        compile_(program(tmp_path, body))
    except CompileError as error:
        assert message in str(error)
    else:
        assert message in capsys.readouterr().err
