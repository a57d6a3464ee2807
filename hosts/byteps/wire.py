"""What workers and Summation Services tell each other over TCP: a header, and as many bytes as it says."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

TCP_PORT = 48866
PUSH, RESULT, ANNOUNCE, REFUSE, ASK, MISSING, KEEP, CHANGE, FETCH = range(9)
HEADER = struct.Struct(">BcxxIIiIQId")
DTYPES = {b"f": np.dtype(np.float32), b"i": np.dtype(np.int32)}
LONGEST = 1 << 28  # bytes behind a header
LONGEST_NAME = 1 << 12  # bytes of a tensor's, in UTF-8


class Header(NamedTuple):
    """PUSH      a worker's part of a sum: a partition's elements. It asks for the result, too
    RESULT    the partition's sum
    ANNOUNCE  which tensor a worker sums: its name follows
    REFUSE    why the group cannot go on, as text
    ASK       a worker that has heard nothing asks who has not pushed a partition
    MISSING   ranks that have not pushed it, a byte each
    KEEP      a PUSH whose sum the service keeps
    CHANGE    what is to be added to it at once. The RESULT is what is kept then
    FETCH     asks for what is kept, and adds nothing
    """

    kind: int
    dtype: bytes = b"f"  # a key of DTYPES
    number: int = 0  # of the sum, in the group; of a CHANGE or a FETCH, that of the sum which is kept
    partition: int = 0  # of the tensor
    priority: int = 0  # the lower, the sooner it is sent
    size: int = 0  # bytes that follow
    elements: int = 0  # of the whole tensor
    version: int = 0  # of what is kept: changes so far
    at: float = 0.0  # time.monotonic() when it was changed

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
        if header.kind > FETCH or header.dtype not in DTYPES or header.size > LONGEST:
            raise ValueError(f"no message begins with {bytes(octets).hex()}")
        return header
