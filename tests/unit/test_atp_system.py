"""Workers, switches and servers of ATP together, packet by packet: sums are exact and tables end empty, whatever the network does.

The switches run p4/atp.p4 with the commands of a real plan, the servers add with hosts.atp.merger; what is in between is a bag
of packets, from which any one may come next, twice, or never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from experiments.fleet import switch_commands
from hosts.atp import wire
from hosts.atp.allocation import aggregator
from hosts.atp.merger import Merger
from hosts.atp.tree import Tree
from hosts.collective import Membership
from hosts.schemes import Parameters
from switches.embedded.offline import OfflineSwitch
from tests.atp_packets import frame, program
from tests.packets import K
from topologies.jobs import JobPlan, deal
from topologies.racks import HostPlan, NetworkPlan, Racks

WINDOW, CHUNKS = 2, 5
UNPACED = {"host_rate": None, "uplink_rate": None}  # or packets would wait in the switches for their turn
RECORD = wire.packet(K)
MOST_ROUNDS = 40  # of everybody sending again, without loss, after which all must be complete
Packet = tuple[str, int, bytes]  # to a port of a switch


class Worker:
    """A worker's part of the protocol, without time."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan, tensor: np.ndarray) -> None:
        self.net, self.job, self.host, self.tensor = net, job, host, tensor
        self.results: dict[int, np.ndarray] = {}
        self.raw: set[int] = set()
        self.sent = 0
        self.index = aggregator(job.number, np.arange(WINDOW), 0, net.aggregators)

    @property
    def oldest(self) -> int:
        return next(q for q in range(CHUNKS + 1) if q not in self.results)

    def send(self, chunk: int, again: bool) -> None:
        server = self.job.servers[chunk % len(self.job.servers)]
        tree, rank = self.net.tree(self.job, server), self.job.rank(self.host)
        bitmap0, bitmap1 = tree.bitmaps(rank)
        header = {
            "bitmap0": bitmap0, "bitmap1": bitmap1, "fan_in0": int(tree.fan_in0[rank]), "fan_in1": tree.fan_in1,
            "kind": wire.KIND_RAW if chunk in self.raw else wire.KIND_GRADIENT, "resend": int(again or chunk in self.raw),
            "integer": int(chunk in self.raw), "edge_switch": int(tree.local[rank]), "index": int(self.index[chunk % WINDOW]),
            "job": self.job.number, "sequence": chunk,
        }  # fmt: skip
        self.net.leave(self.host, frame(self.host.station, server.station, header, list(map(int, self.tensor[chunk]))))

    def next(self) -> None:
        if self.sent < min(CHUNKS, self.oldest + WINDOW):
            self.sent += 1
            self.send(self.sent - 1, again=False)

    def again(self, which: int) -> None:
        if waiting := [q for q in range(self.sent) if q not in self.results]:
            self.send(waiting[which % len(waiting)], again=True)

    def receive(self, packet: Any) -> None:
        chunk = int(packet["owner"]) % wire.SEQUENCES
        if packet["kind"] != wire.KIND_RESULT or chunk in self.results or not self.oldest <= chunk < self.sent:
            return
        if packet["flags"] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW:
            self.raw.add(chunk)
            self.send(chunk, again=True)
            return
        self.results[chunk] = packet["vector"].astype(np.int64)
        self.index[chunk % WINDOW] = packet["next_index"]


class Server:
    """A parameter server without sockets."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan) -> None:
        self.net, self.job, self.host = net, job, host
        share = (job.servers.index(host), len(job.servers))
        self.merger = Merger(job.number, net.tree(job, host), np.zeros(2 * WINDOW, RECORD), net.aggregators, share)

    def receive(self, packet: np.ndarray) -> None:
        if packet["kind"][0] not in (wire.KIND_GRADIENT, wire.KIND_RAW):
            return
        finished, asked = self.merger.take(packet)
        switch = self.net.plan.switches[f"tor{self.host.rack}"].station
        for row, to in [*((r, switch) for r in finished), *((r, self.job.hosts[w].station) for r, w in asked)]:
            head = frame(self.host.station, to, {}, [0] * K)[: -RECORD.itemsize]
            self.net.leave(self.host, head + self.merger.results[row : row + 1].tobytes())

    def release(self) -> None:
        for rack in range(self.net.plan.racks.racks):
            for index in self.merger.assigned:
                header = {"job": self.job.number, "index": index, "kind": wire.KIND_RELEASE}
                self.net.leave(self.host, frame(self.host.station, self.net.plan.switches[f"tor{rack}"].station, header, []))


class Bag:
    """Hosts and switches, and the packets on their way to a port."""

    def __init__(self, racks: Racks, jobs: int, aggregators: int, tensors: Callable[[int], np.ndarray]) -> None:
        self.plan, self.aggregators = NetworkPlan(racks), aggregators
        shares = deal(self.plan, [[racks.workers // jobs] * racks.racks] * jobs, [racks.servers // jobs] * jobs)
        parameters = Parameters("atp", WINDOW, K, aggregators=aggregators)
        self.switches = {name: OfflineSwitch(program(), ports=12) for name in self.plan.switches}
        for name, made in self.switches.items():
            for line in switch_commands(self.plan, name, [(job, parameters) for job in shares], None, 1):
                made.command(line)
            made.command("register_write aggregator.lifetime 0 0")
        self.workers = [Worker(self, job, host, tensors(host.rank)) for job in shares for host in job.hosts]
        self.servers = [Server(self, job, host) for job in shares for host in job.servers]
        self.ends = {actor.host.name: actor for actor in [*self.workers, *self.servers]}
        self.on_the_way: list[Packet] = []

    def tree(self, job: JobPlan, server: HostPlan) -> Tree:
        return Tree(Membership(job.number, 0, job.size, job.members(self.plan.racks.racks)), server.rack)

    def leave(self, host: HostPlan, data: bytes) -> None:
        name = f"tor{host.rack}"
        self.on_the_way.append((name, self.plan.port(name, host.name), data))

    def deliver(self, position: int, keep: bool = False) -> None:
        """Let one packet arrive; a duplicate of it may stay on its way."""
        name, port, data = self.on_the_way[position] if keep else self.on_the_way.pop(position)
        for out, copy in self.switches[name].send(port, data):
            attachment = next(a for a in self.plan.switches[name].attachments if a.port == out)
            if attachment.peer in self.switches:
                self.on_the_way.append((attachment.peer, self.plan.port(attachment.peer, name), copy))
                continue
            end = self.ends[attachment.peer]
            assert (Ether(copy).dst, Ether(copy)[IP].dst) == (end.host.station.mac, end.host.station.ip)
            record = np.frombuffer(copy[42:].ljust(RECORD.itemsize, b"\0")[: RECORD.itemsize], RECORD)
            end.receive(record[0] if isinstance(end, Worker) else record)

    def settle(self) -> None:
        """Deliver everything, in order."""
        while self.on_the_way:
            self.deliver(0)

    def held(self) -> int:
        """Aggregators that are not free, in all switches."""
        return sum(value != 0 for made in self.switches.values() for value in made.registers("aggregator.bitmap"))

    def close(self) -> None:
        for made in self.switches.values():
            made.close()


actions = st.lists(
    st.tuples(
        st.sampled_from(["next", "next", "deliver", "deliver", "deliver", "first", "lose", "twice", "again"]), st.integers(0, 999)
    ),
    max_size=120,
)


@pytest.mark.parametrize("large", [False, True], ids=["integers that fit", "sums that overflow"])
@pytest.mark.parametrize(
    ("racks", "jobs"),
    [(Racks(1, 3, **UNPACED, servers=1), 1), (Racks(2, 2, **UNPACED, servers=2), 1), (Racks(2, 2, **UNPACED, servers=2), 2)],
    ids=["one rack", "two racks and servers", "two jobs over two racks"],
)
def test_sums_are_exact_and_tables_end_empty(racks: Racks, jobs: int, large: bool) -> None:
    top = 2**31 - 1 if large else 2**28
    rng = np.random.default_rng(4)
    values = rng.integers(-top, top, (racks.size, CHUNKS, K), dtype=np.int64)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(actions, st.sampled_from([1, 2, 3, 16]))
    def run(script: list[tuple[str, int]], aggregators: int) -> None:
        net = Bag(racks, jobs, aggregators, lambda rank: values[rank])
        try:
            for action, n in script:
                worker = net.workers[n % len(net.workers)]
                if action == "next":
                    worker.next()
                elif action == "again":
                    worker.again(n)
                elif net.on_the_way and action == "lose":
                    net.on_the_way.pop(n % len(net.on_the_way))
                elif net.on_the_way:
                    net.deliver(0 if action == "first" else n % len(net.on_the_way), keep=action == "twice")
            late = list(net.on_the_way)  # may arrive once more, when all is over
            for _ in range(MOST_ROUNDS):
                net.settle()
                for worker in net.workers:
                    worker.next()
                    for which in range(WINDOW):
                        worker.again(which)
            net.settle()
            for worker in net.workers:
                mates = [values[host.rank] for host in worker.job.hosts]
                exact = np.sum(mates, axis=0)
                exact = (exact + 2**31) % 2**32 - 2**31
                assert sorted(worker.results) == list(range(CHUNKS))
                for chunk, total in worker.results.items():
                    np.testing.assert_array_equal(total, exact[chunk])
            for server in net.servers:
                server.release()
            net.settle()
            assert net.held() == 0
            net.on_the_way = late
            net.settle()
            assert net.held() == 0
        finally:
            net.close()

    run()


def test_a_worker_that_dies_leaves_nothing_behind() -> None:
    """Worker 0 sends and is never heard of again; the others give up, and the servers release."""
    racks = Racks(2, 2, **UNPACED, servers=1)
    net = Bag(racks, 1, 16, lambda rank: np.full((CHUNKS, K), rank, np.int64))
    try:
        for worker in net.workers[:3]:
            worker.next()
            worker.next()
        net.settle()
        assert net.held() > 0
        net.servers[0].release()
        net.settle()
        assert net.held() == 0
    finally:
        net.close()
