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
PORTS = struct.Struct(">HH")


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
    if frame[:6] != _mac(host.mac) or frame[12:14] != b"\x08\x00" or frame[30:34] != _ip(host.ip) or frame[23] != PROTOCOL_UDP:
        return None
    source_port, port = PORTS.unpack_from(frame, ETHERNET_BYTES + IPV4_BYTES)
    return frame[HEADERS:], (".".join(map(str, frame[26:30])), source_port), port


@cache
def _mac(text: str) -> bytes:
    return bytes(int(part, 16) for part in text.split(":"))


@cache
def _ip(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def _checksum(header: bytes) -> int:
    """Of an IPv4 header whose own is 0 (RFC 791)."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
