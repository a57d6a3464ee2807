"""A host that sends arrays to other hosts by their numbers. (Given.)

    class Mine(Node):
        def start(self, number, ...):
            self.introduce(number)
            self.send_array(peer=1, tag=0, array=part)
        def receive_array(self, peer, tag, array):    # a whole array has arrived
            ...

An array goes out in packets of at most 1,400 bytes of it. No packet is lost, and those between two hosts keep their order.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from inalab.testbed.lab.host import Host

TYPE = 0x88B7  # EtherType
MOST = 350  # floats of a packet
HEADERS = struct.Struct(">6s6sHIII")  # addresses, type, tag, length of the array, where this part of it begins


def address(number: int) -> bytes:
    """The Ethernet address of a host."""
    return bytes([2, 0, 0, 0, 1, number])


class Node(Host):
    def introduce(self, number: int) -> None:
        """Say which host this is; call it before anything is sent."""
        self.number = number
        self.under_way: dict[tuple[int, int], Any] = {}

    def send_array(self, peer: int, tag: int, array: Any) -> None:
        """Send an array (float32) to another host. The tag is yours: it tells the peer what this is."""
        values = np.asarray(array, ">f4")
        for begin in range(0, max(len(values), 1), MOST):
            part = values[begin : begin + MOST].tobytes()
            self.send(HEADERS.pack(address(peer), address(self.number), TYPE, tag, len(values), begin) + part)

    def receive(self, packet: bytes) -> None:
        _, source, kind, tag, length, begin = HEADERS.unpack_from(packet)
        if kind != TYPE:
            return
        key = (source[5], tag)
        array = self.under_way.setdefault(key, np.zeros(length, np.float32))
        part = np.frombuffer(packet, ">f4", -1, HEADERS.size)
        array[begin : begin + len(part)] = part
        if begin + len(part) == length:
            del self.under_way[key]
            self.receive_array(source[5], tag, array)

    def receive_array(self, peer: int, tag: int, array: Any) -> None:
        """A whole array has arrived from another host."""
