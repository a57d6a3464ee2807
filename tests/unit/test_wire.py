"""The packets of the hosts and the headers of the P4 programs are the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as with_default
from pathlib import Path
from types import ModuleType

import pytest

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire
from inalab.switches import atp, sizes, switchml
from inalab.switches.embedded import syntax as s
from inalab.switches.embedded.check import RULES
from inalab.switches.embedded.check.context import Checker, Constant
from inalab.switches.embedded.check.resolve import declare_constant, declare_type
from inalab.switches.embedded.parse import parse
from inalab.switches.embedded.preprocess import preprocess
from inalab.switches.embedded.types import EnumType, Header, bit_width


@dataclass(frozen=True)
class Declared:
    """What a P4 source declares: headers, constants with their values, and enums with their members' values."""

    headers: dict[str, Header] = with_default(default_factory=dict)
    constants: dict[str, int] = with_default(default_factory=dict)
    enums: dict[str, dict[str, int]] = with_default(default_factory=dict)


def declared(source: Path, k: int = 64, include_dirs: Sequence[Path] = ()) -> Declared:
    """The declarations of a file and of what it includes."""
    c, found = Checker(RULES), Declared()
    for node in parse(preprocess(source, {"K": str(k)}, list(include_dirs))).declarations:
        if isinstance(node, s.Constant):
            declare_constant(c, node, c.top)
            symbol = c.top.find(node.name)
            assert isinstance(symbol, Constant) and isinstance(symbol.value, int)
            found.constants[node.name] = symbol.value
        elif isinstance(node, (s.Composite, s.Typedef, s.Enum)):
            declare_type(c, node, c.top)
            type_ = c.top.find(node.name).type  # type: ignore[union-attr]
            if isinstance(type_, Header):
                found.headers[node.name] = type_
            elif isinstance(type_, EnumType) and type_.underlying:
                found.enums[node.name] = dict(zip(type_.members, type_.values, strict=True))
    return found


def of_program(program: str, k: int = 64) -> Declared:
    """Headers, constants and enums of a program's packets."""
    return declared(Path(f"p4/include/{program}/headers.p4"), k)


@pytest.mark.parametrize("k", [32, 64, 256])
def test_same_layout_as_the_program(k: int) -> None:
    headers = of_program("switchml", k).headers
    offset = 0
    record = wire.packet(k)
    for field in headers["switchml_t"].fields:
        kind, at = record.fields[field.name][:2]  # type: ignore[index]
        assert (at * 8, kind.itemsize * 8) == (offset, bit_width(field.type)), field.name
        offset += bit_width(field.type)
    assert [f.name for f in headers["switchml_t"].fields] == list(wire.HEADER.names or ())
    assert headers["tag_t"].width == 8 * (wire.BARE.itemsize - wire.HEADER.itemsize)
    assert headers["vector_t"].width == 32 * k == 8 * (record.itemsize - wire.HEADER.itemsize)


def test_overhead_is_the_papers() -> None:
    """82 bytes beside the integers: 75.7 % efficiency at 64 integers, 92.6 % at 256 (slide)."""
    assert wire.bits_on_wire(0) == 8 * 82
    assert round(64 * 32 / wire.bits_on_wire(64), 3) == 0.757
    assert round(256 * 32 / wire.bits_on_wire(256), 3) == 0.926


@pytest.mark.parametrize("k", [32, 64, 256])
def test_same_layout_as_the_atp_program(k: int) -> None:
    """Bit fields of the program lie in one byte, `flags`, or in one word, `owner`, of the hosts' record."""
    atp_packet = of_program("atp", k)
    headers = atp_packet.headers
    record = atp_wire.packet(k)
    at, offset = {}, 0
    for field in headers["atp_t"].fields:
        at[field.name] = (offset, bit_width(field.type))
        offset += bit_width(field.type)
    assert offset == 8 * atp_wire.HEADER.itemsize == 8 * atp_packet.constants["BYTES_ATP"]
    for name in ("bitmap0", "bitmap1", "epoch", "kind", "index", "next_index"):
        kind, byte = record.fields[name][:2]  # type: ignore[index]
        assert at[name] == (8 * byte, 8 * kind.itemsize), name
    flags = 8 * record.fields["flags"][1]  # type: ignore[index]
    for name in ("integer", "raw", "overflow", "resend", "collision", "ecn", "edge_switch"):
        assert getattr(atp_wire, name.upper()) == 1 << (7 - (at[name][0] - flags)), name
    assert at["job"] == (8 * record.fields["owner"][1], 8)  # type: ignore[index]
    assert at["sequence"] == (at["job"][0] + 8, 24)
    assert headers["vector_t"].width == 32 * k == 8 * (record.itemsize - atp_wire.HEADER.itemsize)
    fields = atp_wire.BARE.fields
    assert fields is not None
    assert fields["tag"][1] * 8 == offset
    assert fields["exponent"][1] * 8 == offset + headers["tag_t"].width
    assert headers["largest_t"].width == 8
    assert atp_wire.bits_on_wire(64) == wire.bits_on_wire(64) + 8 * 6


@pytest.mark.parametrize(("program", "of_hosts"), [("switchml", wire), ("atp", atp_wire)])
def test_kinds_are_the_programs(program: str, of_hosts: ModuleType) -> None:
    of_p4 = {f"KIND_{name}": number for name, number in of_program(program).enums[f"{program}_kind_t"].items()}
    assert of_p4 == {name: number for name, number in vars(of_hosts).items() if name.startswith("KIND_")}


SWITCHML_SIZES = {
    "UDP_PORT_SWITCHML": (wire.UDP_PORT, switchml.UDP_PORT),
    "MARK_INSISTS": (wire.MARK_INSISTS,),
    "BYTES_SWITCHML": (wire.HEADER.itemsize,),
    "BYTES_SWITCHML + BYTES_STATUS": (wire.STATUS.itemsize,),
    "BYTES_SWITCHML + BYTES_TAG": (wire.BARE.itemsize,),
    "MAX_JOBS": (sizes.MAX_JOBS,),
    "MAX_WORKERS": (sizes.MAX_WORKERS,),
    "MAX_PORTS": (sizes.MAX_PORTS,),
    "POOL_CELLS": (switchml.CELLS,),
    "SWITCHML_REASONS": (switchml.REASONS,),
}
ATP_SIZES = {
    "UDP_PORT_ATP": (atp_wire.UDP_PORT, atp.UDP_PORT),
    "BYTES_ATP": (atp_wire.HEADER.itemsize,),
    "BYTES_BARE": (atp_wire.BARE.itemsize,),
    "MAX_JOBS": (sizes.MAX_JOBS,),
    "MAX_PORTS": (sizes.MAX_PORTS,),
    "MAX_WORKERS": (sizes.MAX_WORKERS,),
    "AGGREGATORS": (atp.AGGREGATORS,),
    "ATP_REASONS": (atp.REASONS,),
    "EVENTS": (atp.EVENTS_PER_JOB, len(atp.EVENTS)),
}


@pytest.mark.parametrize(("program", "named"), [("switchml", SWITCHML_SIZES), ("atp", ATP_SIZES)])
def test_sizes_are_the_programs(program: str, named: dict[str, tuple[int, ...]], tmp_path: Path) -> None:
    names = {f"SIZE_{i}": name for i, name in enumerate(named)}
    source = tmp_path / "sizes.p4"
    includes = ["#include <core.p4>", "#include <v1model.p4>"]
    includes += [f'#include "{program}/{file.name}"' for file in sorted(Path(f"p4/include/{program}").glob("*.p4"))]
    includes = [line for line in includes if "states.p4" not in line]  # which are the inside of a parser
    source.write_text(
        "\n".join([*includes, *(f"const bit<32> {constant} = (bit<32>)({name});" for constant, name in names.items())])
    )
    found = declared(source, include_dirs=[Path("p4/include")])
    assert {name: {found.constants[constant]} for constant, name in names.items()} == {name: set(of) for name, of in named.items()}
    assert (
        len(found.enums[f"{program}_reject_t"]) == found.constants[next(c for c, name in names.items() if name.endswith("REASONS"))]
    )
    if program == "atp":
        events = found.enums["event_t"]
        assert sorted(events.values()) == list(range(len(events)))
        assert all(atp.EVENTS[number].upper().startswith(name[:4]) for name, number in events.items())
