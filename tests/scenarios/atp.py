"""ATP: chunks at either level, queries, restarts, what is turned away, lifetimes, transit."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.atp.wire import KIND_RELEASE, KIND_RELEASED, KIND_STATUS
from inalab.switches import atp
from inalab.switches.commands import Commands
from inalab.switches.forwarding import Station, by_packet, forward
from tests.atp_packets import RACK, REMOTE, ROOT, SERVER, SERVER_PORT, SWITCH, UPLINK, AtpJob, admitting
from tests.packets import vector, worker_station
from tests.scenarios.scenario import Scenario


def _atp(
    name: str, jobs: list[AtpJob], packets: list[tuple[int, bytes]], settings: list[str] | None = None, program: str = "atp"
) -> Scenario:
    commands = [*(settings or []), *admitting(jobs)]
    return Scenario(name, Path(f"p4/{program}.p4"), packets, commands, {"K": "32", "AGGREGATORS": "16"})


def one_level(level: int, workers: int) -> Scenario:
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


def preemption(level: int) -> Scenario:
    """Two jobs fight for three aggregators by priority: what is evicted leaves, whole sums are overwritten, priorities halve."""
    jobs = [AtpJob(3, level, 2 * level, number) for number in (0, 1)]
    toward = SERVER_PORT if level else UPLINK
    rng = random.Random(10 + level)
    packets: list[tuple[int, bytes]] = []
    for sequence in range(8):
        gradients = []
        for job in jobs:
            urgency = rng.choice((0, 1, 4, 40, 65535))
            for w in range(3):
                numbers = vector(w + 1, -sequence, 2**31 - 1 - w, -(2**31) + w)
                fields = {"next_index": max(urgency - w, 0), "ecn": rng.randrange(2), "resend": int(rng.random() < 0.1)}
                gradients.append((w, job.gradient(w, sequence, numbers, sequence % 3, **fields)))
                if rng.random() < 0.2:
                    gradients.append((w, job.gradient(w, sequence, [7], sequence % 3, exponent=130, **fields)))
            if level:
                gradients.append((UPLINK, job.from_rack(sequence, vector(9, sequence), sequence % 3, next_index=urgency)))
        rng.shuffle(gradients)
        packets += gradients
        if sequence % 2:
            packets += [(toward, job.answer(sequence, vector(sequence), sequence % 3, next_index=5)) for job in jobs]
            packets.append((0, jobs[0].gradient(0, sequence, [], sequence % 3, kind=atp_wire.KIND_QUERY, next_index=3)))
            to = worker_station(1)
            packets.append((toward, jobs[1].answer(sequence - 1, [], (sequence - 1) % 3, to, kind=KIND_STATUS, resend=1)))
    return _atp(f"esa-level-{level}", jobs, packets, program="esa")


def queries(level: int) -> Scenario:
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


def bare(level: int) -> Scenario:
    """Announcements that complete, collide, are lost further up, and meet vectors, which goes on to the server as it comes."""
    job = AtpJob(2, level, 2 * level)
    toward = SERVER_PORT if level else UPLINK
    rack = atp.rack_bit(RACK)
    packets: list[tuple[int, bytes]] = []
    for sequence in range(5):
        index = sequence % 3

        def worker(w: int, sequence: int = sequence, index: int = index, **marks: int) -> tuple[int, bytes]:
            return w, job.gradient(w, sequence, [2**31 - 1 - w], index, 90 + w * sequence, **marks)

        packets += [worker(0), worker(0), (1, job.gradient(1, sequence, vector(5), index))]
        if level and sequence % 2:
            packets.append((UPLINK, job.from_rack(sequence, [7], index, 200, bitmap0=1)))
        if sequence == 3:
            packets.append(worker(0, resend=1))
        packets.append((0, job.gradient(0, sequence, [], index, kind=atp_wire.KIND_QUERY)))
        packets.append(worker(1, resend=sequence % 2, asked=sequence % 2))
        if level:
            packets.append((UPLINK, job.from_rack(sequence, [9], index, 30 * sequence)))
        for has in ({"bitmap1": 0}, {"bitmap1": rack | 1}):
            status = job.answer(sequence, [], index, worker_station(0), kind=atp_wire.KIND_STATUS, resend=1, **has)
            packets.append((toward, status))
        packets.append((0, job.gradient(0, sequence, vector(3), index, kind=atp_wire.KIND_RAW, resend=1)))
        packets.append((toward, job.answer(sequence, [99], index, exponent=120)))
        packets.append((toward, job.answer(sequence, vector(99), index)))
    return _atp(f"atp-bare-level-{level}", [job], packets)


def restart() -> Scenario:
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


def turned_away() -> Scenario:
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


def expired() -> Scenario:
    """Nobody respects an aggregator for longer than a microsecond."""
    jobs = [AtpJob(2), AtpJob(2, number=1)]
    packets = [
        (w, jobs[n].gradient(w, s, vector(10 * n + w), 3)) for s in range(2) for n, w in ((0, 0), (1, 0), (0, 1), (1, 1), (1, 0))
    ]
    return _atp("atp-expired", jobs, packets, ["register_write aggregator.lifetime 0 1"])


def transit() -> Scenario:
    """A root: it aggregates for nobody and spreads results."""
    job = AtpJob(2, other_rack=1)
    commands = [*job.commands(), *atp.transit()]
    gradient = frame_of(job, atp.rack_bit(RACK))
    packets = [(5, gradient), (SERVER_PORT, job.answer(0, vector(1))), (UPLINK, gradient), (SERVER_PORT, job.answer(1, vector(2)))]
    return Scenario("atp-transit", Path("p4/atp.p4"), packets, commands, {"K": "32", "AGGREGATORS": "16"})


def ways() -> Scenario:
    """A server's rack with two ways to the other one: gradients come by either, and results leave by them in turn."""
    job, other = AtpJob(2, other_rack=1), Station("02:00:00:00:02:fd", "10.0.254.254")
    stations = [worker_station(w) for w in range(2)]
    above = (atp.Child(100, UPLINK, ROOT), atp.Child(101, UPLINK - 1, other))
    children = tuple(atp.Child(w + 1, w, s) for w, s in enumerate(stations))
    sources = [atp.Source(w, s, SERVER, 1, 1 << w, (0, 0xFFFFFFFF), 3) for w, s in enumerate(stations)]
    sources += [atp.Source(child.port, REMOTE, SERVER, 1, atp.rack_bit(RACK), (0, 0xFFFFFFFE), 3) for child in above]
    commands = Commands()
    forward(commands, {0, 1, SERVER_PORT}, {SERVER.mac: SERVER_PORT, REMOTE.mac: range(UPLINK - 1, UPLINK + 1)})
    atp.admit(commands, 0, SWITCH, sources, [atp.Server((SERVER_PORT,), SERVER, children, 0, 3, above)])
    by_packet(commands, "result_paths")
    packets: list[tuple[int, bytes]] = []
    for turn in range(6):
        packets += [(w, job.gradient(w, turn, vector(w + 1, turn))) for w in range(2)]
        packets += [(UPLINK - turn % 2, job.from_rack(turn, vector(100, turn))), (SERVER_PORT, job.answer(turn, vector(turn)))]
        packets.append((SERVER_PORT, job.answer(turn, vector(turn), to=REMOTE)))
    return Scenario("atp-ways", Path("p4/atp.p4"), packets, commands.lines, {"K": "32", "AGGREGATORS": "16"})


def relay() -> Scenario:
    """A switch on one of several ways: it keeps nothing, whatever group a packet is of, and spreads results."""
    job = AtpJob(2, other_rack=1)
    commands = Commands()
    forward(commands, {0, 1, SERVER_PORT}, {SERVER.mac: SERVER_PORT, REMOTE.mac: 0})
    commands.add(*atp.all_pass())
    ends = [atp.Child(1, 0, worker_station(0)), atp.Child(2, 1, worker_station(1))]
    atp.addresses(commands, 0, ends)
    atp.relay(commands, 0, 0, SWITCH, SERVER, SERVER_PORT, ends)
    packets: list[tuple[int, bytes]] = []
    for epoch in (5, 3, 9):
        packets += [(0, job.from_rack(0, vector(1), epoch=epoch)), (0, job.from_rack(0, vector(1), epoch=epoch))]
        packets += [
            (SERVER_PORT, job.answer(0, vector(2), epoch=epoch)),
            (SERVER_PORT, job.answer(1, vector(2), to=REMOTE, epoch=epoch)),
        ]
        packets += [(0, job.answer(0, vector(2), epoch=epoch)), (SERVER_PORT, job.answer(0, [], kind=KIND_RELEASE, epoch=epoch))]
        packets.append((1, job.from_rack(0, [], epoch=epoch, kind=KIND_RELEASED)))
    return Scenario("atp-relay", Path("p4/atp.p4"), packets, commands.lines, {"K": "32", "AGGREGATORS": "16"})


def frame_of(job: AtpJob, bit: int) -> bytes:
    """A gradient that no entry of the switch is about."""
    return job.gradient(0, 0, vector(1, 2, 3), bitmap1=bit, bitmap0=1, edge_switch=1)
