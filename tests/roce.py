"""RoCEv2 packets of tests, read and built with scapy and zlib alone."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from inalab.switches.forwarding import Station

PORT = 4791
FIRST, MIDDLE, LAST, ONLY = 0x26, 0x27, 0x29, 0x2B  # UC, RDMA write; the last two with an immediate


class Reth(NamedTuple):
    address: int
    key: int
    length: int


@dataclass(frozen=True)
class Roce:
    """A packet, without what is below UDP."""

    opcode: int
    queue_pair: int
    psn: int
    payload: bytes
    reth: Reth | None = None
    immediate: int | None = None

    def framed(self, source: Station, destination: Station, break_icrc: bool = False) -> bytes:
        """As an Ethernet frame, with its ICRC or a wrong one."""
        body = b""
        if self.reth:
            body += self.reth.address.to_bytes(8, "big") + self.reth.key.to_bytes(4, "big") + self.reth.length.to_bytes(4, "big")
        if self.immediate is not None:
            body += self.immediate.to_bytes(4, "big")
        bth = bytes([self.opcode, 0, 0xFF, 0xFF]) + self.queue_pair.to_bytes(4, "big") + self.psn.to_bytes(4, "big")
        ip = IP(src=source.ip, dst=destination.ip, id=0, flags="DF")
        without = bytes(
            Ether(src=source.mac, dst=destination.mac)
            / ip
            / UDP(sport=PORT, dport=PORT, chksum=0)
            / (bth + body + self.payload + bytes(4))
        )
        check = icrc(without[14:]) ^ break_icrc
        return without[:-4] + check.to_bytes(4, "little")


def icrc(ip: bytes) -> int:
    """The invariant CRC of an IPv4 packet whose last four bytes are its place, by annex A17.3.3 of InfiniBand's specification."""
    masked = bytearray(ip[:-4])
    for hidden in (1, 8, 10, 11, 26, 27, 32):  # type of service, time to live, both checksums, and BTH's reserved byte
        masked[hidden] = 0xFF
    return zlib.crc32(bytes([0xFF] * 8) + masked)


def read(frame: bytes) -> Roce:
    """A frame's packet, having checked what is below it, and its ICRC by scapy's arithmetic and zlib's."""
    packet = Ether(frame)
    assert packet[IP].len == len(frame) - 14
    assert packet[UDP].len == len(frame) - 34
    assert packet[UDP].dport == PORT
    checked = packet[IP].copy()
    del checked.chksum
    assert IP(bytes(checked)).chksum == packet[IP].chksum
    bth = packet[BTH]
    assert icrc(frame[14:]) == int.from_bytes(frame[-4:], "little")
    assert (bth.version, bth.padcount, bth.pkey) == (0, 0, 0xFFFF)
    rest = frame[54:-4]
    reth = immediate = None
    if bth.opcode in (FIRST, ONLY):
        reth, rest = Reth(*(int.from_bytes(rest[a:b], "big") for a, b in ((0, 8), (8, 12), (12, 16)))), rest[16:]
    if bth.opcode in (LAST, ONLY):
        immediate, rest = int.from_bytes(rest[:4], "big"), rest[4:]
    return Roce(bth.opcode, bth.dqpn, bth.psn, rest, reth, immediate)
