"""The packets of the labs that add vectors: what headers.p4 in their starters says, for scapy and as bytes.

Behind Ethernet of EtherType 0x88B6: kind, worker, version, job (a byte each), slot (2 bytes), chunk (4), LANES integers.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scapy.fields import ByteField, FieldListField, IntField, ShortField, SignedIntField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

LANES = 16
SECRET = secrets.randbits(64)  # of the vectors: one tells nothing of another
TYPE_AGGREGATION = 0x88B6
UPDATE, RESULT = 1, 2
SWITCH, EVERYBODY = "02:00:00:00:00:fe", "ff:ff:ff:ff:ff:ff"
FORM = struct.Struct(f">14xBBBBHI{LANES}i")
HEAD = struct.Struct(">6s6sH")


class Aggregation(Packet):
    """The header and its values."""

    name = "aggregation"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        ByteField("kind", UPDATE),
        ByteField("worker", 0),
        ByteField("version", 0),
        ByteField("job", 0),
        ShortField("slot", 0),
        IntField("chunk", 0),
        FieldListField(
            "values",
            [0] * LANES,  # type: ignore[list-item] # integers, as scapy takes them
            SignedIntField("value", 0),
            count_from=lambda packet: LANES,
        ),
    ]


bind_layers(Ether, Aggregation, type=TYPE_AGGREGATION)


@dataclass(frozen=True)
class Update:
    """A packet's fields, for those who make many."""

    kind: int = UPDATE
    worker: int = 0
    version: int = 0
    job: int = 0
    slot: int = 0
    chunk: int = 0
    values: tuple[int, ...] = field(default=(0,) * LANES)


def address(worker: int) -> str:
    """A worker's Ethernet address."""
    return f"02:00:00:00:00:{worker + 1:02x}"


def update(worker: int, values: Sequence[int], **fields: Any) -> Packet:
    """A worker's vector on its way to the switch. Fewer values than lanes are filled up with zeros."""
    filled = [*values, *[0] * (LANES - len(values))]
    return Ether(src=address(worker), dst=SWITCH) / Aggregation(worker=worker, values=filled, **fields)


def result(worker: int, values: Sequence[int], to: str = EVERYBODY, **fields: Any) -> Packet:
    """What the switch sends when a vector is complete: to all, or to one worker."""
    filled = [*values, *[0] * (LANES - len(values))]
    return Ether(src=SWITCH, dst=to) / Aggregation(kind=RESULT, worker=worker, values=filled, **fields)


def read(data: bytes) -> Update | None:
    """A packet's fields, or None if it is no packet of these labs."""
    if len(data) < FORM.size or data[12:14] != TYPE_AGGREGATION.to_bytes(2, "big"):
        return None
    kind, worker, version, job, slot, chunk, *values = FORM.unpack_from(data)
    return Update(kind, worker, version, job, slot, chunk, tuple(values))


def write(packet: Update, to: bytes = bytes.fromhex("0200000000fe"), source: bytes = bytes(6)) -> bytes:
    """A packet as bytes."""
    body = FORM.pack(packet.kind, packet.worker, packet.version, packet.job, packet.slot, packet.chunk, *packet.values)
    return HEAD.pack(to, source, TYPE_AGGREGATION) + body[HEAD.size :]


def vector(seed: int) -> list[int]:
    """Integers of both signs, one for each lane, none like another; in each process others."""
    draw = np.random.default_rng([SECRET, seed])
    return [int(value) for value in draw.choice(2001, LANES, replace=False) - 1000]


def group(ports: Sequence[int], number: int = 1) -> list[str]:
    """The commands that make a multicast group of ports."""
    return [
        f"mc_mgrp_create {number}",
        f"mc_node_create {number} {' '.join(map(str, ports))}",
        f"mc_node_associate {number} {number - 1}",
    ]


def sum_of(vectors: Sequence[Sequence[int]]) -> list[int]:
    """The sum as 32 bits hold it: it wraps around."""
    return [(sum(column) + (1 << 31)) % (1 << 32) - (1 << 31) for column in zip(*vectors, strict=True)]
