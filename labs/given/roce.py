"""RoCE v2 as the lab about RDMA has it: headers as bytes, and frames around them. (Given.)

Ethernet | IPv4 | UDP, port 4791 | BTH | RETH, in FIRST and ONLY | immediate, in LAST and ONLY | payload | ICRC
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

FIRST, MIDDLE, LAST, ONLY = 0x26, 0x27, 0x29, 0x2B  # of RDMA WRITEs over an Unreliable Connection; LAST and ONLY with immediate
MTU = 256  # bytes of payload of a packet; only the last one of a message may have fewer
PSNS = 1 << 24  # packet sequence numbers wrap around here
BTH = struct.Struct(">BBHII")  # opcode, flags (0), partition (0xffff), queue pair at the receiver, PSN
RETH = struct.Struct(">QII")  # address in the receiver's memory, its key, bytes of the whole message
IMMEDIATE = struct.Struct(">I")
OUTER = struct.Struct(">6s6sHBBHHHBBH4s4sHHHH")
AROUND, ICRC = OUTER.size, 4  # bytes


@dataclass
class Packet:
    """A packet's fields; None where the packet does not have them."""

    opcode: int
    queue_pair: int
    psn: int
    address: int | None = None
    key: int | None = None
    length: int | None = None
    immediate: int | None = None
    payload: bytes = b""


def frame(worker: int, headers_and_payload: bytes) -> bytes:
    """A frame from a worker to the switch, from BTH to payload. Its last four bytes are zero, and are for the ICRC."""
    source, target = bytes([10, 0, 0, worker + 1]), bytes([10, 0, 0, 254])
    length = 28 + len(headers_and_payload) + ICRC
    words = struct.unpack(">10H", struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0x4000, 64, 17, 0, source, target))
    checksum = ~(sum(words) % 0xFFFF) & 0xFFFF
    ethernet = (bytes([2, 0, 0, 0, 0, 254]), bytes([2, 0, 0, 0, 0, worker + 1]), 0x0800)
    ip = (0x45, 0, length, 0, 0x4000, 64, 17, checksum, source, target)
    return OUTER.pack(*ethernet, *ip, 49152 + worker, 4791, length - 20, 0) + headers_and_payload + bytes(ICRC)


def read(frame: bytes) -> Packet | None:
    """The fields of a packet, or None if it is none of these writes. The ICRC is not looked at."""
    if len(frame) < AROUND + BTH.size + ICRC or frame[12:14] != b"\x08\x00" or frame[36:38] != (4791).to_bytes(2, "big"):
        return None
    opcode, _, _, pair, psn = BTH.unpack_from(frame, AROUND)
    got, at = Packet(opcode, pair & 0xFFFFFF, psn & 0xFFFFFF), AROUND + BTH.size
    extended = RETH.size * (opcode in (FIRST, ONLY)) + IMMEDIATE.size * (opcode in (LAST, ONLY))
    if opcode not in (FIRST, MIDDLE, LAST, ONLY) or len(frame) < at + extended + ICRC:
        return None
    if opcode in (FIRST, ONLY):
        got.address, got.key, got.length = RETH.unpack_from(frame, at)
        at += RETH.size
    if opcode in (LAST, ONLY):
        (got.immediate,) = IMMEDIATE.unpack_from(frame, at)
        at += IMMEDIATE.size
    got.payload = frame[at:-ICRC]
    return got
