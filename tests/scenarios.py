"""Programs with commands and packets. What real BMv2 makes of them is recorded in tests/golden/, and must come out here."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from hosts.atp import wire as atp_wire
from hosts.switchml import wire
from switches import atp
from switches.forwarding import forwarding
from switches.loss import Loss, link_seed, set_loss
from tests import ptf as suite
from tests.atp_packets import RACK, SERVER_PORT, UPLINK, AtpJob
from tests.packets import PARENT, PARENT_PORT, SWITCH, TestJob, frame, vector, worker_station

PROGRAMS = Path("tests/programs")
ETHERNET = bytes.fromhex("020000000001020000000002") + b"\x12\x34"


@dataclass(frozen=True)
class Scenario:
    """Packets (port, bytes) sent one after another to a program on ports 0 … 7, after some commands."""

    name: str
    program: Path
    packets: list[tuple[int, bytes]]
    commands: list[str] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)


def probes(form: str, rows: list[tuple[int, ...]], tail: bytes = b"") -> list[tuple[int, bytes]]:
    """Ethernet and a probe header packed by `form`, from port 0."""
    return [(0, ETHERNET + struct.pack(form, *row) + tail) for row in rows]


def arithmetic() -> Scenario:
    rng = random.Random(7)
    corners = [0, 1, 0x7F, 0x80, 0xFF, 0x1000, 0x1FFF, 0x7FFFFFFF, 0x80000000, 2**63, 2**64 - 1]
    rows = [(a, b) for a in corners for b in corners[::3]]
    rows += [(rng.getrandbits(64), rng.getrandbits(rng.choice([4, 8, 16, 64]))) for _ in range(60)]
    return Scenario("arithmetic", PROGRAMS / "arithmetic.p4", probes(">QQ96x8x", rows))


def tables() -> Scenario:
    commands = [
        "table_add by_prefix set_result 10.0.0.0/8 => 1",
        "table_add by_prefix set_result 10.1.0.0/16 => 2",
        "table_add by_prefix set_result 10.1.2.3/32 => 3",
        "table_add by_prefix nothing 0.0.0.0/1 =>",
        "table_add by_mask set_second 0x10&&&0xf0 0&&&0 => 1 2 30",
        "table_add by_mask set_second 0x11&&&0xff 5&&&0xffff => 4 5 10",
        "table_add by_mask set_second 0x11&&&0xff 0&&&0 => 7 8 20",
        "table_add by_mask nothing 0x13&&&0xff 0&&&0 => 1",
        "table_add by_range set_third 10->20 1 => 50 1",
        "table_add by_range set_third 15->30 1 => 51 2",
        "table_add by_range nothing 16->16 1 => 0",
        "table_add exactly add 17 5 => 100",
        "table_add exactly nothing 17 6 =>",
        "table_set_default exactly add 1",
    ]
    rows = [
        (a, left, right, 0, 0, 0, 0)
        for a in (0x0A000001, 0x0A010001, 0x0A010203, 0x01020304, 0xC0000001)
        for left, right in (
            (0x11, 5),
            (0x11, 6),
            (0x10, 1),
            (0x13, 1),
            (15, 1),
            (16, 1),
            (20, 1),
            (31, 1),
            (0x20, 2),
            (0x30, 2),
            (0xFFFF, 1),
        )
    ]
    return Scenario("tables", PROGRAMS / "tables.p4", probes(">IHHBBBB", rows), commands)


def replication() -> Scenario:
    commands = [
        "mc_mgrp_create 5", "mc_node_create 11 1 3", "mc_node_create 12 2", "mc_node_create 13 3", "mc_node_associate 5 0",
        "mc_node_associate 5 1", "mc_node_associate 5 2", "mirroring_add 100 4", "mirroring_add_mc 101 5",
    ]  # fmt: skip
    rows = [(op, 0, 0, 0, 0, 0, 0, 0) for op in range(0, 17)]
    return Scenario("replication", PROGRAMS / "replication.p4", probes(">BBBBHHBB", rows, b"payload of the packet"), commands)


def stacks() -> Scenario:
    tails = [bytes([v << 1 | last for v, last in labels]) for labels in (
        [(5, 1)], [(5, 0), (6, 1)], [(5, 0), (6, 0), (7, 1)], [(5, 0), (6, 0), (7, 0), (8, 1)], [(5, 0)], [],
    )]  # fmt: skip
    packets = [
        (0, ETHERNET + struct.pack(">BBBB", op, 0, 0, 0) + tail + more)
        for op in range(6) for tail in tails for more in (b"\xee\xdd\xcc", b"\xef\xdd\xcc", b"")
    ]  # fmt: skip
    packets += [(0, ETHERNET + bytes([20, 0, 0, 0, n]) + b"abcdefghijkl"[:k]) for n in (0, 1, 3, 8, 9, 40) for k in (1, 8, 12)]
    return Scenario("stacks", PROGRAMS / "stacks.p4", packets)


def hashes() -> Scenario:
    rng = random.Random(3)
    rows = [(rng.getrandbits(32), rng.getrandbits(16), rng.getrandbits(8), op, checksum) for op in range(4) for checksum in (0, 0x1234)
            for _ in range(4)]  # fmt: skip
    rows.append((0x01020304, 0x0506, 7, 1, 0xFFFF & ~(0x0102 + 0x0304 + 0x0506 + 0x0701)))
    packets = [(0, ETHERNET + struct.pack(">IHBB", *row[:4]) + bytes(20) + struct.pack(">H", row[4]) + bytes(10)) for row in rows]
    return Scenario("hashes", PROGRAMS / "hashes.p4", packets)


def flow() -> Scenario:
    packets = probes(">BBBBBH", [(op, 10, 20, 0, 0, 0) for op in (0, 1, 2, 3, 4, 5, 200)], b"tail")
    other = [(0, ETHERNET[:12] + kind + b"more of it") for kind in (b"\x12\x00", b"\x99\x99", b"\x08\x00")]
    short = [(0, (ETHERNET + b"\x02\x03")[:n]) for n in (14, 15, 16)]
    return Scenario("flow", PROGRAMS / "flow.p4", packets + other + short)


def corners() -> Scenario:
    commands = [
        "table_add by_op6 leave 6 =>", "table_add by_op7 leave 7 =>", "table_add by_op8 leave 8 =>",
        "table_add by_op9 compare 9 => 0x0102030405060708090a0b0c0d0e0f10 9",
    ]  # fmt: skip
    big = bytes(range(1, 17))
    rows = [(op, a, b, 0, a, 3, 0, big, 0x0A010203) for op in range(17) for a, b in ((1, 1), (0, 2), (7, 7))]
    rows += [(9, 0, 0, 0, 0, 9, 0, bytes(15) + b"\x05", 0), (12, 0, 0, 0, 0, 9, 0, big, 0), (11, 1, 0, 0, 2, 0, 0, big, 0)]
    return Scenario("corners", PROGRAMS / "corners.p4", probes(">BBBBBBH16sI", rows, b"rest"), commands)


def _story(job: TestJob, turns: int) -> list[tuple[int, bytes]]:
    """Rounds of a job with duplicates in between, and a stale packet at the end of each."""
    packets = []
    for turn in range(turns):
        for slot in range(2):
            for w in range(job.workers):
                update = job.update(
                    w, slot, turn * job.slots + slot, vector(w + 1, -turn, 2**31 - 1, slot), turn % 2, 10 * w + turn
                )
                packets += [(w, update)] * (1 + (w + turn) % 2)
        packets.append((0, job.update(0, 0, turn * job.slots, vector(1), turn % 2)))
        if turn > 2:
            packets.append((0, job.update(0, 1, (turn - 2) * job.slots + 1, vector(77), turn % 2)))
    return packets


def _switchml(name: str, commands: list[str], packets: list[tuple[int, bytes]]) -> Scenario:
    return Scenario(name, Path("p4/switchml.p4"), packets, commands, {"K": "32", "POOL_CELLS": "64"})


def switchml_one_level(workers: int) -> Scenario:
    job = TestJob(workers)
    return _switchml(f"switchml-{workers}-workers", job.commands(), _story(job, 5))


def switchml_two_levels() -> Scenario:
    job = TestJob(2, has_parent=True)
    packets = []
    for turn in range(4):
        chunk = turn * job.slots
        for w in (0, 1, 1):
            packets.append((w, job.update(w, 0, chunk, vector(w + turn), turn % 2, w)))
        down = {"job": 0, "worker": 0, "kind": wire.KIND_RESULT, "version": turn % 2, "slot": 0, "chunk": chunk, "exponent": 9}
        query = {**down, "kind": wire.KIND_QUERY}
        packets.append((0, frame(worker_station(0), SWITCH, query, [])))
        packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**down, "kind": wire.KIND_STATUS, "seen": 1}, [])))
        packets += [(PARENT_PORT, frame(PARENT, SWITCH, down, vector(100 + turn)))] * 2
        packets.append((1, job.update(1, 0, chunk, vector(w + turn), turn % 2, w)))
        packets.append((0, frame(worker_station(0), SWITCH, query, [])))
        packets.append((2, frame(PARENT, SWITCH, down, vector(1))))
    return _switchml("switchml-two-levels", job.commands(), packets)


def switchml_queries() -> Scenario:
    """Queries of both kinds at every point of a round, with and without a switch above, and what that one answers."""
    packets: list[tuple[int, bytes]] = []
    jobs = [TestJob(2), TestJob(2, number=1, base=8, first_node=2, has_parent=True)]
    for turn in range(3):
        for job in jobs:
            chunk, version = turn * job.slots, turn % 2
            about = {"job": job.number, "version": version, "slot": 0, "chunk": chunk, "exponent": 77}

            def ask(w: int, mark: int, about: dict[str, int] = about) -> None:
                query = {**about, "worker": w, "kind": wire.KIND_QUERY, "mark": mark}
                packets.append((w, frame(worker_station(w), SWITCH, query, [])))

            for w in (0, 1):
                ask(w, turn % 2)
                packets.append((w, job.update(w, 0, chunk, vector(w + turn), version, 5 + w)))
            for w, mark in ((0, 0), (0, 0), (1, 0), (1, 1), (0, 1), (1, wire.MARK_INSISTS), (0, 1), (1, 1)):
                ask(w, mark)
            for seen in (0b10, 0b11, 0b01):
                status = {**about, "kind": wire.KIND_STATUS, "seen": seen, "mark": turn}
                packets.append((PARENT_PORT, frame(PARENT, SWITCH, status, [])))
            packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_RESULT}, vector(100 + turn))))
            ask(0, 0)
            packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_STATUS, "seen": 1}, [])))
    return _switchml("switchml-queries", [line for job in jobs for line in job.commands()], packets)


def switchml_turned_away() -> Scenario:
    job = TestJob(2)
    changes = [{"job": 9}, {"worker": 1}, {"worker": 40}, {"slot": 4}, {"version": 3}, {"kind": 9}, {"kind": 2}]
    packets = [(0, job.update(0, 0, 0, vector(1), change=c)) for c in changes]
    good = job.update(0, 0, 0, vector(3))
    packets += [(0, good[:n]) for n in range(14, len(good), 9)] + [(0, good + b"padding")]
    broken = bytearray(good)
    broken[24] ^= 0xFF  # the IPv4 checksum
    packets += [(0, bytes(broken)), (1, job.update(1, 0, 0, vector(4)))]
    return _switchml("switchml-turned-away", job.commands(), packets)


def switchml_restart() -> Scenario:
    """Three groups of one job, whose packets of all times come in each other's; their streams end where 32 bits do."""
    packets = []
    for has_parent in (False, True):
        job = TestJob(2, has_parent=has_parent)
        for turn, epoch in enumerate((2**32 - 1, 1, 5)):
            for chunk in (2**32 - 4, 0):
                for w, e in ((0, epoch), (1, 2**32 - 1), (1, epoch), (0, epoch), (0, 3)):
                    packets.append((w, job.update(w, 0, chunk, vector(turn, w, chunk % 99), epoch=e)))
                query = {"job": 0, "worker": 1, "kind": wire.KIND_QUERY, "slot": 0, "chunk": chunk, "epoch": 2**32 - 1}
                packets.append((1, frame(worker_station(1), SWITCH, query, [])))
                down = {"job": 0, "kind": wire.KIND_RESULT, "slot": 0, "chunk": chunk}
                packets += [(PARENT_PORT, frame(PARENT, SWITCH, {**down, "epoch": e}, vector(7, turn))) for e in (1, epoch)]
        packets.append((0, job.update(0, 0, 0, vector(1), epoch=0)))
    return _switchml("switchml-restart", TestJob(2, has_parent=True).commands(), packets)


def atp_restart() -> Scenario:
    """Groups of two jobs, one of which starts again and again; results and releases of all of them, and confirmations."""
    jobs = [AtpJob(2), AtpJob(2, number=1)]
    one, two = jobs
    packets: list[tuple[int, bytes]] = []
    for turn, epoch in enumerate((2**32 - 1, 1, 5)):
        for sequence in (2**24 - 1, 0):
            for w, e in ((0, epoch), (1, 2**32 - 1), (1, epoch), (0, 3)):
                packets.append((w, one.gradient(w, sequence, vector(turn, w), 2, epoch=e)))
            packets += [(0, two.gradient(0, sequence, vector(9), 2)), (1, two.gradient(1, sequence, vector(9), 3))]
            packets += [(SERVER_PORT, one.answer(sequence, vector(turn), 2, epoch=e)) for e in (2**32 - 1, epoch)]
        packets.append((0, one.gradient(0, 7, vector(8), 4, epoch=epoch)))
        for e in (3, epoch):
            packets.append((SERVER_PORT, one.answer(0, [], 4, kind=atp_wire.KIND_RELEASE, epoch=e)))
        packets.append((1, one.gradient(1, 7, vector(8), 4, epoch=epoch)))
    confirmed = one.answer(0, [], 4, kind=atp_wire.KIND_RELEASED, to=worker_station(1))
    packets += [(port, confirmed) for port in (0, UPLINK)]
    return _atp("atp-restart", jobs, packets, [*atp.trunks([UPLINK])])


def guarded() -> Scenario:
    """What hosts may send: their own addresses, no tags, whole headers, no fragments and no options to a protocol's port."""
    mine, other = worker_station(0), worker_station(1)
    commands = forwarding(range(3), {worker_station(w).mac: w for w in range(3)}, {0: mine, 1: other})
    packets, tagged = [], []
    for source in (mine, other):
        ethernet = Ether(src=source.mac, dst=worker_station(2).mac)
        for ip in (mine.ip, other.ip):
            for port in (9, wire.UDP_PORT):
                datagram = UDP(sport=5, dport=port, chksum=0) / (b"x" * 24)
                packets += [
                    ethernet / IP(src=ip, dst="10.0.0.3") / datagram,
                    ethernet / IP(src=ip, dst="10.0.0.3", flags="MF") / datagram,
                    ethernet / IP(src=ip, dst="10.0.0.3", frag=3) / datagram,
                    *(ethernet / IP(src=ip, dst="10.0.0.3", options=[IPOption(b"\x01" * 4 * n)]) / datagram for n in (1, 3, 10)),
                    *(ethernet / IP(src=ip, dst="10.0.0.3", ihl=n) / datagram for n in (0, 4, 6, 15)),
                    ethernet / IP(src=ip, dst="10.0.0.3", version=6) / datagram,
                ]
            packets += [
                ethernet / ARP(op=op, hwsrc=mac, psrc=ip, pdst="10.0.0.3") for op in (1, 2) for mac in (mine.mac, other.mac)
            ]
            packets.append(ethernet / ARP(op=1, hwsrc=mine.mac, psrc="0.0.0.0", pdst="10.0.0.3"))
        for tag in (0x8100, 0x88A8, 0x9100):
            tagged.append(Ether(src=source.mac, dst=worker_station(2).mac, type=tag) / Raw(bytes([0, 0, 8, 0]) + b"tagged" * 9))
        packets.append(ethernet / IP(src=source.ip, dst="10.0.0.3") / TCP(dport=wire.UDP_PORT))
    frames = [bytes(packet) for packet in packets]
    frames += [frames[0][:n] for n in (14, 20, 34, 40)]
    from_both = [(port, data) for data in frames for port in (0, 2)]
    return _switchml("guarded", commands, from_both + [(0, bytes(packet)) for packet in tagged])


def _atp(name: str, jobs: list[AtpJob], packets: list[tuple[int, bytes]], settings: list[str] | None = None) -> Scenario:
    commands, node = list(settings or []), 1
    for job in jobs:
        commands += (told := job.commands(node))
        node += sum(line.startswith("mc_node_create") for line in told) - (node == 1)
    return Scenario(name, Path("p4/atp.p4"), packets, commands, {"K": "32", "AGGREGATORS": "16"})


def atp_level(level: int, workers: int) -> Scenario:
    """Two jobs at one switch: chunks that complete, collide, are sent again at every point, overflow, and are released."""
    jobs = [AtpJob(workers, level, 2 * level, number) for number in (0, 1)]
    one, two = jobs
    toward = SERVER_PORT if level else UPLINK
    rng = random.Random(workers)
    packets: list[tuple[int, bytes]] = []
    for turn in range(6):
        for w in range(workers):
            big = vector(w + 1, -turn, 2**31 - 1 - w * turn, -(2**31) + w, 2**30)
            packets.append((w, one.gradient(w, turn, big, turn % 3, ecn=w & turn & 1)))
            if turn % 2:
                packets.append((w, one.gradient(w, turn, big, turn % 3, resend=int(turn > 2))))
            packets.append((w, two.gradient(w, turn, vector(10 * w, turn), (turn + w % 2) % 3, resend=int(turn == 4))))
        if level:
            packets.append((UPLINK, one.from_rack(turn, vector(100, turn), turn % 3)))
            part = {"bitmap0": 1 + turn % 2, "resend": turn % 2, "collision": 1}
            packets.append((UPLINK, two.from_rack(turn, vector(7, turn), turn % 3, **part)))
            packets.append((UPLINK, one.from_rack(turn, vector(100, turn), turn % 3, resend=1)))
        if turn % 2 == 0:
            packets.append((0, one.gradient(0, turn, vector(3), turn % 3, kind=atp_wire.KIND_RAW, resend=1)))
        packets.append((toward, one.answer(turn, vector(turn, 5), turn % 3, next_index=turn)))
        packets.append((toward, one.answer(turn, vector(turn, 6), turn % 3, to=worker_station(rng.randrange(workers)))))
    for index in range(3):
        packets.append((toward, two.answer(0, [], index, kind=atp_wire.KIND_RELEASE)))
    for w in range(workers):
        packets.append((w, two.gradient(w, 9, vector(w), 1)))
        packets.append((w, one.gradient(w, 9, vector(w), 1)))
    return _atp(f"atp-level-{level}-{workers}-workers", jobs, packets)


def atp_queries(level: int) -> Scenario:
    """Queries, answers to them, and what is sent again for those, at every point of chunks that come in parts."""
    job = AtpJob(3, level, 2 * level)
    toward = SERVER_PORT if level else UPLINK
    rng = random.Random(level)
    rack = atp.rack_bit(RACK)
    packets: list[tuple[int, bytes]] = []
    for sequence in range(6):
        senders = [*range(3), *([UPLINK] if level else [])]
        for _ in range(24):
            port, index = rng.choice(senders), sequence % 4
            made = job.from_rack if port == UPLINK else partial(job.gradient, port)
            marks = {"asked": rng.randrange(2), "next_index": rng.randrange(2**16), "ecn": rng.randrange(2)}
            choice = rng.randrange(6)
            if choice < 2:
                again = int(rng.random() < 0.5)
                packets.append((port, made(sequence, vector(port, sequence), index, resend=again, **marks)))
            elif choice < 4:
                raw = int(rng.random() < 0.2)
                packets.append((port, made(sequence, [], index, kind=atp_wire.KIND_QUERY, raw=raw, **marks)))
            else:
                has = {"bitmap0": rng.randrange(8), "bitmap1": rng.choice((0, 1, rack, rack | 2)), "resend": rng.randrange(2)}
                to = worker_station(rng.randrange(3))
                packets.append((toward, job.answer(sequence, [], index, to, kind=atp_wire.KIND_STATUS, **has, **marks)))
    return _atp(f"atp-queries-level-{level}", [job], packets)


def atp_turned_away() -> Scenario:
    job = AtpJob(2, other_rack=2)
    changes: list[dict[str, int]] = [
        {"job": 9}, {"job": 200}, {"bitmap1": 2}, {"bitmap1": 3}, {"bitmap0": 1}, {"edge_switch": 0}, {"index": 16},
        {"index": 65535}, {"kind": 9}, {"kind": 3}, {"kind": 4}, {"kind": 6}, {"kind": 7},
    ]  # fmt: skip
    packets = [(0, job.gradient(0, 0, vector(1), **change)) for change in changes]
    packets.append((UPLINK, job.from_rack(0, vector(1), bitmap0=4)))
    good = job.gradient(0, 0, vector(3))
    packets += [(1, good)]
    packets += [(0, good[:n]) for n in range(14, len(good), 9)] + [(0, good + b"padding")]
    broken = bytearray(good)
    broken[24] ^= 0xFF  # the IPv4 checksum
    packets += [(0, bytes(broken)), (1, job.gradient(1, 0, vector(4))), (UPLINK, job.from_rack(0, vector(5)))]
    return _atp("atp-turned-away", [job], packets)


def atp_expired() -> Scenario:
    """Nobody respects an aggregator for longer than a microsecond."""
    jobs = [AtpJob(2), AtpJob(2, number=1)]
    packets = [
        (w, jobs[n].gradient(w, s, vector(10 * n + w), 3)) for s in range(2) for n, w in ((0, 0), (1, 0), (0, 1), (1, 1), (1, 0))
    ]
    return _atp("atp-expired", jobs, packets, ["register_write aggregator.lifetime 0 1"])


def atp_transit() -> Scenario:
    """A root: it aggregates for nobody and spreads results."""
    job = AtpJob(2, other_rack=1)
    commands = [*job.commands(), *atp.transit()]
    gradient = frame_of(job, atp.rack_bit(RACK))
    packets = [(5, gradient), (SERVER_PORT, job.answer(0, vector(1))), (UPLINK, gradient), (SERVER_PORT, job.answer(1, vector(2)))]
    return Scenario("atp-transit", Path("p4/atp.p4"), packets, commands, {"K": "32", "AGGREGATORS": "16"})


def frame_of(job: AtpJob, bit: int) -> bytes:
    """A gradient that no entry of the switch is about."""
    return job.gradient(0, 0, vector(1, 2, 3), bitmap1=bit, bitmap0=1, edge_switch=1)


def forwarded() -> Scenario:
    stations = [worker_station(w) for w in range(3)]
    commands = forwarding(range(3), {s.mac: port for port, s in enumerate(stations)})
    packets = [(0, bytes(Ether(src=stations[0].mac, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=stations[0].ip, pdst=stations[1].ip)))]
    for dst in (stations[1].mac, stations[2].mac, "02:00:00:00:00:77"):
        ethernet = Ether(src=stations[0].mac, dst=dst)
        packets.append((0, bytes(ethernet / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / b"hello")))
        packets.append(
            (
                0,
                bytes(
                    ethernet
                    / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption(b"\x01" * 4)])
                    / UDP(dport=wire.UDP_PORT)
                    / (b"x" * 5)
                ),
            )
        )
        packets.append(
            (0, bytes(ethernet / IP(src="10.0.0.1", dst="10.0.0.2", flags=1, frag=0) / UDP(dport=wire.UDP_PORT) / (b"x" * 5)))
        )
    return _switchml("forwarded", commands, [*packets, (1, packets[1][1][:14]), (1, packets[1][1][:20])])


def lossy(name: str, loss: Loss) -> Scenario:
    """Packet by packet: which of 200 broadcasts, and which of their copies, are lost."""
    commands = [*forwarding(range(3), {}), *set_loss(0, 0, loss, link_seed(5, 0, 0))]
    for port in (1, 2):
        commands += set_loss(1, port, loss, link_seed(5, port, 1))
    packets = [(0, b"\xff" * 6 + b"\x02" + bytes(5) + b"\x88\xb5" + struct.pack(">H", n)) for n in range(200)]
    return _switchml(name, commands, packets)


def registers() -> Scenario:
    rng = random.Random(5)
    rows = []
    for op in (1, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 108, 133):
        for value in (2**64 - 1, 0x80, 0, rng.getrandbits(64), 2**32, rng.getrandbits(64)):
            rows += [(op, rng.randrange(4), value, 0, 0), (op, 2, value, 0, 0)]
    return Scenario("registers", PROGRAMS / "registers.p4", probes(">BBQQB", rows))


def ports() -> Scenario:
    commands = [
        "mc_mgrp_create 5", "mc_node_create 11 1 3", "mc_node_create 12 2", "mc_node_associate 5 0", "mc_node_associate 5 1",
        "mc_mgrp_create 6", "mirroring_add 100 4", "mirroring_add_mc 101 5", "mirroring_add 102 5",
    ]  # fmt: skip
    rows = [(op, 0, port, 0, 0, 0, group) for op in range(13) for port, group in ((1, 5), (0, 6), (300, 77), (511, 0))]
    rows += [(op, then, 1, 0, 0, 0, 5) for op in (1, 5, 7, 8, 11) for then in range(1, 9)]
    return Scenario("ports", PROGRAMS / "ports.p4", probes(">BBHBBHH", rows, b"what follows"), commands)


def short() -> Scenario:
    """Packets that end anywhere within the headers, from every port: default ports, and headers that are not valid."""
    whole = ETHERNET + struct.pack(">BBHBBHH", 1, 0, 2, 0, 0, 0, 0)
    packets = [(port, whole[:n]) for port in (0, 3) for n in range(14, len(whole) + 1)]
    return Scenario("short", PROGRAMS / "ports.p4", packets)


def ptf(scenario: Callable[[suite.Bench], None], workers: int, has_parent: bool) -> Scenario:
    script = suite.Script(TestJob(workers, has_parent=has_parent))
    scenario(script)
    levels = "two-levels" if has_parent else "one-level"
    name = f"ptf/{levels}-{workers}-workers/{scenario.__name__}"
    return _switchml(name, script.job.commands(), script.packets)


SCENARIOS = {
    s.name: s
    for s in (
        arithmetic(), tables(), replication(), stacks(), hashes(), flow(), corners(), registers(), ports(), short(), forwarded(),
        *(switchml_one_level(n) for n in (1, 2, 3)), switchml_two_levels(), switchml_queries(), switchml_turned_away(),
        switchml_restart(), atp_restart(), guarded(),
        lossy("loss-bernoulli", Loss.bernoulli(0.2)), lossy("loss-gilbert-elliott", Loss.gilbert_elliott(0.2, 5)),
        *(atp_level(level, workers) for level in (0, 1) for workers in (1, 2, 3)), atp_turned_away(), atp_expired(), atp_transit(),
        atp_queries(0), atp_queries(1),
        *(ptf(f, workers, has_parent) for has_parent in (False, True) for workers in (2, 3) for f in suite.SCENARIOS),
    )
}  # fmt: skip
