"""The SwitchML packet as bytes (wire.h): 16 bytes of header, then K integers; a bare one has a tag in their place."""

from __future__ import annotations

import numpy as np

from inalab.hosts import ethernet
from inalab.hosts.cores import enum, packed

UDP_PORT = 48864

KIND_UPDATE, KIND_RESULT, KIND_QUERY, KIND_STATUS, KIND_CONNECT = (
    enum("switchml_kind")[f"SWITCHML_{name}"] for name in ("UPDATE", "RESULT", "QUERY", "STATUS", "CONNECT")
)
MARK_INSISTS = enum("switchml_mark")["SWITCHML_INSISTS"]  # of a query

HEADER = packed("SwitchmlHeader")
BARE = np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("tag", ">u4")])
PART = packed("SwitchmlPart")
STATUS = np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("seen", ">u4")])  # a query, and its answer
CONNECT = np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("connect", "u1", (20,))])  # over RoCE, before others


def message(k: int, blocks: int) -> np.dtype:
    """Over RoCE, what a worker has of an update or a result: the exponents of its blocks precede it where there are several."""
    before = [("exponents", "u1", (blocks,))] if blocks > 1 else []
    return np.dtype([*before, *((name, packet(k)[name]) for name in packet(k).names or ())])


def packet(k: int) -> np.dtype:
    """The UDP payload of an update or a result with k integers."""
    return np.dtype([*((name, HEADER[name]) for name in HEADER.names or ()), ("vector", ">i4", (k,))])


def row(k: int) -> np.dtype:
    """The longest packet: with k integers, and its owner behind them."""
    return np.dtype([*((name, packet(k)[name]) for name in packet(k).names or ()), ("part", PART)])


def bits_on_wire(k: int) -> int:
    """Bits that one update of k integers takes on an Ethernet link, preamble, FCS and gap included."""
    return ethernet.bits_on_wire(packet(k).itemsize)


def line_rate_bound(rate_mbit: float, k: int) -> float:
    """Aggregated tensor elements per second that a link of `rate_mbit` Mbit/s can carry: rate / bits per packet * k."""
    return rate_mbit * 1e6 / bits_on_wire(k) * k
