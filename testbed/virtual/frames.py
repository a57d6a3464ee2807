"""Ethernet frames with UDP datagrams, as the kernels of the hosts would send them: without options, and without a UDP checksum."""

from __future__ import annotations

import struct
from functools import cache

from inalab.hosts.drivers.driver import Address
from inalab.hosts.ethernet import ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES
from inalab.switches.forwarding import Station

HEADERS = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
IPV4 = struct.Struct(">BBHHHBBH4s4s")
UDP = struct.Struct(">HHHH")
TYPE_IPV4, PROTOCOL_UDP, TTL, DONT_FRAGMENT = 0x0800, 17, 64, 0x4000


@cache
def headers(source: Station, source_port: int, destination: Station, port: int, length: int) -> bytes:
    """What precedes a datagram of so many bytes."""
    ethernet = _mac(destination.mac) + _mac(source.mac) + TYPE_IPV4.to_bytes(2, "big")
    total = IPV4_BYTES + UDP_BYTES + length
    words = (0x45, 0, total, 0, DONT_FRAGMENT, TTL, PROTOCOL_UDP)
    ends = _ip(source.ip), _ip(destination.ip)
    checksum = _checksum(IPV4.pack(*words, 0, *ends))
    return ethernet + IPV4.pack(*words, checksum, *ends) + UDP.pack(source_port, port, UDP_BYTES + length, 0)


def received(frame: bytes, host: Station) -> tuple[bytes, Address, int] | None:
    """The datagram in a frame, where it is from, and its port; None where a host's kernel would not have received it."""
    if len(frame) < HEADERS or frame[:6] != _mac(host.mac) or frame[12:15] != b"\x08\x00\x45" or frame[30:34] != _ip(host.ip):
        return None
    total, fragment = int.from_bytes(frame[16:18], "big"), int.from_bytes(frame[20:22], "big") & ~DONT_FRAGMENT
    source_port, port, length, checksum = UDP.unpack_from(frame, ETHERNET_BYTES + IPV4_BYTES)
    end = ETHERNET_BYTES + total
    if fragment or frame[23] != PROTOCOL_UDP or _checksum(frame[14:34]) or not UDP_BYTES <= length <= total - IPV4_BYTES:
        return None
    if end > len(frame) or (checksum and _checksum(_pseudo_header(frame, length) + frame[34 : 34 + length])):
        return None
    return frame[HEADERS : 34 + length], (".".join(map(str, frame[26:30])), source_port), port


def _pseudo_header(frame: bytes, length: int) -> bytes:
    """What a UDP checksum also covers (RFC 768)."""
    return frame[26:34] + bytes([0, PROTOCOL_UDP]) + length.to_bytes(2, "big")


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
