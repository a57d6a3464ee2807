"""The packets of the lab about shared switches, as bytes: what atp_headers.p4 says. (Given.)"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 16  # integers of a packet
GRADIENT, RESULT = 1, 2  # kinds
TYPE = 0x88B8  # EtherType
EVERYBODY = b"\xff" * 6
HEADERS = struct.Struct(">6s6sHBBBBHI")


@dataclass
class Packet:
    """A packet's fields; `values` are LANES integers (numpy, int32)."""

    kind: int
    job: int
    bitmap: int
    resend: int
    index: int
    chunk: int
    values: Any


def server_address(job: int) -> bytes:
    """The Ethernet address of a job's server."""
    return bytes([2, 0, 0, 0, job, 0xFF])


def worker_address(job: int, worker: int) -> bytes:
    return bytes([2, 0, 0, 0, job, worker])


def write(packet: Packet, source: bytes, target: bytes) -> bytes:
    """A packet as bytes. Values that are fewer than LANES are filled up with zeros."""
    filled = np.zeros(LANES, ">i4")
    filled[: len(packet.values)] = packet.values
    head = (packet.kind, packet.job, packet.bitmap, packet.resend, packet.index, packet.chunk)
    return HEADERS.pack(target, source, TYPE, *head) + filled.tobytes()


def read(packet: bytes) -> Packet | None:
    """The fields of a packet, or None if it is not one of this lab."""
    if len(packet) < HEADERS.size + 4 * LANES or packet[12:14] != TYPE.to_bytes(2, "big"):
        return None
    _, _, _, *head = HEADERS.unpack_from(packet)
    return Packet(*head, np.frombuffer(packet, ">i4", LANES, HEADERS.size).astype(np.int32))
