"""RoCEv2 packets as bytes (wire.h): base transport header, extended ones, payload, and an invariant CRC over all of it."""

from __future__ import annotations

import socket

import numpy as np

from inalab.hosts import ethernet
from inalab.hosts.cores import enum, packed, values_type

UDP_PORT = enum("roce_port")["ROCE_PORT"]
OWN_IDENTIFICATION = enum("roce_identification")["OWN_IDENTIFICATION"]  # of IPv4

OPCODES = enum("roce_opcode")
BTH, RETH = packed("RoceBth"), packed("RoceReth")
IMMEDIATE_BYTES, ICRC_BYTES = 4, 4


def address(ip: str) -> int:
    """Of IPv4, as cores have it: in the network's byte order."""
    return int.from_bytes(socket.inet_aton(ip), "little")


def packet(payload: int) -> np.dtype:
    """The longest datagram with a payload of so many bytes, called `vector`."""
    headers = np.dtype([("bth", BTH), ("reth", RETH), ("immediate", ">u4")])
    return np.dtype([("headers", headers), ("vector", np.uint8, (payload,)), ("icrc", "<u4")])


def work(payload: int) -> np.dtype:
    """A write as an interface of the kernel's takes it (core.h): so many bytes of payload follow."""
    return np.dtype([("work", values_type("RoceWork")), ("vector", np.uint8, (payload,))])


def message_bytes(payload: int, mtu: int) -> int:
    """Bytes in UDP of all packets of a message with an immediate."""
    packets = -(-payload // mtu)
    return payload + packets * (BTH.itemsize + ICRC_BYTES) + RETH.itemsize + IMMEDIATE_BYTES


def message_bits_on_wire(payload: int, mtu: int) -> int:
    """Bits that such a message takes on an Ethernet link, preamble, FCS and gap of each packet included."""
    packets = -(-payload // mtu)
    return 8 * (message_bytes(payload, mtu) + packets * ethernet.UDP_OVERHEAD_BYTES)
