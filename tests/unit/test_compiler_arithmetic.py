"""Operators at odd widths: folded when compiling, and computed by the switch, against a model in Python integers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe import ask, program, switch

WIDTHS = [((8, 13, 32, 33, 63, 64), 64), ((65,), 256), ((104,), 256), ((128,), 256), ((200,), 256)]  # and the bits of results
OPERATORS = ("+", "-", "*", "&", "|", "^", "|+|", "|-|", "<<", ">>", "/", "%")
W100, ALL = 0x8123456789ABCDEF012345678, (1 << 64) - 1
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def typed(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def model(operator: str, a: int, b: int, width: int, signed: bool) -> int:
    """The bits of a result (P4_16, sections 8.5 to 8.7)."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    exact = {
        "+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b,
        "|+|": min(max(a + b, low), high), "|-|": min(max(a - b, low), high), "<<": a << b % 256, ">>": a >> b % 256,
        "/": a // (b or 1), "%": a % (b or 1),
    }[operator]  # fmt: skip
    return exact & ((1 << width) - 1)


def pairs(width: int, signed: bool) -> list[tuple[int, int]]:
    most = (1 << (width - signed)) - 1
    values = [0, 1, most, most - 1, most // 3] + ([-1, -most - 1] if signed else [])
    return [(a, b) for a in values for b in values]


def literal(value: int, width: int, signed: bool) -> str:
    """A constant of a type; the smallest signed number is no literal in P4."""
    letter = "s" if signed else "w"
    if value >= 0:
        return f"{width}{letter}{value}"
    return f"(-{width}s{-value - 1} - {width}s1)"


@pytest.mark.parametrize(("widths", "room"), WIDTHS)
def test_folded_and_computed_results_are_those_of_the_model(tmp_path: Path, widths: tuple[int, ...], room: int) -> None:
    lines: list[str] = []
    wanted: list[int] = []
    types = ["header results_t {"]
    for width in widths:
        for signed in (False, True):
            kind = f"{'int' if signed else 'bit'}<{width}>"
            chosen = pairs(width, signed)
            for n, operator in enumerate(OPERATORS):
                if operator in ("/", "%") and (signed or width > 64):
                    continue
                for a, b in chosen[n % 3 :: 9]:
                    if operator in ("<<", ">>"):
                        b = abs(b) % (width - 1)  # beyond it p4c warns
                    if operator in ("/", "%"):
                        b = max(b, 1)
                    amount = f"{b}" if operator in ("<<", ">>") else literal(b, width, signed)
                    folded = f"(bit<{room}>)(bit<{width}>)({literal(a, width, signed)} {operator} {amount})"
                    right = f"8w{b}" if operator in ("<<", ">>") else "b"
                    k = len(wanted)
                    lines.append(
                        f"{{ {kind} a = {literal(a, width, signed)}; {kind} b = {literal(b, width, signed)}; "
                        f"hdr.results.r{k} = {folded}; hdr.results.r{k + 1} = (bit<{room}>)(bit<{width}>)(a {operator} {right}); }}"
                    )
                    wanted += [model(operator, a, b, width, signed)] * 2
    types += [f"bit<{room}> r{k};" for k in range(len(wanted))]
    before = f"#define EXTRA_TYPES {' '.join(types)} }}\n#define EXTRA_HEADERS results_t results;"
    body = "standard.egress_spec = 1; hdr.results.setValid(); " + " ".join(lines)
    with switch(program(tmp_path, body, before=before)) as running:
        out = ask(running, bytes(20))[20:]
    size = room // 8
    assert len(out) == size * len(wanted)
    found = [int.from_bytes(out[size * k : size * k + size], "big") for k in range(len(wanted))]
    wrong = [(lines[k // 2], hex(f), hex(w)) for k, (f, w) in enumerate(zip(found, wanted, strict=True)) if f != w]
    assert not wrong, wrong[:3]


def test_comparisons_folded_and_computed(tmp_path: Path) -> None:
    lines = []
    wanted = []
    for width in (8, 33, 64, 65, 128):
        for signed in (False, True):
            kind = f"{'int' if signed else 'bit'}<{width}>"
            for a, b in pairs(width, signed)[::3]:
                tests = [f"({{0}} {operator} {{1}} ? 64w{1 << n} : 64w0)" for n, operator in enumerate(COMPARISONS)]
                text = " | ".join(tests)
                k = len(wanted)
                folded = text.format(literal(a, width, signed), literal(b, width, signed))
                lines.append(
                    f"{{ {kind} a = {literal(a, width, signed)}; {kind} b = {literal(b, width, signed)}; "
                    f"hdr.results.r{k} = {folded}; hdr.results.r{k + 1} = {text.format('a', 'b')}; }}"
                )
                results = (a == b, a != b, a < b, a <= b, a > b, a >= b)
                wanted += [sum(result << n for n, result in enumerate(results))] * 2
    fields = " ".join(f"bit<64> r{k};" for k in range(len(wanted)))
    before = f"#define EXTRA_TYPES header results_t {{ {fields} }}\n#define EXTRA_HEADERS results_t results;"
    with switch(
        program(tmp_path, "standard.egress_spec = 1; hdr.results.setValid(); " + " ".join(lines), before=before)
    ) as running:
        out = ask(running, bytes(20))[20:]
    assert [int.from_bytes(out[8 * k : 8 * k + 8], "big") for k in range(len(wanted))] == wanted


def test_casts_slices_and_concatenation(tmp_path: Path) -> None:
    """Each with constants and with variables."""
    cases = [
        ("(bit<64>)(bit<16>)(int<16>)({s8})", 0xFFF6), ("(bit<64>)(bit<5>)({b13})", 0x1555 & 31), ("(bit<64>)({b13}[9:2])", 0x55),
        ("(bit<64>)({b13} ++ {b8})", 0x1555 << 8 | 0xA9), ("(bit<64>)({b8} ++ {b13})", 0xA9 << 13 | 0x1555),
        ("(bit<64>)(bit<21>)({s8} ++ (int<13>){s8})", (0xF6 << 13 | (0xFFF6 & 0x1FFF))), ("(bit<64>)(bit<8>)({s8} >> 2)", 0xFD),
        ("(bit<64>)(bit<40>)(int<40>)({s8} ++ (int<13>){s8})", 0xFFFFE00000 | 0xF6 << 13 | 0x1FF6),
        ("(bit<64>)(bit<8>)(int<8>)({b8})", 0xA9), ("(bit<64>)(bit<40>)({b8})", 0xA9), ("(bit<64>)(bit<8>)(-{s8})", 10),
        ("(bit<64>)(bit<40>)(int<40>)({s8})", 0xFFFFFFFFF6), ("(bit<64>)(~{b13})", 0x0AAA), ("(bit<64>)(-{b13})", 0x0AAB),
        ("(bit<64>)({w100} >> 60)", W100 >> 60), ("({w100} << 60)[99:36]", (W100 << 60 & (1 << 100) - 1) >> 36),
        ("(bit<64>)(bit<128>)(int<128>)(int<100>){w100}", W100 & ALL), ("((int<128>)(int<100>){w100} < 0 ? 64w1 : 64w2)", 1),
        ("(({b8} ++ {w100}) ++ {b13})[120:57]", (0xA9 << 113 | W100 << 13 | 0x1555) >> 57 & ALL),
        ("((int<80>){s8})[79:16]", ALL), ("(bit<64>)((-{w100})[99:70])", (-W100 >> 70) & (1 << 30) - 1),
        ("({b8} == 8w169 ? 64w1 : 64w2)", 1), ("({b8} != 8w169 ? 64w1 : 64w2)", 2), ("(bit<64>)(bit<1>)(bool)({b13}[0:0])", 1),
    ]  # fmt: skip
    constants = {"s8": "(-8s10)", "b8": "8w169", "b13": "13w5461", "w100": "100w0x8123456789ABCDEF012345678"}
    variables = {name: name for name in constants}
    texts = [text.format(**names) for text, _ in cases for names in (constants, variables)]
    fields = " ".join(f"bit<64> r{k};" for k in range(len(texts)))
    before = f"#define EXTRA_TYPES header results_t {{ {fields} }}\n#define EXTRA_HEADERS results_t results;"
    body = "int<8> s8 = -10; bit<8> b8 = 169; bit<13> b13 = 5461; bit<100> w100 = 0x8123456789ABCDEF012345678; standard.egress_spec = 1; hdr.results.setValid(); "
    body += " ".join(f"hdr.results.r{k} = {text};" for k, text in enumerate(texts))
    with switch(program(tmp_path, body, before=before)) as running:
        out = ask(running, bytes(20))[20:]
    found = [int.from_bytes(out[8 * k : 8 * k + 8], "big") for k in range(len(texts))]
    assert list(zip(texts, found, strict=True)) == [
        (texts[2 * k + j], wanted) for k, (_, wanted) in enumerate(cases) for j in (0, 1)
    ]


def test_long_wide_expressions_do_not_grow_without_bound(tmp_path: Path) -> None:
    """In C each operand's text must stand once, whatever is around it."""
    fields = "bit<160> w; bit<128> s;"
    before = f"#define EXTRA_TYPES header results_t {{ {fields} }}\n#define EXTRA_HEADERS results_t results;"
    body = "standard.egress_spec = 1; hdr.results.setValid(); bit<16> b = 0x1234; bit<128> one = 1; "
    body += f"hdr.results.w = {' ++ '.join(['b'] * 10)}; hdr.results.s = {' + '.join(['one'] * 40)};"
    with switch(program(tmp_path, body, before=before)) as running:
        assert ask(running, bytes(20))[20:] == b"\x12\x34" * 10 + (40).to_bytes(16, "big")


def test_hashes_and_random_numbers_are_of_the_types_they_go_to(tmp_path: Path) -> None:
    before = (
        "#define EXTRA_TYPES header results_t { int<16> h; int<8> low; int<8> high; }\n#define EXTRA_HEADERS results_t results;"
    )
    body = """standard.egress_spec = 1; hdr.results.setValid(); int<12> h; hash(h, HashAlgorithm.identity, 16w0, { 16w0x0fff }, 32w0x10000);
        hdr.results.h = (int<16>)h; hdr.results.low = 0; hdr.results.high = 0; int<8> r;
        for (bit<8> i in 0 .. 200) { random(r, -8s5, 8s5); if (r < hdr.results.low) { hdr.results.low = r; }
            if (r > hdr.results.high) { hdr.results.high = r; } }"""
    with switch(program(tmp_path, body, before=before)) as running:
        assert ask(running, bytes(20))[20:] == b"\xff\xff\xfb\x05"


def test_commands_reach_what_a_program_declares_and_nothing_else(tmp_path: Path) -> None:
    """Registers that share a bank, names with paths, and a table that nothing applies."""
    locals_ = """
        register<bit<16>>(4) one; register<bit<16>>(4) two; register<bit<16>>(4) three; register<bit<16>>(4) four; register<int<8>>(4) alone;
        counter(3, CounterType.packets) seen;
        action put(in bit<8> u, bit<8> v) { hdr.probe.a = u + v; }
        table used { key = { hdr.probe.a : exact; } actions = { put(hdr.probe.a); NoAction; } default_action = put(hdr.probe.a, 3); }
        table unused { key = { hdr.probe.a : exact; } actions = { NoAction; } }"""
    body = """standard.egress_spec = 1; used.apply(); seen.count(2);
        one.write(1, 11); two.write(1, 12); three.write(2, 13); four.write(3, 14); alone.write(3, -5);"""
    with switch(program(tmp_path, body, locals_)) as running:
        assert ask(running, b"\x07" + bytes(19))[0] == 10
        assert running.command("show_tables") == "Work.used\n"
        for name, cell, value in (
            ("one", 1, 11),
            ("two", 1, 12),
            ("three", 2, 13),
            ("four", 3, 14),
            ("alone", 3, 0xFB),
            ("two", 2, 0),
        ):
            assert running.command(f"register_read Work.{name} {cell}").split("=")[1].strip() == str(value)
        assert [running.counter("seen", cell) for cell in range(3)] == [0, 0, 1]
        running.command("register_write three 1 77")
        assert running.command("register_read one 1").split("=")[1].strip() == "11"
