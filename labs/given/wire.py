"""The packets of the labs that add vectors, as bytes: what headers.p4 says. (Given.)

packet = wire.update(worker=0, slot=3, chunk=3, values=tensor[48:64])
got = wire.read(packet)             # got.kind, got.slot, got.values, …; None if it is another kind of packet
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 16  # integers of a packet
UPDATE, RESULT = 1, 2  # kinds
TYPE = 0x88B6  # EtherType
SWITCH = bytes.fromhex("0200000000fe")
HEADERS = struct.Struct(">6s6sHBBBBHI")


@dataclass
class Packet:
    """A packet's fields; `values` are LANES integers (numpy, int32)."""

    kind: int
    worker: int
    version: int
    job: int
    slot: int
    chunk: int
    values: Any
    source: bytes = b""


def address(host: int) -> bytes:
    """The Ethernet address of a worker."""
    return bytes([2, 0, 0, 0, 0, host + 1])


def update(
    worker: int, values: Any, slot: int = 0, chunk: int = 0, version: int = 0, job: int = 0, kind: int = UPDATE, to: bytes = SWITCH
) -> bytes:
    """A worker's vector. Values that are fewer than LANES are filled up with zeros."""
    filled = np.zeros(LANES, ">i4")
    filled[: len(values)] = values
    return HEADERS.pack(to, address(worker), TYPE, kind, worker, version, job, slot, chunk) + filled.tobytes()


def read(packet: bytes) -> Packet | None:
    """The fields of a packet, or None if it is not one of these labs."""
    if len(packet) < HEADERS.size + 4 * LANES or packet[12:14] != TYPE.to_bytes(2, "big"):
        return None
    _, source, _, kind, worker, version, job, slot, chunk = HEADERS.unpack_from(packet)
    values = np.frombuffer(packet, ">i4", LANES, HEADERS.size).astype(np.int32)
    return Packet(kind, worker, version, job, slot, chunk, values, source)
