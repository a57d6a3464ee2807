"""SwitchML by RDMA: messages with gaps and repetitions at both levels, queries, connections, and what is turned away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from inalab.hosts.switchml import wire
from inalab.switches.switchml import PARENT as UP
from tests.packets import EPOCH, PARENT, SWITCH, vector, worker_station
from tests.rdma_packets import BYTES, RdmaJob
from tests.roce import MIDDLE, Reth, Roce
from tests.scenarios.scenario import Scenario

POOL_CELLS = 64


def of_rdma(name: str, job: RdmaJob, packets: Iterable[tuple[int, Roce]]) -> Scenario:
    """Packets by links."""
    framed = [(job.port(link), packet.framed(PARENT if link == UP else worker_station(link), SWITCH)) for link, packet in packets]
    return Scenario(name, Path("p4/switchml_rdma.p4"), framed, job.commands(), {"K": "32", "POOL_CELLS": str(POOL_CELLS)})


def _connected(job: RdmaJob) -> list[tuple[int, Roce]]:
    return [(w, job.connect(w, pair, psn=2**24 - 3)) for w in range(job.workers) for pair in range(job.pairs)]


def _story(job: RdmaJob) -> list[tuple[int, Roce]]:
    """Rounds of both queue pairs: whole messages, some without a packet, some twice; a parent that does likewise."""
    packets, psn = _connected(job), 2**24 - 5
    for turn in range(4):
        for pair in range(job.pairs):
            for link in [*range(job.workers), *([UP] if job.has_parent else [])]:
                for again in range(2 + (link + turn) % 2):
                    vectors = [vector(turn + 1, -link, 2**31 - 1 - i) for i in range(job.message)]
                    told = ((7 * link + turn) % 128, 127 - link % 9, pair, turn)
                    whole = job.write(link, pair, turn, vectors, psn % 2**24, exponents=told, again=bool(again))
                    if not again and (link + turn + pair) % 3 == 0:
                        whole.pop(turn % len(whole))  # lost
                    packets += [(link, packet) for packet in whole]
                    psn += job.message
                if link != UP:
                    for i in range(job.message):
                        packets.append((link, job.short(link, pair, turn, wire.KIND_QUERY, bytes(4), i, mark=turn % 3)))
        for packet in job.write(0, 0, max(0, turn - 1), [vector(99)] * job.message, psn % 2**24):
            packets.append((0, packet))  # of the round before
    return packets


def messages(size: int, has_parent: bool) -> Scenario:
    job = RdmaJob(2 if has_parent else 3, size, has_parent=has_parent)
    return of_rdma(f"rdma-{size}-packets-level-{int(has_parent)}", job, _story(job))


def ahead() -> Scenario:
    """Rounds of exponents and tags, before those of vectors; what a parent answers to queries."""
    job = RdmaJob(2, has_parent=True)
    packets = _connected(job)
    for turn in range(3):
        for w in (0, 1, 1):
            tag = (100 * turn + w).to_bytes(4, "big")
            packets.append((w, job.short(w, 1, turn, wire.KIND_UPDATE, tag, exponents=(w, 2 - w, 127, 0))))
        packets.append((0, job.short(0, 1, turn, wire.KIND_QUERY, bytes(4))))
        for seen in (0b1000, 0b0001):
            status = job.short(UP, 1, turn, wire.KIND_STATUS, seen.to_bytes(4, "big"), worker=3)
            packets.append((UP, status))
        result = job.short(UP, 1, turn, wire.KIND_RESULT, (5000 + turn).to_bytes(4, "big"), exponents=(9, 9, 9, 9), worker=3)
        packets += [(UP, result)] * 2
        packets.append((1, job.short(1, 1, turn, wire.KIND_UPDATE, (100 * turn + 1).to_bytes(4, "big"), mark=1)))
    return of_rdma("rdma-ahead", job, packets)


def restart() -> Scenario:
    """Three groups of one job, whose packets come in each other's."""
    job = RdmaJob(2, 2)
    packets: list[tuple[int, Roce]] = []
    for epoch in (2**32 - 1, 1, 5):
        for w, e in ((0, epoch), (1, 2**32 - 1), (1, epoch), (0, 3)):
            packets.append((w, job.connect(w, 0, epoch=e)))
            packets += [(w, packet) for packet in job.write(w, 0, 0, [vector(w), vector(epoch % 97)], epoch=e)]
    return of_rdma("rdma-restart", job, packets)


def turned_away() -> Scenario:
    job = RdmaJob(2)
    first, second, third, last = job.write(0, 0, 0, [vector(3, i) for i in range(4)], 9)
    changes: list[dict[str, object]] = [
        {"opcode": MIDDLE}, {"opcode": 0x0A}, {"queue_pair": 0}, {"queue_pair": 2 << 16}, {"queue_pair": 1 << 16 | 1},
        {"queue_pair": 1 << 16 | 1 << 11}, {"queue_pair": job.queue_pair(0, 9)}, {"queue_pair": job.queue_pair(UP, 0)},
        {"reth": Reth(EPOCH << 32, 1, 4 * BYTES)}, {"reth": Reth(EPOCH << 32, 1 << 20, 4 * BYTES)}, {"reth": Reth(5, 0, 4 * BYTES)},
        {"reth": Reth(EPOCH << 32, 0, 5 * BYTES)}, {"reth": Reth(EPOCH << 32, 0, BYTES)}, {"payload": bytes(BYTES + 4)},
        {"payload": bytes(16)}, {"reth": None}, {"immediate": 1},
    ]  # fmt: skip
    packets = [*_connected(job), *((0, replace(first, **change)) for change in changes)]  # type: ignore[arg-type]
    packets += [(0, first), (0, third), (0, second), (0, last), (0, replace(last, psn=11))]
    for kind in (0, 3, 4, 5, 6):
        packets.append((0, job.short(0, 0, 0, kind, bytes(4))))
    packets.append((0, job.short(0, 0, 0, wire.KIND_UPDATE, bytes(4), worker=1)))
    made = of_rdma("rdma-turned-away", job, packets)
    broken = [(0, first.framed(worker_station(0), SWITCH, break_icrc=True))]
    whole = first.framed(worker_station(0), SWITCH)
    broken += [(0, whole[:n]) for n in range(34, len(whole), 17)] + [(0, whole + b"padding")]
    good = [
        (w, p.framed(worker_station(w), SWITCH)) for w in (0, 1) for p in job.write(w, 0, 0, [vector(w, i) for i in range(4)], 50)
    ]
    return replace(made, packets=[*made.packets, *broken, *good])
