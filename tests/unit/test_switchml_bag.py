"""Workers and all switches of SwitchML, packet by packet: sums are exact, whatever the network does and whoever starts again.

The switches run p4/switchml.p4 with the commands of a real plan. In between is a bag of packets, from which any one may come
next, twice, or never; all workers may start again while what they sent before is on its way, and hosts may forge.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.switchml import wire
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.fabric import Fabric, admitted, disturb
from tests.packets import EPOCH, K, frame, program
from tests.properties import examples

SLOTS, CHUNKS = 2, 7
MOST_ROUNDS = 60  # of everybody asking, without loss, after which all must be complete
RECORD = wire.packet(K)
STARTS = (0, 2**32 - 3, 2**31 - 2)  # of the stream


class Worker:
    """A worker's part of the protocol, without time."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan, tensor: np.ndarray) -> None:
        self.net, self.job, self.host, self.tensor, self.epoch = net, job, host, tensor, net.epoch
        self.start = STARTS[net.epoch % len(STARTS)]
        self.results: dict[int, np.ndarray] = {}
        self.waiting: set[int] = set()
        self.number = [h for h in job.hosts if h.rack == host.rack].index(host)

    def send(self, chunk: int) -> None:
        self.waiting.add(chunk)
        self._leave(chunk, list(map(int, self.tensor[chunk])), kind=wire.KIND_UPDATE)

    def _leave(self, chunk: int, vector: list[int], **fields: int) -> None:
        header = {
            "job": self.job.number, "worker": self.number, "slot": chunk % SLOTS, "version": chunk // SLOTS % 2,
            "chunk": (self.start + chunk) % 2**32, "epoch": self.epoch, **fields,
        }  # fmt: skip
        self.net.leave(self.host, frame(self.host.station, self.host.switch, header, vector))

    def next(self, slot: int) -> None:
        """Begin a slot; after that results let it go on."""
        if slot < SLOTS and not any(q % SLOTS == slot for q in [*self.results, *self.waiting]):
            self.send(slot)

    def again(self, which: int) -> None:
        if waiting := sorted(self.waiting):
            self.send(waiting[which % len(waiting)])

    def ask(self, which: int, again: bool) -> None:
        """Ask what has become of a chunk."""
        if waiting := sorted(self.waiting):
            self._leave(
                waiting[which % len(waiting)], [], kind=wire.KIND_QUERY, mark=wire.MARK_INSISTS if which % 5 == 0 else int(again)
            )

    def receive(self, packet: Any) -> None:
        chunk = (int(packet["chunk"]) - self.start) % 2**32
        if (packet["job"], packet["epoch"]) != (self.job.number, self.epoch) or chunk not in self.waiting:
            return
        if packet["kind"] == wire.KIND_STATUS and not packet["mark"] and not int(packet["vector"][0]) >> self.number & 1:
            self.send(chunk)
        if packet["kind"] != wire.KIND_RESULT:
            return
        self.waiting.remove(chunk)
        self.results[chunk] = packet["vector"].astype(np.int64)
        if chunk + SLOTS < CHUNKS:
            self.send(chunk + SLOTS)


class Bag(Fabric):
    """Hosts and switches, and the packets on their way to a port."""

    def __init__(self, racks: Topology, jobs: int, tensors: np.ndarray) -> None:
        plan = NetworkPlan(racks)
        shares = deal(plan, [[racks.workers // jobs] * racks.racks] * jobs, [0] * jobs)
        super().__init__(plan, program(), admitted("switchml", shares, slots=SLOTS, k=K))
        self.epoch, self.delivered = EPOCH, 0
        self.on_the_way: list[tuple[str, int, bytes]] = []
        self.begin(tensors)

    def begin(self, tensors: np.ndarray) -> None:
        """Workers of a new group; what others have sent is still on its way."""
        self.epoch += 1
        self.workers = [Worker(self, job, host, tensors[host.rank]) for job in self.jobs for host in job.hosts]
        self.ends = {worker.host.name: worker for worker in self.workers}

    def leave(self, host: HostPlan, data: bytes) -> None:
        name = f"tor{host.rack}"
        self.on_the_way.append((name, self.plan.port(name, host.name), data))

    def deliver(self, position: int, keep: bool = False) -> None:
        """Let one packet arrive; a duplicate of it may stay on its way."""
        self.delivered += 1
        name, port, data = self.on_the_way[position] if keep else self.on_the_way.pop(position)
        for out, copy in self.switches[name].send(port, data):
            peer = next(a.peer for a in self.plan.switches[name].attachments if a.port == out)
            if peer in self.switches:
                self.on_the_way.append((peer, self.plan.port(peer, name), copy))
            else:
                self.ends[peer].receive(np.frombuffer(copy[42 : 42 + RECORD.itemsize].ljust(RECORD.itemsize, b"\0"), RECORD)[0])

    def forge(self, n: int) -> None:
        """A host sends a copy of what is on its way from somebody else, perhaps with another kind, epoch or chunk."""
        rng = random.Random(n)
        name, _, data = rng.choice(self.on_the_way)
        host = rng.choice(self.plan.hosts)
        if f"tor{host.rack}" == name and data[6:12] != bytes.fromhex(host.station.mac.replace(":", "")):
            forged = bytearray(data)
            forged[42 + rng.choice([2, 3, 5, 8, 9, 10, 11, 12, 15])] ^= 1 << rng.randrange(8)
            self.leave(host, bytes(forged))


ACTIONS = ["next"] * 2 + ["deliver"] * 6 + ["first", "lose", "twice", "again", "ask", "ask", "forge", "restart"]
scripts = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 999)), max_size=150)


@pytest.mark.parametrize(
    ("racks", "jobs"),
    [
        (Racks(1, 3, None, None), 1),
        (Racks(2, 2, None, None), 1),
        (Racks(3, 2, None, None), 2),
        (LeafSpine(2, 2, None, None), 2),
        (LeafSpine(3, 2, None, None, spines=3, routing="spray"), 2),
    ],
    ids=["one rack", "two racks", "two jobs over three racks", "two jobs at two spines", "two jobs at three spines by packets"],
)
def test_sums_are_exact(racks: Topology, jobs: int) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(-(2**31), 2**31, (3, racks.size, CHUNKS, K), dtype=np.int64)  # of three groups

    @examples(20)
    @given(scripts)
    def run(script: list[tuple[str, int]]) -> None:
        net = Bag(racks, jobs, values[0])
        try:
            play(net, script, values)
        finally:
            net.close()

    run()


def play(net: Bag, script: list[tuple[str, int]], values: np.ndarray) -> None:
    group = 0
    for action, n in script:
        worker = net.workers[n % len(net.workers)]
        if action == "restart":
            if n % 3 == 0:
                group = (group + 1) % len(values)
                net.begin(values[group])
        elif action == "next":
            worker.next(n // 7 % SLOTS)
        elif action == "again":
            worker.again(n)
        elif action == "ask":
            worker.ask(n, n % 3 == 0)
        else:
            disturb(net, action, n)
    for _ in range(MOST_ROUNDS):
        while net.on_the_way:
            net.deliver(0)
        for worker in net.workers:
            for slot in range(SLOTS):
                worker.next(slot)
                worker.ask(slot, True)
    for worker in net.workers:
        exact = np.sum([values[group, host.rank] for host in worker.job.hosts], axis=0)
        exact = (exact + 2**31) % 2**32 - 2**31
        assert sorted(worker.results) == list(range(CHUNKS))
        for chunk, total in worker.results.items():
            np.testing.assert_array_equal(total, exact[chunk])
