"""The ATP packet as bytes (wire.h): 22 bytes of header, then K integers; a bare one has a tag and an exponent in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts import ethernet
from inalab.hosts.cores import enum, packed

UDP_PORT = 48866

KIND_GRADIENT, KIND_RAW, KIND_RESULT, KIND_RELEASE, KIND_RELEASED, KIND_QUERY, KIND_STATUS = (
    enum("atp_kind")[f"ATP_{name}"] for name in ("GRADIENT", "RAW", "RESULT", "RELEASE", "RELEASED", "QUERY", "STATUS")
)
ASKED, INTEGER, RAW, OVERFLOW, RESEND, COLLISION, ECN, EDGE_SWITCH, JOINS = (
    enum("atp_flag")[name] for name in ("ASKED", "INTEGER", "RAW", "OVERFLOW", "RESEND", "COLLISION", "ECN", "EDGE_SWITCH", "JOINS")
)
SEQUENCES, RANKS, TRIES = (enum("atp_size")[name] for name in ("SEQUENCES", "RANKS", "ATP_TRIES"))

HEADER = packed("AtpHeader")
BARE = np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("tag", ">u4"), ("exponent", ">u1")])


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
