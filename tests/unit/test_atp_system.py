"""Workers, switches and servers of ATP together, packet by packet: sums are exact and tables end empty, whatever the network does.

The switches run p4/atp.p4 with the commands of a real plan, the servers add with hosts.atp.merger; what is in between is a bag
of packets, from which any one may come next, twice, or never. All workers and servers may start again in the middle, while what
they sent before is still on its way, and hosts may send what is not theirs to send.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.atp import wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.forwarding import Station
from inalab.testbed.trial.configuration import switch_commands
from inalab.topologies.dumbbell import Dumbbell
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.atp_packets import frame, program
from tests.fabric import admitted, disturb
from tests.merging import merger_of, take
from tests.packets import EPOCH, K
from tests.properties import examples

WINDOW, CHUNKS = 2, 7
UNPACED = {"host_rate": None, "uplink_rate": None}  # or packets would wait in the switches for their turn
RECORD = wire.packet(K)
MOST_ROUNDS = 40  # of everybody sending again, without loss, after which all must be complete
PRIORITIES = 5  # that tell chunks apart, and workers, whose packets of one chunk may have several
Packet = tuple[str, int, bytes]  # to a port of a switch


def asker(rank: int, tries: int) -> int:
    """`next_index` of a query of a worker that has sent its packet again so often."""
    return rank + wire.RANKS * (tries % wire.TRIES)


class Worker:
    """A worker's part of the protocol, without time."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan, tensor: np.ndarray) -> None:
        self.net, self.job, self.host, self.tensor, self.epoch = net, job, host, tensor, net.epoch
        self.results: dict[int, np.ndarray] = {}
        self.raw: set[int] = set()
        self.tries: Counter[int] = Counter()
        self.asked: Counter[int] = Counter()  # since the chunk was sent
        self.sent: set[int] = set()
        self.index = beginning(job.number, WINDOW, net.aggregators)[0]

    def tree(self, chunk: int) -> Tree:
        return self.net.tree(self.job, self.job.servers[chunk % len(self.job.servers)])

    def leave(self, chunk: int, header: dict[str, int], values: list[int]) -> None:
        server = self.job.servers[chunk % len(self.job.servers)]
        tree, rank = self.tree(chunk), self.job.rank(self.host)
        bitmap0, bitmap1 = tree.bitmaps(rank)
        common = {
            "bitmap0": bitmap0, "bitmap1": bitmap1, "edge_switch": int(tree.local[rank]), "index": int(self.index[chunk % WINDOW]),
            "job": self.job.number, "sequence": chunk, "epoch": self.epoch,
        }  # fmt: skip
        self.net.leave(self.host, frame(self.host.station, server.station, {**common, **header}, values))

    def send(self, chunk: int, **marks: int) -> None:
        kind = wire.KIND_RAW if chunk in self.raw else wire.KIND_GRADIENT
        marks = {"resend": 1, "integer": 1, "asked": 0} if chunk in self.raw else marks
        if self.net.prioritizes:
            marks["next_index"] = zlib.crc32(bytes((self.job.number, self.job.rank(self.host), chunk))) % PRIORITIES
        self.asked[chunk] = 0
        self.leave(chunk, {"kind": kind, **marks}, list(map(int, self.tensor[chunk])))

    def next(self, place: int) -> None:
        """Send what this place of the window has next, if it is free."""
        chunk = next((q for q in range(place % WINDOW, CHUNKS, WINDOW) if q not in self.results), CHUNKS)
        if chunk not in self.sent and chunk < CHUNKS:
            self.sent.add(chunk)
            self.send(chunk)

    def waiting(self, which: int) -> list[int]:
        """One of the chunks that are outstanding, if any is."""
        waiting = sorted(self.sent - self.results.keys())
        return [waiting[which % len(waiting)]] if waiting else []

    def again(self, which: int) -> None:
        for chunk in self.waiting(which):
            self.tries[chunk] += 1
            self.send(chunk, resend=1)

    def ask(self, which: int) -> None:
        for chunk in self.waiting(which):
            wording = asker(self.job.rank(self.host), self.tries[chunk])
            marks = {"asked": int(self.asked[chunk] > 0), "raw": int(chunk in self.raw)}
            self.asked[chunk] += 1
            self.leave(chunk, {"kind": wire.KIND_QUERY, "next_index": wording, **marks}, [])

    def informed(self, chunk: int, status: Any) -> None:
        rank = self.job.rank(self.host)
        flags = int(status["flags"])
        if status["next_index"] != asker(rank, self.tries[chunk]) or bool(flags & wire.RAW) != (chunk in self.raw):
            return
        if not self.tree(chunk).who(status["bitmap0"][None], status["bitmap1"][None])[0, rank]:
            self.tries[chunk] += 1
            self.send(chunk, resend=int(flags & wire.RESEND > 0), asked=int(flags & wire.ASKED > 0))

    def receive(self, packet: Any) -> None:
        chunk = int(packet["owner"]) % wire.SEQUENCES
        if packet["kind"] not in (wire.KIND_RESULT, wire.KIND_STATUS) or packet["epoch"] != self.epoch:
            return
        if chunk in self.results or chunk not in self.sent:
            return
        if packet["kind"] == wire.KIND_STATUS:
            self.informed(chunk, packet)
            return
        if packet["flags"] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW:
            if chunk not in self.raw:
                self.raw.add(chunk)
                self.tries[chunk] += 1
                self.send(chunk)
            return
        self.results[chunk] = packet["vector"].astype(np.int64)
        self.index[chunk % WINDOW] = packet["next_index"]


class Server:
    """A parameter server without sockets."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan) -> None:
        self.net, self.job, self.host = net, job, host
        share = (job.servers.index(host), len(job.servers))
        self.merger = merger_of((job.number, net.epoch, net.tree(job, host)), WINDOW, K, net.aggregators, share)

    def receive(self, packet: np.ndarray) -> None:
        finished, asked, ready, statuses = take(self.merger, packet)
        for row in finished:
            self.leave(self.switch(self.host.rack), self.merger.results[row])
        for row, worker in asked:
            self.leave(self.job.hosts[worker].station, self.merger.results[row])
        for row, worker, rack in ready:
            to = self.job.hosts[worker].station if worker >= 0 else self.switch(rack if rack >= 0 else self.host.rack)
            self.leave(to, self.merger.results[row])
        for status in statuses:
            self.leave(self.job.hosts[int(status["next_index"]) % wire.RANKS].station, status)

    def switch(self, rack: int) -> Station:
        return self.net.plan.switches[f"tor{rack}"].station

    def leave(self, to: Station, packet: Any) -> None:
        head = frame(self.host.station, to, {}, [0] * (K if packet.nbytes == RECORD.itemsize else 0))[: -packet.nbytes]
        self.net.leave(self.host, head + packet.tobytes())

    def release(self) -> None:
        for rack in range(self.net.plan.topology.racks):
            for index in np.flatnonzero(self.merger.assigned).tolist():
                header = {"job": self.job.number, "index": index, "kind": wire.KIND_RELEASE, "epoch": self.merger.core.epoch}
                self.net.leave(self.host, frame(self.host.station, self.net.plan.switches[f"tor{rack}"].station, header, []))


class Bag:
    """Hosts and switches, and the packets on their way to a port."""

    def __init__(
        self, racks: Topology, jobs: int, aggregators: int, tensors: Callable[[int], np.ndarray], scheme: str = "atp"
    ) -> None:
        self.plan, self.aggregators, self.epoch = NetworkPlan(racks), aggregators, EPOCH
        self.shares = shares = deal(self.plan, [[racks.workers // jobs] * racks.racks] * jobs, [racks.servers // jobs] * jobs)
        jobs = admitted(scheme, shares, slots=WINDOW, k=K, aggregators=aggregators)
        self.switches = {name: OfflineSwitch(program(name=scheme), ports=12) for name in self.plan.switches}
        for name, made in self.switches.items():
            for line in switch_commands(self.plan, name, jobs, None, 1):
                made.command(line)
            made.command("register_write aggregator.lifetime 0 0")
        self.prioritizes = scheme == "esa"
        self.on_the_way: list[Packet] = []
        self.start(tensors)

    def start(self, tensors: Callable[[int], np.ndarray]) -> None:
        """Workers and servers of a new group; what others have sent is still on its way."""
        self.epoch += 1
        self.workers = [Worker(self, job, host, tensors(host.rank)) for job in self.shares for host in job.hosts]
        self.servers = [Server(self, job, host) for job in self.shares for host in job.servers]
        self.ends = {actor.host.name: actor for actor in [*self.workers, *self.servers]}

    def forge(self, n: int) -> None:
        """A host sends a copy of what is on its way from somebody else, perhaps with another kind, epoch or bitmap."""
        rng = random.Random(n)
        name, _, data = rng.choice(self.on_the_way)
        host = rng.choice(self.plan.hosts)
        if f"tor{host.rack}" != name or data[6:12] == bytes.fromhex(host.station.mac.replace(":", "")):
            return
        forged = bytearray(data)
        forged[rng.choice([42 + 4 + rng.randrange(4), 42 + 8 + rng.randrange(4), 42 + 12])] ^= 1 << rng.randrange(8)
        self.leave(host, bytes(forged))

    def tree(self, job: JobPlan, server: HostPlan) -> Tree:
        return Tree(Membership(job.number, 0, job.size, job.members(self.plan.topology.racks)), server.rack)

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
            assert (copy[:6].hex(":"), ".".join(map(str, copy[30:34]))) == (end.host.station.mac, end.host.station.ip)
            record = np.frombuffer(copy[42:].ljust(RECORD.itemsize, b"\0")[: RECORD.itemsize], RECORD)
            end.receive(record[0] if isinstance(end, Worker) else record)

    def settle(self) -> None:
        """Deliver everything, in order."""
        while self.on_the_way:
            self.deliver(0)

    def held(self) -> int:
        """Aggregators that are not free, in all switches. What a group left behind that was not released is as good as free."""
        cells = [
            (owner >> 32, bits)
            for made in self.switches.values()
            for owner, bits in zip(made.registers("aggregator.owner"), made.registers("aggregator.bitmap"), strict=True)
        ]
        return sum(bits != 0 and epoch == self.epoch for epoch, bits in cells)

    def close(self) -> None:
        for made in self.switches.values():
            made.close()


ACTIONS = ["next"] * 3 + ["deliver"] * 4 + ["first", "lose", "twice", "again", "ask", "ask", "forge", "restart"]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 999)), max_size=120)


@pytest.mark.parametrize("large", [False, True], ids=["integers that fit", "sums that overflow"])
@pytest.mark.parametrize(
    ("racks", "jobs"),
    [
        (Racks(1, 3, **UNPACED, servers=1), 1),
        (Racks(2, 2, **UNPACED, servers=2), 1),
        (Racks(2, 2, **UNPACED, servers=2), 2),
        (LeafSpine(2, 2, **UNPACED, servers=2), 2),
        (LeafSpine(2, 2, **UNPACED, servers=2), 1),
        (Dumbbell(2, 2, **UNPACED, servers=2), 1),
        (LeafSpine(2, 4, **UNPACED, servers=2), 2),
        (LeafSpine(3, 2, **UNPACED, servers=3, spines=3, routing="ecmp"), 1),
        (LeafSpine(3, 2, **UNPACED, servers=4, spines=4, routing="spray"), 2),
    ],
    ids=[
        "one rack",
        "two racks and servers",
        "two jobs over two racks",
        "two jobs at two spines",
        "two spines and servers",
        "dumbbell",
        "two jobs of four at two spines",
        "three servers over three ways by flows",
        "two jobs over four ways by packets",
    ],
)
@pytest.mark.parametrize("scheme", ["atp", "esa"])
def test_sums_are_exact_and_tables_end_empty(racks: Topology, jobs: int, large: bool, scheme: str) -> None:
    top = 2**31 - 1 if large else 2**28
    rng = np.random.default_rng(4)
    values = rng.integers(-top, top, (3, racks.size, CHUNKS, K), dtype=np.int64)  # of three groups

    @examples(12)
    @given(actions, st.sampled_from([1, 2, 3, 16]), st.booleans())
    def run(script: list[tuple[str, int]], aggregators: int, asking: bool) -> None:
        net = Bag(racks, jobs, aggregators, lambda rank: values[0, rank], scheme)
        try:
            play(net, script, values, asking)
        finally:
            net.close()

    run()


def play(net: Bag, script: list[tuple[str, int]], values: np.ndarray, asking: bool) -> None:
    """Go through a script; whatever it has done to the packets, all sums are exact in the end, and nothing is held.

    What brings it to an end are queries alone, if `asking`, or else chunks that are sent again alone.
    """
    group = 0
    for action, n in script:
        worker = net.workers[n % len(net.workers)]
        if action == "restart":
            if n % 3 == 0:
                group = (group + 1) % len(values)
                net.start(lambda rank: values[group, rank])  # noqa: B023 (called at once)
        elif action == "next":
            worker.next(n // len(net.workers))
        elif action == "again":
            worker.again(n)
        elif action == "ask":
            worker.ask(n)
        else:
            disturb(net, action, n)
    late = list(net.on_the_way)  # may arrive once more, when all is over
    for _ in range(MOST_ROUNDS):
        net.settle()
        for worker in net.workers:
            for which in range(WINDOW):
                worker.next(which)
                worker.ask(which) if asking else worker.again(which)
    net.settle()
    for worker in net.workers:
        exact = np.sum([values[group, host.rank] for host in worker.job.hosts], axis=0)
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


def test_a_worker_that_dies_leaves_nothing_behind() -> None:
    """Worker 0 sends and is never heard of again; the others give up, and the servers release."""
    racks = Racks(2, 2, **UNPACED, servers=1)
    net = Bag(racks, 1, 16, lambda rank: np.full((CHUNKS, K), rank, np.int64))
    try:
        for worker in net.workers[:3]:
            worker.next(0)
            worker.next(1)
        net.settle()
        assert net.held() > 0
        net.servers[0].release()
        net.settle()
        assert net.held() == 0
    finally:
        net.close()


def test_what_a_server_sends_to_another_rack_crosses_the_spine_of_another_job() -> None:
    """Switches are reached by the first spine, workers by their job's; each rack's switch passes a result on to its workers."""
    net = Bag(LeafSpine(2, 4, **UNPACED, servers=2), 2, 16, lambda rank: np.full((CHUNKS, K), rank, np.int64))
    try:
        for job, server in zip(net.shares, net.servers, strict=True):
            mine = [worker for worker in net.workers if worker.job is job]
            for worker in mine:
                worker.next(0)
            net.settle()
            assert all(0 in worker.results for worker in mine)
            away = [worker for worker in mine if worker.host.rack != server.host.rack]
            (row,) = (
                row
                for row in np.flatnonzero(server.merger.rows["complete"])
                if server.merger.results["owner"][row] % wire.SEQUENCES == 0
            )
            for to in (server.switch(1 - server.host.rack), away[0].host.station):
                for worker in mine:
                    worker.results.clear()
                server.leave(to, server.merger.results[row])
                net.settle()
                reached = away if to is not away[0].host.station else away[:1]
                assert [worker for worker in mine if 0 in worker.results] == reached
    finally:
        net.close()
