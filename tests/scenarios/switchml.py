"""SwitchML: rounds with duplicates, two levels, queries, what is turned away, restarts, and its earlier PTF suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from inalab.hosts.switchml import wire
from inalab.switches.forwarding import forwarding
from tests import ptf as suite
from tests.packets import PARENT, PARENT_PORT, SWITCH, TestJob, frame, vector, worker_station
from tests.scenarios.scenario import Scenario


def story(job: TestJob, turns: int) -> list[tuple[int, bytes]]:
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


def of_switchml(name: str, commands: list[str], packets: list[tuple[int, bytes]]) -> Scenario:
    return Scenario(name, Path("p4/switchml.p4"), packets, commands, {"K": "32", "POOL_CELLS": "64"})


def one_level(workers: int) -> Scenario:
    job = TestJob(workers)
    return of_switchml(f"switchml-{workers}-workers", job.commands(), story(job, 5))


def two_levels() -> Scenario:
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
    return of_switchml("switchml-two-levels", job.commands(), packets)


def _at_both_levels() -> list[TestJob]:
    """A job whose switch is the only one, and one whose switch has a parent."""
    return [TestJob(2), TestJob(2, number=1, base=8, has_parent=True)]


def _together(jobs: list[TestJob]) -> list[str]:
    commands: list[str] = []
    for job in jobs:
        commands += job.commands(commands)
    return commands


def _query(worker: int, about: dict[str, int], mark: int = 0) -> tuple[int, bytes]:
    """A worker's query about the slot and chunk of a header."""
    header = {**about, "worker": worker, "kind": wire.KIND_QUERY, "mark": mark}
    return worker, frame(worker_station(worker), SWITCH, header, [])


def queries() -> Scenario:
    """Queries of both kinds at every point of a round, with and without a switch above, and what that one answers."""
    packets: list[tuple[int, bytes]] = []
    jobs = _at_both_levels()
    for turn in range(3):
        for job in jobs:
            chunk, version = turn * job.slots, turn % 2
            about = {"job": job.number, "version": version, "slot": 0, "chunk": chunk, "exponent": 77}

            for w in (0, 1):
                packets.append(_query(w, about, turn % 2))
                packets.append((w, job.update(w, 0, chunk, vector(w + turn), version, 5 + w)))
            for w, mark in ((0, 0), (0, 0), (1, 0), (1, 1), (0, 1), (1, wire.MARK_INSISTS), (0, 1), (1, 1)):
                packets.append(_query(w, about, mark))
            for seen in (0b10, 0b11, 0b01):
                status = {**about, "kind": wire.KIND_STATUS, "seen": seen, "mark": turn}
                packets.append((PARENT_PORT, frame(PARENT, SWITCH, status, [])))
            packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_RESULT}, vector(100 + turn))))
            packets.append(_query(0, about))
            packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_STATUS, "seen": 1}, [])))
    return of_switchml("switchml-queries", _together(jobs), packets)


def bare() -> Scenario:
    """Rounds of exponents and tags, at both levels: repeated, asked about, and with packets of the other shape in between."""
    packets: list[tuple[int, bytes]] = []
    jobs = _at_both_levels()
    for turn in range(4):
        for job in jobs:
            chunk, version = turn * job.slots, turn % 2
            tag = [2**31 - 1 - turn]
            shapes = [tag, vector(turn + 1)] if turn % 2 == 0 else [vector(turn + 1), tag]
            about = {"job": job.number, "version": version, "slot": 0, "chunk": chunk}

            for w in (0, 1):
                for shape in (*shapes, shapes[0]):
                    packets.append((w, job.update(w, 0, chunk, shape, version, 5 * w + turn)))
                packets.append(_query(w, about))
            packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_STATUS, "seen": 0b10}, [])))
            for shape in (shapes[1], shapes[0], shapes[0]):
                packets.append((PARENT_PORT, frame(PARENT, SWITCH, {**about, "kind": wire.KIND_RESULT, "exponent": 99}, shape)))
            packets.append(_query(0, about))
            packets.append((0, job.update(0, 0, chunk, shapes[0], version)))
    return of_switchml("switchml-bare", _together(jobs), packets)


def parts() -> Scenario:
    """Chunks of owners at this switch's worker, below the other one, which is a rack's switch, and elsewhere; in both directions, at
    both levels. Each link brings everything: updates and results with a vector and without, repeated, asked about, lost further up."""
    packets: list[tuple[int, bytes]] = []
    jobs = [replace(job, switches=frozenset({1})) for job in _at_both_levels()]
    owners = (jobs[0].ranks(0)[0], jobs[0].ranks(1)[1], 99)
    for turn in range(6):
        for job in jobs:
            way, owner = 1 + turn % 2, owners[turn // 2]
            behind = way << 24 | owner
            chunk, version = turn * job.slots, turn % 2
            about = {"job": job.number, "version": version, "slot": 0, "chunk": chunk}
            for n, link in enumerate(job.links):
                for numbers in (vector(turn + n + 1), [77]):
                    packets += [(job.port(link), job.update(link, 0, chunk, [*numbers, behind], version, 5 * n + turn))] * (1 + n)
                packets.append((job.port(link), job.update(link, 0, chunk, [*vector(9), behind ^ 3], version)))
                packets.append((job.port(link), job.update(link, 0, chunk, vector(9), version)))
                packets.append(_of_link(job, link, about, wire.KIND_QUERY))
            for link in job.links[1:]:
                packets.append(_of_link(job, link, {**about, "seen": 1 << 5}, wire.KIND_STATUS))
                for numbers in (vector(100 + turn), [78], [78]):
                    packets.append(_of_link(job, link, {**about, "exponent": 99}, wire.KIND_RESULT, [*numbers, behind]))
            packets += [_of_link(job, link, about, wire.KIND_QUERY) for link in job.links]
            packets.append((1, job.update(1, 0, chunk, [*vector(turn), behind], version)))
            packets.append((1, job.update(1, 0, chunk, [0, behind], version)))
    wrong = [3 << 24, 0, 1 << 24 | 5 << 16 | owners[0]]
    packets += [(0, jobs[0].update(0, 0, 400, [*vector(1), behind])) for behind in wrong]
    return of_switchml("switchml-parts", _together(jobs), packets)


def _of_link(job: TestJob, link: int, about: dict[str, int], kind: int, numbers: Sequence[int] = ()) -> tuple[int, bytes]:
    """A packet of a worker, or of another switch."""
    number = link if kind == wire.KIND_QUERY else job.number_there(link)
    return job.port(link), frame(job.station(link), SWITCH, {**about, "worker": number, "kind": kind}, list(numbers))


def turned_away() -> Scenario:
    job = TestJob(2)
    changes = [{"job": 9}, {"worker": 1}, {"worker": 40}, {"slot": 4}, {"version": 3}, {"kind": 9}, {"kind": 2}]
    packets = [(0, job.update(0, 0, 0, vector(1), change=c)) for c in changes]
    good = job.update(0, 0, 0, vector(3))
    packets += [(0, good[:n]) for n in range(14, len(good), 9)] + [(0, good + b"padding")]
    broken = bytearray(good)
    broken[24] ^= 0xFF  # the IPv4 checksum
    packets += [(0, bytes(broken)), (1, job.update(1, 0, 0, vector(4)))]
    return of_switchml("switchml-turned-away", job.commands(), packets)


def passing() -> Scenario:
    """A job that is aggregated elsewhere: all of its packets are forwarded, but not with the address of another host, not back to
    where a flooded one came from, and none that is no packet. Another job is admitted, and a third one unknown."""
    passes, own = TestJob(2), TestJob(2, number=1, base=8)
    stations = [worker_station(w) for w in range(3)]
    routes = {s.mac: port for port, s in enumerate(stations)} | {SWITCH.mac: PARENT_PORT}
    commands = forwarding(range(3), routes, {0: stations[0], 1: stations[1]})
    commands += [*own.commands(commands), f"table_add admission.jobs pass_by {passes.number} =>"]
    update, everyone = passes.update(0, 0, 0, vector(1)), replace(SWITCH, mac="ff:ff:ff:ff:ff:ff")
    down = {"job": 0, "worker": 0, "slot": 0, "chunk": 0, "version": 0}
    packets = [(0, update), (1, update), (0, update[:-1]), (0, update + b"padding"), (0, passes.update(0, 3000, 0, vector(1)))]
    for kind, numbers in ((wire.KIND_UPDATE, [77]), (wire.KIND_RESULT, vector(5)), (wire.KIND_QUERY, []), (wire.KIND_STATUS, [])):
        its = {**down, "kind": kind}
        packets += [(0, frame(stations[0], to, its, numbers)) for to in (SWITCH, stations[1], everyone)]
        packets += [(2, frame(SWITCH, to, its, numbers)) for to in (stations[0], everyone)]
        packets += [(0, frame(SWITCH, stations[1], its, numbers)), (0, frame(stations[0], SWITCH, {**its, "epoch": 0}, numbers))]
    packets += [(w, own.update(w, 0, 0, vector(w))) for w in range(2)]
    packets.append((0, TestJob(2, number=2).update(0, 0, 0, vector(1))))
    return of_switchml("switchml-passing", commands, packets)


def restart() -> Scenario:
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
    return of_switchml("switchml-restart", TestJob(2, has_parent=True).commands(), packets)


def ptf(scenario: Callable[[suite.Bench], None], workers: int, has_parent: bool) -> Scenario:
    script = suite.Script(TestJob(workers, has_parent=has_parent))
    scenario(script)
    levels = "two-levels" if has_parent else "one-level"
    name = f"ptf/{levels}-{workers}-workers/{scenario.__name__}"
    return of_switchml(name, script.job.commands(), script.packets)
