"""What compiled programs do: constant entries, order of evaluation, parser loops, the bound of what is deparsed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.switches.embedded.build import build
from inalab.switches.embedded.errors import CompileError
from inalab.switches.embedded.offline import OfflineSwitch
from tests.probe import ask, compile_, program, switch
from tests.scenarios import ETHERNET, PROGRAMS

NONE = 255  # what the default actions of entries.p4 write


def entries(running: OfflineSwitch, address: int = 0, s: int = 0, op: int = 0) -> tuple[int, ...]:
    return tuple(ask(running, struct.pack(">IbB8x", address, s, op))[6:])


@pytest.fixture(scope="module")
def constant() -> Iterator[OfflineSwitch]:
    with OfflineSwitch(build(PROGRAMS / "entries.p4")) as running:
        yield running


@pytest.fixture(scope="module")
def ordered() -> Iterator[OfflineSwitch]:
    with OfflineSwitch(build(PROGRAMS / "order.p4")) as running:
        yield running


@pytest.mark.parametrize(
    ("address", "route"),
    [
        (0x0A000001, 1), (0x0A01FFFF, 2), (0x0A0102FF, 3), (0x0A010203, 4), (0x0A010202, 3), (0x0A020203, 1),
        (0x80000000, 5), (0xFFFFFFFF, 5), (0x7FFFFFFF, 9), (0, 9), (0x0B000000, 9),
    ],
)  # fmt: skip
def test_the_longest_prefix_wins_wherever_it_stands(constant: OfflineSwitch, address: int, route: int) -> None:
    assert entries(constant, address)[0] == route


@pytest.mark.parametrize(
    ("op", "address", "value"),
    [(1, 0x0A000000, 1), (1, 0x0A010203, 2), (1, 0x0B000000, NONE), (2, 0, 3), (2, 0x0A010203, 4), (3, 0x0A010203, NONE)],
)
def test_prefixes_beside_exact_keys(constant: OfflineSwitch, op: int, address: int, value: int) -> None:
    assert entries(constant, address, op=op)[1] == value


@pytest.mark.parametrize(
    ("s", "exact", "ternary", "range_"),
    [
        (-1, 1, 1, NONE), (5, 2, 3, 1), (-128, 3, 2, 4), (127, 4, 3, 2), (0, NONE, NONE, NONE), (1, NONE, 3, 1), (6, NONE, NONE, 2),
        (-16, NONE, 1, NONE), (-17, NONE, 2, NONE), (-10, NONE, 1, 3), (-5, NONE, 1, 3), (-4, NONE, 1, NONE), (-11, NONE, 1, NONE),
    ],
)  # fmt: skip
def test_signed_keys(constant: OfflineSwitch, s: int, exact: int, ternary: int, range_: int) -> None:
    assert entries(constant, s=s)[2:5] == (exact, ternary, range_)


@pytest.mark.parametrize(("op", "value"), [(0x10, 1), (0x11, 3), (0x12, 1), (0x21, 3), (0x20, NONE)])
def test_the_lowest_priority_wins(constant: OfflineSwitch, op: int, value: int) -> None:
    assert entries(constant, op=op)[5] == value


def test_signed_keys_from_commands() -> None:
    with OfflineSwitch(build(PROGRAMS / "entries.p4")) as running:
        running.command("table_add added_signed added 0xff => 1")
        running.command("table_add added_signed added 0x80 => 2")
        assert [entries(running, s=s)[6] for s in (-1, -128, 127, 1)] == [1, 2, NONE, NONE]


def test_a_signed_key_of_some_bits_has_no_more(tmp_path: Path) -> None:
    """-1 of 12 bits is 0xfff to a command, whatever holds it in C."""
    path = program(
        tmp_path,
        body="bit<12> low = hdr.probe.b[11:0]; key = (int<12>)low; keyed.apply(); standard.egress_spec = 1;",
        locals_="""int<12> key;
        action found(bit<8> value) { hdr.probe.a = value; }
        table keyed { key = { key : exact; } actions = { found; NoAction; } default_action = NoAction(); }""",
    )
    with switch(path) as running:
        running.command("table_add keyed found 0xfff => 7")
        running.command("table_add keyed found 0x800 => 8")
        low = [ask(running, struct.pack(">BHb16x", 0, b, 0))[0] for b in (0xFFF, 0x800, 0x7FF, 0xF800)]
    assert low == [7, 8, 0, 8]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        # op, x, y, i, labels
        ((1, 5, 0, 0), (6, 11, 0, (0, 1, 2))),
        ((2, 5, 0, 0), (6, 12, 0, (0, 1, 2))),
        ((3, 5, 0, 0), (5, 0, 1, (0, 7, 2))),
        ((4, 5, 0, 1), (5, 0, 2, (0, 2, 2))),
        ((5, 5, 0, 0), (6, 0x56, 0, (0, 1, 2))),
        ((6, 5, 0, 0), (2, 0, 0, (0, 1, 2))),
        ((7, 5, 0, 1), (5, 0, 2, (0, 7, 2))),
        ((8, 5, 0, 2), (5, 0, 2, (0, 1, 2))),
        ((8, 5, 0, 1), (5, 0, 1, (0, 1, 2))),
        ((9, 5, 0, 0), (6, 0x56, 0, (0, 1, 2))),
        ((10, 5, 0, 0), (6, 0, 0, (0, 1, 2))),
        ((11, 5, 0, 0), (6, 6, 0, (0, 1, 2))),
        ((11, 5, 0, 1), (5, 9, 1, (0, 1, 2))),
        ((12, 3, 0, 0), (4, 4, 0, (0, 1, 2))),
        ((13, 0x1F, 0, 0), (0x20, 0, 0, (0, 1, 2))),
        ((14, 5, 0, 0), (6, 5, 0, (0, 1, 2))),
        ((15, 5, 0, 1), (5, 5, 2, (0, 1, 3))),
        ((16, 5, 0, 0), (5, 3, 2, (0, 1, 2))),
        ((17, 0x5A, 0, 0), (0xA5, 0, 0, (0, 1, 2))),
        ((18, 3, 0, 0), (3, 0, 0, (0, 1, 2))),
        ((18, 3, 0, 1), (4, 4, 1, (0, 1, 2))),
        ((19, 0, 0, 0), (0, 0, 1, (1, 1, 2))),
        ((20, 0, 0, 0), (0, 1, 0, (0, 1, 2))),
        ((21, 0, 0, 0), (0, 0, 0, (0, 1, 2))),
        ((22, 0, 0, 0), (0, 1, 0, (0, 1, 2))),
    ],
)
def test_expressions_are_evaluated_from_left_to_right_and_once(
    ordered: OfflineSwitch, given: tuple[int, ...], wanted: tuple[int, int, int, tuple[int, ...]]
) -> None:
    out = ask(ordered, bytes([*given, 0, 1, 2]))
    assert (out[1], out[2], out[3], tuple(out[4:])) == wanted


@pytest.mark.timeout(60)
def test_parsers_that_loop_for_ever_end_with_a_timeout_and_others_do_not() -> None:
    with OfflineSwitch(build(PROGRAMS / "loops.p4")) as running:

        def error_of(op: int, count: int = 0, tail: bytes = b"") -> int:
            return ask(running, struct.pack(">BHB", op, count, 0) + tail)[3]

        assert [error_of(op) for op in (1, 2, 5)] == [1, 1, 1]
        assert error_of(3, tail=bytes(9000) + b"\xff") == 0
        assert error_of(3, tail=bytes(9000)) == 2
        assert [error_of(4, count) for count in (1, 20_000, 65_535)] == [0, 0, 0]
        assert error_of(0) == 0


BIG = """#define EXTRA_TYPES header big_t {{ bit<1024> v; }} header opt_t {{ bit<8> n; varbit<{varbit}> data; }}
#define EXTRA_HEADERS big_t[{stack}] stack; opt_t opt;"""
HEADERS = len(ETHERNET) + 20  # Ethernet and the probe of tests.probe


def bounded(folder: Path, stack: int = 1, varbit: int = 8, deparser: str | None = None) -> Path:
    path = program(folder, before=BIG.format(stack=stack, varbit=varbit))
    if deparser is not None:
        frame = (PROGRAMS / "frame.p4").read_text().replace("packet.emit(hdr);", deparser)
        assert deparser in frame
        (folder / "frame.p4").write_text(frame)
    return path


@pytest.mark.parametrize(
    ("parts", "size"),
    [
        ({"stack": 79, "varbit": 8 * (10240 - HEADERS - 79 * 128 - 1)}, 10240),
        ({"stack": 79, "varbit": 8 * (10240 - HEADERS - 79 * 128)}, 10241),
        ({"stack": 80}, 80 * 128 + HEADERS + 2),
        ({"varbit": 81920}, 10240 + 1 + 128 + HEADERS),
        ({"stack": 40, "deparser": "packet.emit(hdr.stack); packet.emit(hdr.stack);"}, 10240),
        ({"stack": 41, "deparser": "packet.emit(hdr.stack); packet.emit(hdr.stack);"}, 10496),
        ({"stack": 60, "deparser": "if (true) { packet.emit(hdr.stack); } else { packet.emit(hdr.stack); }"}, 7680),
        ({"stack": 60, "deparser": "if (true) { packet.emit(hdr.stack); } packet.emit(hdr.stack);"}, 15360),
        ({"stack": 60, "deparser": "packet.emit({ hdr.stack[0], hdr.probe }); packet.emit(hdr.stack);"}, 60 * 128 + 148),
        ({"stack": 60, "deparser": "packet.emit({ hdr.stack, hdr.stack });"}, 15360),
    ],
)
def test_what_the_deparser_can_emit_is_bounded(parts: dict[str, object], size: int, tmp_path: Path) -> None:
    path = bounded(tmp_path, **parts)  # type: ignore[arg-type]
    if size <= 10240:
        compile_(path)
        return
    with pytest.raises(CompileError, match=rf"frame.p4:\d+:\d+: error: the deparser can emit {size} bytes .* at most 10240: make"):
        compile_(path)


def test_the_largest_deparser_is_as_long_as_a_packet(tmp_path: Path) -> None:
    path = bounded(tmp_path, stack=79, varbit=8 * (10240 - HEADERS - 79 * 128 - 1))
    text = path.read_text().replace(
        "    apply {", "    apply { standard.egress_spec = 1; " + "".join(f"hdr.stack[{i}].setValid(); " for i in range(79))
    )
    path.write_text(text)
    with OfflineSwitch(build(path, {}, [PROGRAMS.resolve()])) as running:
        room = 10240 - len(ETHERNET) - 20 - 79 * 128
        assert len(ask(running, bytes(20) + bytes(room))) == 20 + 79 * 128 + room
        assert ask(running, bytes(20) + bytes(room + 1)) == b""  # dropped, and counted
