"""Workers and switches of SwitchML together, with the commands of real plans: whose sum comes to whom, and how it is addressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from inalab.hosts.switchml import wire
from inalab.switches.loss import Loss
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.fabric import Arrival, Fabric, admitted
from tests.packets import K, frame, program, read, vector

SLOTS = 3
TURNS = 3  # of every slot


class Net(Fabric):
    """The switches of a plan, for SwitchML's packets."""

    def __init__(self, plan: NetworkPlan, jobs: list[JobPlan], loss: Loss | None = None) -> None:
        super().__init__(plan, program(), admitted("switchml", jobs, slots=SLOTS, k=K), loss)

    def update(
        self, job: JobPlan, host: HostPlan, slot: int, value: int, turn: int = 0, number: int | None = None
    ) -> list[Arrival]:  # fmt: skip
        """A worker's update of a slot in its turn, of version 0 or 1; `number` is the job that it says it is of."""
        mates = [h for h in job.hosts if h.rack == host.rack]
        header = {
            "job": job.number if number is None else number,
            "worker": mates.index(host),
            "slot": slot,
            "chunk": turn * SLOTS + slot,
        }
        return self.send(
            host, frame(host.station, host.switch, {**header, "kind": wire.KIND_UPDATE, "version": turn % 2}, vector(value))
        )


@contextmanager
def network(racks: Topology, workers: list[list[int]], loss: Loss | None = None) -> Iterator[Net]:
    plan = NetworkPlan(racks)
    net = Net(plan, deal(plan, workers, [0] * len(workers)), loss)
    try:
        yield net
    finally:
        net.close()


@pytest.mark.parametrize(
    ("racks", "workers"),
    [
        (Racks(1, 1), [[1]]),
        (Racks(1, 32), [[32]]),
        (Racks(2, 2), [[2, 2]]),
        (Racks(3, 3), [[1, 0, 2], [2, 3, 1]]),  # one job has nobody in the second rack
        (Racks(2, 4), [[1, 1], [0, 2], [3, 0]]),
        (Racks(32, 1), [[1] * 32]),
        (LeafSpine(3, 3), [[1, 0, 2], [2, 3, 1]]),
    ],
    ids=["one worker", "32 workers", "two racks", "two jobs", "three jobs", "32 racks", "two jobs at two spines"],
)
def test_every_worker_gets_its_own_jobs_sum_once(racks: Topology, workers: list[list[int]]) -> None:
    with network(racks, workers) as net:
        for phase in range(TURNS + len(workers) - 1):  # each job is a turn behind the one before: other slots, other versions
            arrived: dict[tuple[int, int], list[Arrival]] = {(job.number, slot): [] for job in net.jobs for slot in range(SLOTS)}
            active = [job for job in net.jobs if 0 <= phase - job.number < TURNS]
            for i, slot, job in sorted(((i, s, j) for j in active for i in range(j.size) for s in range(SLOTS)), key=_order):
                arrived[job.number, slot] += net.update(job, job.hosts[i], slot, _value(job, i, slot), phase - job.number)
            for job in active:
                for slot in range(SLOTS):
                    _expect(job, slot, phase - job.number, arrived[job.number, slot])


def _order(turn: tuple[int, int, JobPlan]) -> tuple[int, int, int]:
    """All slots of all jobs are begun before one of several workers is complete."""
    i, slot, job = turn
    return i, slot, job.number


def _value(job: JobPlan, rank: int, slot: int) -> int:
    return 10_000 * (job.number + 1) + 100 * slot + rank


def _expect(job: JobPlan, slot: int, turn: int, arrived: list[Arrival]) -> None:
    assert sorted(name for name, _ in arrived) == sorted(h.name for h in job.hosts)
    stations = {h.name: h.station for h in job.hosts}
    total = sum(_value(job, rank, slot) for rank in range(job.size))
    for name, data in arrived:
        packet, result = Ether(data), read(data)
        assert (packet.dst, packet[IP].dst) == (stations[name].mac, stations[name].ip)
        assert (result.kind, result.job, result.slot, result.version) == (wire.KIND_RESULT, job.number, slot, turn % 2)
        assert (result.chunk, result.vector) == (turn * SLOTS + slot, [total] * K)


def test_a_switch_takes_an_update_from_its_workers_port_alone() -> None:
    with network(Racks(2, 3), [[1, 1], [1, 1], [1, 1]]) as net:
        first, second, third = net.jobs
        assert net.update(second, second.hosts[0], 0, 99, number=first.number) == []
        assert net.update(first, first.hosts[0], SLOTS, 99) == []  # the pool ends before
        assert net.update(third, third.hosts[0], 0, 5) == []
        assert net.update(first, first.hosts[0], 0, 1) == []
        assert {read(data).vector[0] for _, data in net.update(first, first.hosts[1], 0, 2)} == {3}
        assert {read(data).vector[0] for _, data in net.update(third, third.hosts[1], 0, 6)} == {11}
        counted = [net.switches["tor0"].counter("admission.rejected", reason) for reason in range(4)]
        assert sum(counted) == 2


def test_a_broadcast_comes_to_everybody_else_once() -> None:
    with network(Racks(2, 2, servers=1), [[2, 2]]) as net:
        source = net.plan.hosts[1]
        ethernet = bytes(Ether(src=source.station.mac, dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / b"to everybody")
        everyone = sorted(h.name for h in net.plan.everyone)
        assert sorted(name for name, _ in net.send(source, ethernet)) in (everyone, sorted(set(everyone) - {source.name}))


def test_loss_is_at_the_upper_end_of_every_link_once() -> None:
    """Frames through 2 racks cross 4 links, each of which loses half in that direction: a sixteenth arrives."""
    loss = Loss.bernoulli(0.5)
    with network(Racks(2, 1), [[1, 1]], loss) as net:
        source, sink = net.plan.hosts
        ethernet = bytes(Ether(src=source.station.mac, dst=sink.station.mac, type=0x88B5) / bytes(50))
        arrived = sum(len(net.send(source, ethernet)) for _ in range(2000))
        assert 90 <= arrived <= 160
        lost = {
            (name, direction, a.port): net.switches[name].counter(f"loss_{direction}.dropped", a.port)
            for name, switch in net.plan.switches.items()
            for a in switch.attachments
            for direction in ("in", "out")
        }
        root = net.plan.switches["root"]
        crossed = [("tor0", "in", 0), ("root", "in", 0), ("root", "out", 1), ("tor1", "out", 0)]
        assert [key for key, n in lost.items() if n] == sorted(crossed, key=list(lost).index)
        for (key, n), share in zip(((k, lost[k]) for k in crossed), (1, 1 / 2, 1 / 4, 1 / 8), strict=True):
            assert n == pytest.approx(2000 * share / 2, rel=0.25), key
        assert [a.upper for a in root.attachments] == [True, True]
