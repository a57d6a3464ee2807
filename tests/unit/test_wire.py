"""The packets of the hosts and the headers of the P4 programs are the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.atp import wire as atp_wire
from hosts.switchml import wire
from switches import atp, switchml
from switches.embedded import syntax as s
from switches.embedded.expressions import Expressions
from switches.embedded.parse import parse
from switches.embedded.preprocess import preprocess
from switches.embedded.scope import ConstantSymbol
from switches.embedded.types import Header, bit_width


def p4_headers(k: int, program: str = "switchml") -> tuple[dict[str, Header], dict[str, int]]:
    """Headers and constants that a P4 program declares."""
    unit = Expressions()
    headers, constants = {}, {}
    for node in parse(preprocess(Path(f"p4/include/{program}/headers.p4"), {"K": str(k)}, [])).declarations:
        if isinstance(node, s.Constant):
            unit.declare_constant(node, unit.top)
            symbol = unit.top.find(node.name)
            assert isinstance(symbol, ConstantSymbol) and isinstance(symbol.value.constant, int)
            constants[node.name] = symbol.value.constant
        elif isinstance(node, (s.Composite, s.Typedef)):
            unit.declare_type(node, unit.top)
            found = unit.top.find(node.name).type  # type: ignore[union-attr]
            if isinstance(found, Header):
                headers[node.name] = found
    return headers, constants


@pytest.mark.parametrize("k", [32, 64, 256])
def test_same_layout_as_the_program(k: int) -> None:
    headers, constants = p4_headers(k)
    offset = 0
    record = wire.packet(k)
    for field in headers["switchml_t"].fields:
        kind, at = record.fields[field.name][:2]  # type: ignore[index]
        assert (at * 8, kind.itemsize * 8) == (offset, bit_width(field.type)), field.name
        offset += bit_width(field.type)
    assert [f.name for f in headers["switchml_t"].fields] == list(wire.HEADER.names or ())
    assert headers["vector_t"].width == 32 * k == 8 * (record.itemsize - wire.HEADER.itemsize)
    for kind in ("UPDATE", "RESULT", "QUERY", "STATUS"):
        assert constants[f"KIND_{kind}"] == getattr(wire, f"KIND_{kind}")
    assert wire.UDP_PORT == switchml.UDP_PORT


def test_overhead_is_the_papers() -> None:
    """82 bytes beside the integers: 75.7 % efficiency at 64 integers, 92.6 % at 256 (slide)."""
    assert wire.bits_on_wire(0) == 8 * 82
    assert round(64 * 32 / wire.bits_on_wire(64), 3) == 0.757
    assert round(256 * 32 / wire.bits_on_wire(256), 3) == 0.926


@pytest.mark.parametrize("k", [32, 64, 256])
def test_same_layout_as_the_atp_program(k: int) -> None:
    """Bit fields of the program lie in one byte, `flags`, or in one word, `owner`, of the hosts' record."""
    headers, constants = p4_headers(k, "atp")
    record = atp_wire.packet(k)
    at, offset = {}, 0
    for field in headers["atp_t"].fields:
        at[field.name] = (offset, bit_width(field.type))
        offset += bit_width(field.type)
    assert offset == 8 * atp_wire.HEADER.itemsize == 8 * constants["BYTES_ATP"]
    for name in ("bitmap0", "bitmap1", "epoch", "kind", "index", "next_index"):
        kind, byte = record.fields[name][:2]  # type: ignore[index]
        assert at[name] == (8 * byte, 8 * kind.itemsize), name
    flags = 8 * record.fields["flags"][1]  # type: ignore[index]
    for name in ("integer", "raw", "overflow", "resend", "collision", "ecn", "edge_switch"):
        assert getattr(atp_wire, name.upper()) == 1 << (7 - (at[name][0] - flags)), name
    assert at["job"] == (8 * record.fields["owner"][1], 8)  # type: ignore[index]
    assert at["sequence"] == (at["job"][0] + 8, 24)
    assert headers["vector_t"].width == 32 * k == 8 * (record.itemsize - atp_wire.HEADER.itemsize)
    for kind in ("GRADIENT", "RAW", "RESULT", "RELEASE", "RELEASED"):
        assert constants[f"KIND_{kind}"] == getattr(atp_wire, f"KIND_{kind}")
    assert atp_wire.UDP_PORT == atp.UDP_PORT
    assert atp_wire.bits_on_wire(64) == wire.bits_on_wire(64) + 8 * 6
