"""Ethernet frames with UDP datagrams and TCP segments, as the kernels of hosts send them whose interfaces compute checksums: IP
has no options, and UDP and TCP no checksum yet."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from inalab.hosts.drivers.driver import Address
from inalab.hosts.ethernet import ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES
from inalab.switches.forwarding import Station

HEADERS = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
IPV4 = struct.Struct(">BBHHHBBH4s4s")
UDP = struct.Struct(">HHHH")
TCP = struct.Struct(">HHIIBBHHHHBBII")  # without SACK; the last five are time stamps (RFC 7323), aligned
TYPE_IPV4, PROTOCOL_TCP, PROTOCOL_UDP, TTL, DONT_FRAGMENT = 0x0800, 6, 17, 64, 0x4000
START = ETHERNET_BYTES + IPV4_BYTES  # of what IP carries
CAPABLE, MARKED = 0b10, 0b11  # of explicit congestion notification: ECT(0) and CE
FIN, RST, PSH, ACK = 0x01, 0x04, 0x08, 0x10
NO_OPERATION, SACK, TIME_STAMPS = 1, 5, 8  # options
MOST_BLOCKS = 3  # of SACK, beside time stamps
WORD = struct.Struct(">I")


def headers(source: Station, source_port: int, destination: Station, port: int, length: int, tos: int = 0) -> bytes:
    """What precedes a datagram of so many bytes."""
    datagram = UDP_BYTES + length
    return _until_ip(source, destination, PROTOCOL_UDP, datagram, tos) + UDP.pack(source_port, port, datagram, 0)


@cache
def _until_ip(source: Station, destination: Station, protocol: int, length: int, tos: int = 0) -> bytes:
    ethernet = _mac(destination.mac) + _mac(source.mac) + TYPE_IPV4.to_bytes(2, "big")
    words = (0x45, tos, IPV4_BYTES + length, 0, DONT_FRAGMENT, TTL, protocol)
    ends = _ip(source.ip), _ip(destination.ip)
    checksum = _checksum(IPV4.pack(*words, 0, *ends))
    return ethernet + IPV4.pack(*words, checksum, *ends)


def received(frame: bytes, host: Station) -> tuple[bytes, Address, int] | None:
    """The datagram in a frame, where it is from, and its port; None where a host's kernel would not have received it."""
    if not (carried := _carried(frame, host, PROTOCOL_UDP)) or len(carried) < UDP_BYTES:
        return None
    source_port, port, length, checksum = UDP.unpack_from(carried)
    if not UDP_BYTES <= length <= len(carried):
        return None
    if checksum and _checksum(_pseudo_header(frame, PROTOCOL_UDP, length) + carried[:length]):
        return None
    return carried[UDP_BYTES:length], (source(frame), source_port), port


def marked(frame: bytes) -> bool:
    """Whether a switch's queue was deep on its way (RFC 3168)."""
    return frame[15] & 3 == MARKED


def source(frame: bytes) -> str:
    """The IP address that it is from."""
    return ".".join(map(str, frame[26:30]))


def _carried(frame: bytes, host: Station, protocol: int) -> bytes:
    """What IP carries in a frame; nothing where a host's kernel drops the frame, or the protocol is another."""
    if len(frame) < START or frame[23] != protocol or frame[:6] != _mac(host.mac) or frame[12:15] != b"\x08\x00\x45":
        return b""
    end, fragment = ETHERNET_BYTES + int.from_bytes(frame[16:18], "big"), int.from_bytes(frame[20:22], "big") & ~DONT_FRAGMENT
    if fragment or frame[30:34] != _ip(host.ip) or end > len(frame) or _checksum(frame[ETHERNET_BYTES:START]):
        return b""
    return frame[START:end]


class Segment(NamedTuple):
    """Of TCP. Numbers are modulo 2^32."""

    source_port: int
    port: int
    sequence: int
    acknowledges: int
    flags: int
    blocks: Sequence[tuple[int, int]]  # that have come out of their order (RFC 2018)
    octets: bytes
    stamp: int = 0  # when it was sent, in milliseconds
    echo: int = 0  # the stamp that came last


def framed(source: Station, destination: Station, given: Segment) -> bytes:
    """A frame with a segment."""
    blocks = given.blocks[:MOST_BLOCKS]
    options = WORD.pack(NO_OPERATION << 24 | NO_OPERATION << 16 | SACK << 8 | 2 + 8 * len(blocks)) if blocks else b""
    options += b"".join(WORD.pack(left) + WORD.pack(right) for left, right in blocks)
    offset = (TCP.size + len(options)) << 2  # four bits, of words
    header = TCP.pack(
        given.source_port, given.port, given.sequence, given.acknowledges, offset, given.flags, 0xFFFF, 0, 0,
        NO_OPERATION << 8 | NO_OPERATION, TIME_STAMPS, 10, given.stamp, given.echo,
    )  # fmt: skip
    carried = header + options + given.octets
    return _until_ip(source, destination, PROTOCOL_TCP, len(carried)) + carried


def received_segment(frame: bytes, host: Station) -> Segment | None:
    """The segment in a frame; None where a host's kernel would not have received it."""
    carried = _carried(frame, host, PROTOCOL_TCP)
    if len(carried) < TCP.size:
        return None
    source_port, port, sequence, acknowledges, offset, flags, _, checksum, _, _, kind, _, stamp, echo = TCP.unpack_from(carried)
    begin = offset >> 4 << 2
    if kind != TIME_STAMPS or not TCP.size <= begin <= len(carried):
        return None
    if checksum and _checksum(_pseudo_header(frame, PROTOCOL_TCP, len(carried)) + carried):
        return None
    numbers = [number for (number,) in WORD.iter_unpack(carried[TCP.size + 4 : begin])]
    blocks = list(zip(numbers[::2], numbers[1::2], strict=True))
    return Segment(source_port, port, sequence, acknowledges, flags, blocks, carried[begin:], stamp, echo)


def _pseudo_header(frame: bytes, protocol: int, length: int) -> bytes:
    """What a checksum also covers (RFC 768, RFC 9293)."""
    return frame[26:34] + bytes([0, protocol]) + length.to_bytes(2, "big")


@cache
def _mac(text: str) -> bytes:
    return bytes(int(part, 16) for part in text.split(":"))


@cache
def _ip(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 of data that has a right one."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
