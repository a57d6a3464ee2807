"""The ATP packet as bytes, the same that p4/include/atp/headers.p4 describes: 22 bytes of header, then K integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts import ethernet

UDP_PORT = 48866

KIND_GRADIENT = 1
KIND_RAW = 2
KIND_RESULT = 3
KIND_RELEASE = 4
KIND_RELEASED = 5
KIND_QUERY = 6
KIND_STATUS = 7

# bits of `flags`
ASKED = 1 << 7
INTEGER = 1 << 6
RAW = 1 << 5
OVERFLOW = 1 << 4
RESEND = 1 << 3
COLLISION = 1 << 2
ECN = 1 << 1
EDGE_SWITCH = 1 << 0
JOINS = RESEND | ASKED  # a gradient that is sent again for an answer: it joins the aggregator that lacks it

HEADER = np.dtype(
    [
        ("bitmap0", ">u4"),
        ("bitmap1", ">u4"),
        ("epoch", ">u4"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("index", ">u2"),
        ("next_index", ">u2"),
        ("owner", ">u4"),  # job (8 bits) and sequence (24)
    ]
)
SEQUENCES = 1 << 24
RANKS = 1 << 10  # `next_index` of a query, which its answer repeats: who asks (10 bits), and how often it was sent before (6)
TRIES = 1 << 6


def packet(k: int) -> np.dtype:
    """The UDP payload of a gradient or a result with k integers."""
    return np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("vector", ">i4", (k,))])


def bits_on_wire(k: int) -> int:
    """Bits that one packet of k integers takes on an Ethernet link, preamble, FCS and gap included."""
    return ethernet.bits_on_wire(packet(k).itemsize)


def link_times(k: int, rate: float) -> tuple[float, float]:
    """Seconds that a packet of k integers takes on a link of so many Mbit/s, and a header alone; 0 where it has no rate."""
    vector, header = bits_on_wire(k), ethernet.bits_on_wire(HEADER.itemsize)
    return (vector / (rate * 1e6), header / (rate * 1e6)) if rate else (0.0, 0.0)


def owners(job: int, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """(job, sequence) of stream chunks, as packets carry it."""
    return job << 24 | chunks % SEQUENCES
