"""Packets header by header: what a trace shows of them, and in which fields two differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scapy.compat import raw
from scapy.layers.l2 import Ether
from scapy.packet import Packet

MOST_SHOWN = 8  # elements of a field that is a list


@dataclass(frozen=True)
class Field:
    """A field of a header; `index` counts headers of the same name."""

    header: str
    name: str
    value: str
    index: int = 0


def parsed(data: bytes) -> Packet:
    """A packet from the wire. A checksum stays what it is."""
    made: Packet = Ether(data)
    return made


def wire(packet: Packet) -> bytes:
    """A packet as bytes, with lengths and checksums that are right unless they are given."""
    return bytes(raw(packet))


def fields(packet: Packet) -> Iterator[Field]:
    """All fields in the order of the wire. A list's elements are fields of their own."""
    seen: dict[str, int] = {}
    layer = packet
    while layer:
        name = str(layer.name)
        index = seen[name] = seen.get(name, -1) + 1
        if type(layer).__name__ in ("Raw", "Padding"):
            data = bytes(layer.load)
            yield Field("payload", f"{len(data)} bytes", data[:24].hex(" ") + (" …" if len(data) > 24 else ""), index)
            return
        for described in layer.fields_desc:
            value = layer.getfieldval(described.name)
            if isinstance(value, list):
                for n, element in enumerate(value):
                    yield Field(name, f"{described.name}[{n}]", str(element), index)
            elif value is not None:
                yield Field(name, described.name, str(described.i2repr(layer, value)) or "0", index)
        layer = layer.payload


def described(packet: Packet) -> list[str]:
    """A packet in lines, one a header."""
    lines: dict[tuple[str, int], list[str]] = {}
    for one in fields(packet):
        lines.setdefault((one.header, one.index), []).append(f"{one.name} {one.value}")
    return [f"{header:<12}{_wrapped(words)}" for (header, _), words in lines.items()]


def _wrapped(words: list[str]) -> str:
    lists = [word for word in words if "[" in word.split(" ")[0]]
    if len(lists) > MOST_SHOWN:
        words = [word for word in words if word not in lists[MOST_SHOWN:]] + [f"… {len(lists)} in all"]
    return "  ".join(words)


@dataclass(frozen=True)
class Difference:
    """A field as it was expected and as it came; None where the header is not there."""

    header: str
    name: str
    expected: str | None
    came: str | None


def same(expected: Packet, came: Packet, ignoring: Sequence[str] = ()) -> bool:
    """Whether two packets are the same, bit for bit where nothing is ignored."""
    if not ignoring:
        return bytes(expected) == bytes(came)
    return not any(differs for _, differs in compared(expected, came, ignoring))


def compared(expected: Packet, came: Packet, ignoring: Sequence[str] = ()) -> list[tuple[Difference, bool]]:
    """Field by field, two packets; whether each differs where that counts. What only one of them has is None for the other."""
    ours = {(f.header, f.index, f.name): f.value for f in fields(expected)}
    theirs = {(f.header, f.index, f.name): f.value for f in fields(came)}
    rows = []
    for header, index, name in sorted(ours.keys() | theirs, key=lambda k: _place(k, ours, theirs)):
        left, right = ours.get((header, index, name)), theirs.get((header, index, name))
        rows.append((Difference(header, name, left, right), left != right and (name not in ignoring or None in (left, right))))
    return rows


def _place(key: tuple[str, int, str], *tables: dict[tuple[str, int, str], str]) -> int:
    """Where a field stands on the wire."""
    return max(list(table).index(key) for table in tables if key in table)
