"""Numbers as P4Runtime's bytestrings: big-endian, and as short as they can be (P4Runtime 1.4, section 8.4)."""

from __future__ import annotations

from .errors import P4RuntimeError, invalid

SHOWN = 32  # bytes of a number in a message
OUT_OF_RANGE = 11  # google.rpc.code_pb2.OUT_OF_RANGE


def encode(value: int) -> bytes:
    """The shortest bytes of a number."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(octets: bytes, width: int, what: str) -> int:
    """A number of at most `width` bits. Raises P4RuntimeError."""
    if not octets:
        raise invalid(f"{what} has no value")
    value = int.from_bytes(octets, "big")
    if value >> width:
        shown = f"{value:#x}" if len(octets) <= SHOWN else f"a number of {len(octets)} bytes"
        raise P4RuntimeError(OUT_OF_RANGE, f"{what} is {shown}, which does not fit in {width} bits")
    return value
