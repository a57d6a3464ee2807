"""Numbers in datagrams, which are big-endian, in compiled loops."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

assert sys.byteorder == "little"  # as on all that torch has wheels for: vectors are swapped


def offset(record: np.dtype, name: str) -> int:
    """Of a field in a record, in bytes."""
    assert record.fields is not None
    return record.fields[name][1]


@compiled("void(i4[::1])")
def swap(words: NDArray[np.int32]) -> None:
    """Put words into the other byte order, in place."""
    for i in range(len(words)):
        word = words[i]
        words[i] = word << 24 | (word & 0xFF00) << 8 | word >> 8 & 0xFF00 | word >> 24 & 0xFF


@compiled("u4(u1[::1], i8)")
def number(datagram: NDArray[np.uint8], offset: int) -> Any:
    """Four bytes of the header."""
    d = datagram[offset : offset + 4]
    return np.uint32(d[0]) << 24 | np.uint32(d[1]) << 16 | np.uint32(d[2]) << 8 | d[3]


@compiled("void(u1[::1], i8, u4)")
def put(datagram: NDArray[np.uint8], offset: int, value: int) -> None:
    """Write four bytes of the header."""
    for place in range(4):
        datagram[offset + place] = value >> (24 - 8 * place) & 0xFF
