"""Files of captured packets in the format pcapng (IETF draft-ietf-opsawg-pcapng), with nanoseconds. scapy writes microseconds."""

from __future__ import annotations

import struct

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6  # types of blocks
MAGIC = 0x1A2B3C4D
ETHERNET = 1  # LINKTYPE_ETHERNET
NAME, DESCRIPTION, RESOLUTION = 2, 3, 9  # options of an interface
FLAGS = 2  # option of a packet
INBOUND, OUTBOUND = 1, 2  # directions in its flags
END = bytes(4)  # of options
_EPB = struct.Struct("<7I")
_TAIL = struct.Struct("<HHIII")


def header(interface: str, description: str) -> bytes:
    """The beginning of a file about one Ethernet interface: a section and the interface's description."""
    options = _option(NAME, interface.encode()) + _option(DESCRIPTION, description.encode()) + _option(RESOLUTION, b"\x09") + END
    section = struct.pack("<IHHq", MAGIC, 1, 0, -1)
    return _block(SECTION, section) + _block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, 0) + options)


def packet(nanoseconds: int, data: bytes, length: int, outbound: bool) -> bytes:
    """An enhanced packet block: nanoseconds since 1970, the bytes captured, how many the frame had, and its direction."""
    padding = -len(data) % 4
    size = _EPB.size + len(data) + padding + _TAIL.size
    head = _EPB.pack(PACKET, size, 0, nanoseconds >> 32, nanoseconds & 0xFFFFFFFF, len(data), length)
    return b"".join((head, data, bytes(padding), _TAIL.pack(FLAGS, 4, OUTBOUND if outbound else INBOUND, 0, size)))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)
