"""hosts/roce: packets as InfiniBand's specification has them, memory that nobody writes beyond, and what is dropped."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from inalab.hosts.cores import ffi, library
from inalab.hosts.roce import wire
from inalab.hosts.stream.datagrams import Datagrams
from inalab.switches.forwarding import Station
from tests.properties import examples
from tests.roce import FIRST, LAST, MIDDLE, ONLY, PORT, Reth, icrc, read

MTU = 256
A, B = Station("02:00:00:00:00:01", "10.0.0.1"), Station("02:00:00:00:00:02", "10.0.0.2")
KEY, BEGIN, MEMORY = 77, 0x5000, 8 * MTU  # of B's region
PAIRS = 3
NUMBER = 17  # of B's first queue pair


def number(ip: str) -> int:
    return int.from_bytes(socket.inet_aton(ip), "little")


class End:
    """One end; its region of memory, with guards on both sides of it."""

    def __init__(self, own: Station, other: Station) -> None:
        self.own, self.other = own, other
        self.e = ffi.new("RoceEndpoint *")
        self.pairs = ffi.new("RoceQueuePair[]", PAIRS)
        self.memory = np.full(3 * MEMORY, 0xEE, np.uint8)
        self.e.source, self.e.destination, self.e.source_port, self.e.port = number(own.ip), number(other.ip), PORT, PORT
        self.e.first_pair, self.e.pairs_count, self.e.payload, self.e.pairs = NUMBER, PAIRS, MTU, self.pairs
        region, self.e.regions_count = self.e.regions[0], 1
        region.address, region.length, region.key = BEGIN, MEMORY, KEY
        region.memory = ffi.cast("uint8_t *", self.memory.ctypes.data + MEMORY)
        self.packets = Datagrams(32, wire.packet(MTU))
        for i in range(PAIRS):
            self.pairs[i].remote = NUMBER + i

    def write(self, payload: bytes, address: int = BEGIN, key: int = KEY, immediate: int = 5, pair: int = 0) -> list[bytes]:
        """The datagrams of a message."""
        lengths = self.packets.c.lengths
        rows = library().roce_write(self.e, pair, payload, len(payload), address, key, immediate, self.packets.c, 0, lengths)
        begin = self.packets.base - int(self.packets.octets.ctypes.data)
        return [self.packets.octets[row, begin : begin + self.packets.lengths[row]].tobytes() for row in range(rows)]

    def receive(self, datagrams: Iterable[bytes]) -> list[tuple[int, int, bytes]]:
        """Of messages that have come whole: queue pair, immediate, and what was written."""
        done, found = ffi.new("RoceCompletion *"), []
        for datagram in datagrams:
            if library().roce_received(self.e, datagram, len(datagram), done):
                found.append((done.queue_pair, done.immediate, bytes(ffi.buffer(done.message, done.bytes))))
        return found

    @property
    def dropped(self) -> dict[str, int]:
        named = {name: int(getattr(self.e.dropped, name)) for name, _ in ffi.typeof("RoceDropped").fields}
        return {name: count for name, count in named.items() if count}

    @property
    def guards(self) -> set[int]:
        """What is around the region."""
        return {*self.memory[:MEMORY].tolist(), *self.memory[2 * MEMORY :].tolist()}


def framed(datagram: bytes, source: Station = A, destination: Station = B) -> bytes:
    ip = IP(src=source.ip, dst=destination.ip, id=0, flags="DF")
    return bytes(Ether(src=source.mac, dst=destination.mac) / ip / UDP(sport=PORT, dport=PORT, chksum=0) / Raw(datagram))


def text(bytes_: int) -> bytes:
    return bytes(random.Random(bytes_).randbytes(bytes_))


@pytest.mark.parametrize(
    ("size", "opcodes"), [(20, [ONLY]), (256, [ONLY]), (260, [FIRST, LAST]), (1024, [FIRST, MIDDLE, MIDDLE, LAST])]
)
def test_a_message_is_cut_into_packets_of_the_mtu(size: int, opcodes: list[int]) -> None:
    end, payload = End(A, B), text(size)
    end.pairs[0].psn = 2**24 - 1
    packets = [read(framed(datagram)) for datagram in end.write(payload, immediate=0x12345678)]
    assert [p.opcode for p in packets] == opcodes
    assert [p.psn for p in packets] == [2**24 - 1, *range(len(opcodes) - 1)]
    assert [len(p.payload) for p in packets[:-1]] == [MTU] * (len(opcodes) - 1)
    assert b"".join(p.payload for p in packets) == payload
    assert packets[0].reth == Reth(BEGIN, KEY, size)
    assert packets[-1].immediate == 0x12345678
    assert {p.queue_pair for p in packets} == {NUMBER}


def test_the_icrc_is_scapys() -> None:
    (datagram,) = End(A, B).write(text(64))
    bth = BTH(opcode=ONLY, dqpn=NUMBER, psn=0, pkey=0xFFFF)
    ip = IP(src=A.ip, dst=B.ip, id=0, flags="DF", tos=3, ttl=9)  # which may change on the way
    built = bytes(Ether() / ip / UDP(sport=PORT, dport=PORT, chksum=0) / bth / Raw(datagram[12:-4]))
    assert built[-4:] == datagram[-4:]


def test_what_is_written_is_there_with_its_immediate() -> None:
    a, b = End(A, B), End(B, A)
    for size in (20, 256, 512, 1000):
        assert b.receive(a.write(text(size), BEGIN + 8, immediate=size, pair=2)) == [(2, size, text(size))]
        assert b.memory[MEMORY + 8 : MEMORY + 8 + size].tobytes() == text(size)
    assert (b.dropped, b.guards) == ({}, {0xEE})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": KEY + 1}, "key"),
        ({"address": BEGIN - 4}, "bounds"),
        ({"address": BEGIN + MEMORY - 508}, "bounds"),
        ({"address": 2**64 - 4}, "bounds"),
        ({"address": 0}, "bounds"),
    ],
)
def test_writes_beyond_the_region_are_dropped_and_counted(change: dict[str, int], reason: str) -> None:
    a, b = End(A, B), End(B, A)
    assert b.receive(a.write(text(512), **change)) == []
    assert b.dropped == {reason: 1, "sequence": 1}
    assert set(b.memory.tolist()) == {0xEE}


def changed(datagram: bytes, place: int, value: int) -> bytes:
    """With another byte there, and the ICRC accordingly."""
    made = bytearray(datagram)
    made[place] = value
    return bytes(made[:-4]) + icrc(framed(bytes(made))[14:]).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, 0x0A, "malformed"),  # RC
        (0, 0xFF, "malformed"),
        (1, 0x01, "malformed"),  # header version
        (1, 0x10, "malformed"),  # bytes of padding
        (2, 0x00, "malformed"),  # partition
        (7, NUMBER + PAIRS, "queue_pair"),
        (7, NUMBER - 1, "queue_pair"),
        (5, 1, "queue_pair"),
        (27, 0xFF, "malformed"),  # the message's length is another
    ],
)
def test_malformed_packets_are_dropped_and_counted(place: int, value: int, reason: str) -> None:
    a, b = End(A, B), End(B, A)
    (datagram,) = a.write(text(64))
    assert b.receive([changed(datagram, place, value)]) == []
    assert b.dropped == {reason: 1}
    assert set(b.memory.tolist()) == {0xEE}
    assert b.receive([datagram]) == [(0, 5, text(64))]


@pytest.mark.parametrize("place", [0, 3, 11, 12, 30, 95, 99])
def test_a_wrong_bit_shows_in_the_icrc(place: int) -> None:
    a, b = End(A, B), End(B, A)
    (datagram,) = a.write(text(64))
    broken = bytearray(datagram)
    broken[place] ^= 4
    assert b.receive([bytes(broken)]) == []
    assert b.dropped in ({"icrc": 1}, {"malformed": 1})


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["come", "come", "come", "lose", "twice", "swap"])), max_size=40))
@examples(200)
def test_messages_come_whole_and_in_order_or_not_at_all(script: list[tuple[int, str]]) -> None:
    """Whatever the network does; none comes twice."""
    a, b = End(A, B), End(B, A)
    sent, way = {}, list[bytes]()
    for n, (packets, _) in enumerate(script):
        payload = bytes([n]) * (4 + 256 * packets)
        sent[n] = payload
        way += a.write(payload, immediate=n)
    for n, (_, what) in enumerate(script):
        place = n % len(way)
        if what == "lose" and len(way) > 1:
            way.pop(place)
        elif what == "twice":
            way.insert(n * 7 % len(way), way[place])
        elif what == "swap":
            way[place], way[place - 1] = way[place - 1], way[place]
    came = b.receive(way)
    assert all(payload == sent[n] for _, n, payload in came)
    numbers = [n for _, n, _ in came]
    assert numbers == sorted(set(numbers))
    if all(what == "come" for _, what in script):
        assert numbers == list(range(len(script)))
    assert b.guards == {0xEE}


def test_garbage_writes_nothing_anywhere() -> None:
    """Random datagrams, and good ones with a few bytes changed; with a wrong ICRC, and with a right one."""
    rng, a, b = random.Random(1), End(A, B), End(B, A)
    good = [*a.write(text(1024)), *a.write(text(64)), *a.write(text(256))]
    for turn in range(20_000):
        datagram = bytearray(rng.choice(good) if turn % 4 else rng.randbytes(rng.randrange(0, 300)))
        for _ in range(rng.randrange(1, 4) if datagram else 0):
            datagram[rng.randrange(min(len(datagram), 40))] = rng.choice([0, 1, 255, rng.randrange(256)])
        del datagram[rng.choice([len(datagram), len(datagram), rng.randrange(0, 300)]) :]
        if len(datagram) >= 16 and turn % 2:
            datagram[-4:] = icrc(framed(bytes(datagram))[14:]).to_bytes(4, "little")
        b.receive([bytes(datagram)])
    assert b.guards == {0xEE}
    assert set(b.dropped) == {"malformed", "icrc", "queue_pair", "key", "bounds", "sequence"}
