"""The SwitchML packet as bytes, the same that p4/include/switchml/headers.p4 describes: 16 bytes of header, then K integers."""

from __future__ import annotations

import numpy as np

from inalab.hosts import ethernet

UDP_PORT = 48864

KIND_UPDATE = 1
KIND_RESULT = 2
KIND_QUERY = 3
KIND_STATUS = 4

MARK_INSISTS = 2  # of a query

HEADER = np.dtype(
    [
        ("job", "u1"),
        ("worker", "u1"),
        ("kind", "u1"),
        ("version", "u1"),
        ("slot", ">u2"),
        ("exponent", "u1"),
        ("mark", "u1"),
        ("epoch", ">u4"),
        ("chunk", ">u4"),
    ]
)
STATUS = np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("seen", ">u4")])  # a query, and its answer


def packet(k: int) -> np.dtype:
    """The UDP payload of an update or a result with k integers."""
    return np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("vector", ">i4", (k,))])


def bits_on_wire(k: int) -> int:
    """Bits that one update of k integers takes on an Ethernet link, preamble, FCS and gap included."""
    return ethernet.bits_on_wire(packet(k).itemsize)


def line_rate_bound(rate_mbit: float, k: int) -> float:
    """Aggregated tensor elements per second that a link of `rate_mbit` Mbit/s can carry: rate / bits per packet * k."""
    return rate_mbit * 1e6 / bits_on_wire(k) * k
