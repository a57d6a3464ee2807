"""Packets of an interface in memory that the kernel shares: a packet socket with a ring of blocks, TPACKET_V3 (packet(7)).

A block holds as many packets as fit, so that reading costs no system call a packet, and an ordinary user's limit of socket buffers
does not count.
"""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V3 = 2
ETH_P_ALL = 3
PACKET_OUTGOING = 4  # of sockaddr_ll

BLOCK = 1 << 17  # bytes
FRAME = 1 << 11  # what the kernel wants to know although version 3 does without
RETIRE_MS = 20  # after which a block that is not full is readable

# of linux/if_packet.h, in the processor's byte order
STATUS = 8  # offset of a block's status
TO_USER = 1
BLOCK_HEADER = struct.Struct("=8x3I")  # status, packets, offset of the first
PACKET_HEADER = struct.Struct("=5I4xH")  # offset of the next, seconds, nanoseconds, bytes here, bytes of the frame, offset of these
PACKET_TYPE = 48 + 10  # offset of sll_pkttype behind struct tpacket3_hdr


class Frame(NamedTuple):
    """A frame: nanoseconds since 1970, its bytes, how many it had, and whether the interface sent it."""

    nanoseconds: int
    data: bytes
    length: int
    outgoing: bool


class PacketRing:
    """All frames of an interface of this namespace, from now on. Raises OSError.

    A frame that does not fit while nothing reads is dropped.
    """

    def __init__(self, interface: str, blocks: int) -> None:
        """The ring has so many blocks of 128 KiB."""
        self.blocks, self._next = blocks, 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        request = struct.pack("=7I", BLOCK, blocks, FRAME, blocks * BLOCK // FRAME, RETIRE_MS, 0, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._memory = mmap.mmap(self._socket.fileno(), blocks * BLOCK)
        self._socket.bind((interface, ETH_P_ALL))

    def fileno(self) -> int:
        """For poll: readable once a block is."""
        return self._socket.fileno()

    def read(self) -> Iterator[list[Frame]]:
        """The blocks that are there, as lists of their frames."""
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # else poll returns at once after the interface went down
        for _ in range(self.blocks):
            start = self._next * BLOCK
            status, count, first = BLOCK_HEADER.unpack_from(self._memory, start)
            if not status & TO_USER:
                return
            yield list(self._frames(start + first, count))
            struct.pack_into("=I", self._memory, start + STATUS, 0)  # the kernel's again
            self._next = (self._next + 1) % self.blocks

    def _frames(self, at: int, count: int) -> Iterator[Frame]:
        for _ in range(count):
            step, seconds, nanoseconds, here, length, offset = PACKET_HEADER.unpack_from(self._memory, at)
            data = self._memory[at + offset : at + offset + here]
            outgoing = self._memory[at + PACKET_TYPE] == PACKET_OUTGOING
            yield Frame(seconds * 1_000_000_000 + nanoseconds, data, length, outgoing)
            at += step

    def dropped(self) -> int:
        """Frames dropped since the last call."""
        return int(struct.unpack("=3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))[1])

    def close(self) -> None:
        """Give up the socket and this process's view of the memory."""
        self._memory.close()
        self._socket.close()
