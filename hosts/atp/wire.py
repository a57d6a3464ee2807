"""The ATP packet as bytes, the same that p4/include/atp/headers.p4 describes: 20 bytes of header, then K integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hosts.wire import ETHERNET_BYTES, IPV4_BYTES, PHYSICAL_BYTES, UDP_BYTES

UDP_PORT = 48866

KIND_GRADIENT = 1
KIND_RAW = 2
KIND_RESULT = 3
KIND_RELEASE = 4
KIND_RELEASED = 5

# bits of `flags`
INTEGER = 1 << 6
RAW = 1 << 5
OVERFLOW = 1 << 4
RESEND = 1 << 3
COLLISION = 1 << 2
ECN = 1 << 1
EDGE_SWITCH = 1 << 0

HEADER = np.dtype(
    [
        ("bitmap0", ">u4"),
        ("bitmap1", ">u4"),
        ("fan_in0", "u1"),
        ("fan_in1", "u1"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("index", ">u2"),
        ("next_index", ">u2"),
        ("owner", ">u4"),  # job (8 bits) and sequence (24)
    ]
)
SEQUENCES = 1 << 24
OVERHEAD_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + HEADER.itemsize + PHYSICAL_BYTES


def packet(k: int) -> np.dtype:
    """The UDP payload of a gradient or a result with k integers."""
    return np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("vector", ">i4", (k,))])


def bits_on_wire(k: int) -> int:
    """Bits that one packet of k integers takes on an Ethernet link, preamble, FCS and gap included."""
    return 8 * (OVERHEAD_BYTES + 4 * k)


def owners(job: int, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """(job, sequence) of stream chunks, as packets carry it."""
    return job << 24 | chunks % SEQUENCES


def chunks_near(owner: NDArray[np.uint32], base: int) -> NDArray[np.int64]:
    """The stream chunks that packets mean: those nearest to `base` with their sequence numbers."""
    behind = (owner.astype(np.int64) % SEQUENCES - base) % SEQUENCES
    return base + behind - SEQUENCES * (behind >= SEQUENCES // 2)
