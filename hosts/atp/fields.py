"""Where an ATP packet's fields are in a row of hosts.stream.datagrams, for compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import wire
from inalab.hosts.compiled import compiled
from inalab.hosts.stream.datagrams import lead
from inalab.hosts.stream.octets import number, offset, put

LEAD = lead(wire.packet(1))
SIZE = wire.HEADER.itemsize
END = LEAD + SIZE  # of the header
HEADER_WORDS = END // 4
BITMAP0, BITMAP1, EPOCH, KIND, FLAGS, INDEX, NEXT_INDEX, OWNER = (
    LEAD + offset(wire.HEADER, name) for name in ("bitmap0", "bitmap1", "epoch", "kind", "flags", "index", "next_index", "owner")
)


@compiled("i8(u1[::1], i8)")
def short(datagram: NDArray[np.uint8], offset: int) -> Any:
    """Two bytes of the header."""
    return np.int64(datagram[offset]) << 8 | datagram[offset + 1]


@compiled("void(u1[::1], i8, i8)")
def put_short(datagram: NDArray[np.uint8], offset: int, value: int) -> None:
    """Write two bytes of the header."""
    datagram[offset], datagram[offset + 1] = value >> 8 & 0xFF, value & 0xFF


@compiled("i8(i8, i8)")
def asker(rank: int, tries: int) -> Any:
    """`next_index` of a query of a worker that has sent its packet again so often."""
    return rank + wire.RANKS * (tries % wire.TRIES)


@compiled("i8(i8, i8)")
def nearest(sequence: Any, base: int) -> Any:
    """The chunk nearest to `base` with this sequence number."""
    behind = (sequence - base) % wire.SEQUENCES
    return base + behind - (wire.SEQUENCES if behind >= wire.SEQUENCES // 2 else 0)


@compiled("i8(u1[::1], i8)")
def chunk_near(datagram: NDArray[np.uint8], base: int) -> Any:
    """The stream chunk that a packet means."""
    return nearest(np.int64(number(datagram, OWNER)), base)


@compiled("void(u1[::1], i8, i8)")
def put_owner(datagram: NDArray[np.uint8], job: int, chunk: int) -> None:
    """Write whose chunk it is."""
    put(datagram, OWNER, job << 24 | chunk % wire.SEQUENCES)
