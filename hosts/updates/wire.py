"""What workers and the host that holds the model tell each other over TCP: a header, and as many bytes as it says."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

TCP_PORT = 48867
GIVE, KEEP, RESULT, UPDATE, APPLIED, FETCH, MODEL, ASK, WAITS, REFUSE = range(10)
HEADER = struct.Struct(">BcxxIIiIQd")
MEMBER = struct.Struct(">IIQd")
DTYPES = {b"f": np.dtype(np.float32), b"i": np.dtype(np.int32)}
LONGEST = 1 << 28  # bytes behind a header
URGENT = -(1 << 31)  # priority


class Header(NamedTuple):
    """GIVE     a worker's part of a sum. It asks for the sum, too
    KEEP     likewise; the sum becomes the model
    RESULT   the sum
    UPDATE   what is to be added to the model: who is in it, a Member each, and then the elements
    APPLIED  a worker's update was added, to the model of this version, at this time
    FETCH    asks for the model
    MODEL    it, and its version
    ASK      a worker that has heard nothing asks whom the server waits for
    WAITS    their ranks, a byte each
    REFUSE   why the group cannot go on (hosts.tcp.serving)
    """

    kind: int
    dtype: bytes = b"f"  # a key of DTYPES
    number: int = 0  # of the sum, or of the update among its worker's
    members: int = 0  # of an update
    priority: int = 0  # the lower, the sooner it is sent
    size: int = 0  # bytes that follow
    version: int = 0  # of the model: updates that are in it
    at: float = 0.0  # time.monotonic()

    @staticmethod
    def length() -> int:
        """Bytes."""
        return HEADER.size

    def pack(self) -> bytes:
        """As on the wire."""
        return HEADER.pack(*self)

    @classmethod
    def unpack(cls, octets: Any) -> Header:
        """What `pack` wrote; ValueError for what it cannot have written."""
        header = cls(*HEADER.unpack(octets))
        if header.kind > REFUSE or header.dtype not in DTYPES or header.size > LONGEST:
            raise ValueError(f"no message begins with {bytes(octets).hex()}")
        return header


class Member(NamedTuple):
    """A worker's update, which is in what is sent: by itself, or with others'."""

    rank: int
    number: int  # among the worker's
    version: int  # of the model that it was computed on
    norm: float

    def pack(self) -> bytes:
        """As on the wire."""
        return MEMBER.pack(*self)


def members(octets: memoryview, count: int) -> list[Member]:
    """Those at the beginning of an update's body."""
    return [Member(*fields) for fields in MEMBER.iter_unpack(octets[: count * MEMBER.size])]
