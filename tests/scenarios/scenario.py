"""A scenario: a program with commands and packets."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path("tests/programs")
ETHERNET = bytes.fromhex("020000000001020000000002") + b"\x12\x34"


@dataclass(frozen=True)
class Scenario:
    """Packets (port, bytes) sent one after another to a program on ports 0 … 7, after some commands."""

    name: str
    program: Path
    packets: list[tuple[int, bytes]]
    commands: list[str] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)


def probes(form: str, rows: list[tuple[int, ...]], tail: bytes = b"") -> list[tuple[int, bytes]]:
    """Ethernet and a probe header packed by `form`, from port 0."""
    return [(0, ETHERNET + struct.pack(form, *row) + tail) for row in rows]
