"""What testbed.simulator.simulation does with ATP, with the real workers' and servers' cores and the model of its switches.

Nothing of the simulator's loops is here: workers are hosts.atp.worker.AtpWorker and servers hosts.atp.server.AtpServer; switches are
tests.atp_reference.ModelAtpSwitch. Sums are checked, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inalab.hosts.atp import wire
from inalab.hosts.atp.server import AtpServer
from inalab.hosts.atp.tree import BITS
from inalab.hosts.atp.worker import AtpWorker
from inalab.hosts.collective import Membership
from inalab.hosts.drivers.server import NAP
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.schemes.atp import AGGREGATOR_LIFETIME
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.simulator.simulation import Job, Network
from tests.atp_reference import Gradient, ModelAtpSwitch, Query, Status
from tests.simulated_switchml import EPOCH, UP, K, Twin, Worker


@dataclass
class Packet:
    """A datagram on its way between two nodes, for another one; who asks, and how often it was sent again, comes back as it is."""

    node: int
    before: int  # the node that it comes from
    goal: int
    row: Any  # of wire.packet(K)
    vector: bool

    def marked(self) -> Packet:
        row = self.row.copy()
        row["flags"] |= wire.ECN
        return replace(self, row=row)


@dataclass
class Server:
    """A server's place in the twin; its peers are nodes."""

    node: int
    job: int
    core: Any = None
    receiver: Any = None
    peers: list[int] = field(default_factory=list)
    busy: float = 0.0
    inbox: list[Packet] = field(default_factory=list)
    woken: bool = False


@dataclass
class AtpPlace(Worker):
    """A worker's, with its servers' nodes."""

    peers: list[int] = field(default_factory=list)


class AtpTwin(Twin):
    """As tests.simulated_switchml.Twin, of jobs with servers."""

    def __init__(self, network: Network, jobs: Sequence[Job], costs: Costs) -> None:
        workers = sum(len(job.switches) for job in jobs)
        self.top = workers + network.switches  # the first server's node
        self.servers: list[Server] = []
        self.routes: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}  # by job and node: by neighbour, link and way
        self.tables: dict[int, tuple[Any, Any, Any]] = {}  # by switch: what all jobs share
        self.switches: dict[tuple[int, int, int], ModelAtpSwitch] = {}  # by job, server's node and switch
        self.levels: dict[tuple[int, int, int], int] = {}
        self.paces = np.zeros((len(network.links), 2)) if network.paces is None else network.paces
        self.starts: dict[tuple[int, int], list[float]] = {}  # by link and way: when its packets left the queue
        self.network = network
        super().__init__(network, jobs, costs)

    def _admit(self, number: int, job: Job) -> None:
        first = len(self.workers)
        racks: dict[int, list[int]] = {}
        for rank, switch in enumerate(job.switches):
            racks.setdefault(switch, []).append(rank)
            self._join(number, first + rank, self.first + switch, job.links[rank])
        for lower, (upper, link) in job.above.items():
            self._join(number, self.first + lower, self.first + upper, link)
        members = [racks.get(switch, []) for switch in range(self.network.switches)]
        homes = [switch for switch, _ in job.servers]
        mine = [Server(self.top + len(self.servers) + i, number) for i in range(len(job.servers))]
        for server, (switch, link) in zip(mine, job.servers, strict=True):
            self._join(number, server.node, self.first + switch, link)
            for rack in {switch, *racks}:
                level, others = int(rack == switch), sum(1 for r in racks if r != switch)
                fan_in = len(members[rack]) + (others if level else 0)
                key = number, server.node, self.first + rack
                model = self.switches[key] = ModelAtpSwitch(level, fan_in, BITS - 1 - rack, AGGREGATOR_LIFETIME)
                model.table, model.refused, model.finished = self.tables.setdefault(self.first + rack, ({}, {}, {}))
        self.servers += mine
        size, sums = len(job.switches), job.compute.shape[1]
        draw = np.random.default_rng(number)
        for rank in range(size):
            tensors = [draw.integers(-99, 99, job.chunks * K).astype(np.int32) for _ in range(sums)]
            worker = AtpPlace(first + rank, number, tensors, job.compute[rank], peers=[server.node for server in mine])
            self.workers.append(worker)
            worker.core = AtpWorker(
                Membership(number, rank, size, members), EPOCH, homes, job.slots, K, job.aggregators,
                congestion=job.control, recovery="ask" if job.asks else "paper",
            )  # fmt: skip
            worker.receiver = Datagrams(1 << 13, worker.core.record)
            self.at(job.compute[rank, 0], self.start, worker)
        for i, server in enumerate(mine):
            link = self.network.links[job.servers[i][1]]
            server.core = AtpServer(
                Membership(number, size + i, size, members), EPOCH, homes, self.network.switches, job.slots, K, job.aggregators,
                (link.vector, link.header),
            )  # fmt: skip
            server.receiver = Datagrams(1 << 13, server.core.sender.record)
            server.peers = [*(self.first + rack for rack in range(self.network.switches)), *range(first, first + size)]

    def _join(self, job: int, lower: int, upper: int, link: int) -> None:
        self.routes.setdefault((job, lower), {})[upper] = link, UP
        self.routes.setdefault((job, upper), {})[lower] = link, 1 - UP

    # --- hosts

    def put(self, mine: Any, d: Any, send: Send) -> None:
        packet = Packet(-1, mine.node, mine.peers[send.peer], d.copy(), send.length is None)
        self.leave(mine.busy, mine.node, packet, send.urgent)

    def arrived(self, mine: Any) -> Datagrams:
        packets, mine.inbox = mine.inbox, []
        lengths = np.zeros(len(packets), np.uint32)
        for i, p in enumerate(packets):
            mine.receiver.data[i] = p.row
            lengths[i] = mine.receiver.record.itemsize if p.vector else wire.HEADER.itemsize
        return mine.receiver.first(len(packets), lengths)

    # --- links

    def leave(self, now: float, node: int, packet: Packet, urgent: bool = False, to: int | None = None) -> None:
        """From a node, on the way to the packet's goal, or to a neighbour."""
        job = int(packet.row["owner"]) >> 24
        following = self._next(job, node, packet.goal) if to is None else to
        number, way = self.routes[job, node][following]
        link = self.links[number][way]
        if way != UP and link.loses():
            return
        packet = replace(packet, node=following, before=node)
        takes = link.vector if packet.vector else link.header
        if not self.first <= node < self.top:
            self.at(now, self.queue, (link, takes, packet, urgent))
            return
        if pace := self.paces[number, way]:
            starts = self.starts.setdefault((number, way), [])
            waiting = sum(start > now + 1e-6 * pace for start in starts)
            if self.network.depth and waiting >= self.network.depth:
                link.dropped += 1
                return
            if self.network.deep and waiting >= self.network.deep:
                packet = packet.marked()
            now = max(now, starts[-1] + pace) if starts else now
            starts.append(now)
        elif link.full(now):
            return
        self.at(link.crossed(now, takes) + self.costs.delay, self.arrive, packet)

    def _next(self, job: int, node: int, goal: int) -> int:
        """The neighbour on the way to a node: a search in breadth over the job's tree."""
        came: dict[int, int] = {goal: goal}
        queue = [goal]
        for found in queue:
            if found == node:
                return came[node]
            for other in self.routes[job, found]:
                if other not in came:
                    came[other] = found
                    queue.append(other)
        raise AssertionError(f"no way from {node} to {goal}")

    def arrive(self, packet: Packet) -> None:
        job = int(packet.row["owner"]) >> 24
        number, way = self.routes[job, packet.before][packet.node]
        if way == UP and self.links[number][UP].loses():
            return
        if packet.node >= self.top:
            self._take_at_server(self.servers[packet.node - self.top], packet)
        elif packet.node >= self.first:
            self._take_at_switch(packet)
        else:
            self.take(self.workers[packet.node], packet)

    # --- servers

    def _take_at_server(self, server: Server, packet: Packet) -> None:
        server.inbox.append(packet)
        if not self.costs.naps:
            self._answer(server)
        elif not server.woken:
            server.woken = True
            self.at(max(self.now, server.busy) + NAP, self._answer, server)

    def _answer(self, server: Server) -> None:
        self.now = server.busy = max(self.now, server.busy) + self.costs.batch + self.costs.host * len(server.inbox)
        server.woken = False
        server.core.received(self.arrived(server), self.now)
        self.carry_out(server)

    # --- switches

    def _take_at_switch(self, packet: Packet) -> None:
        node, row = packet.node, packet.row
        now = self.switch_busy[node - self.first] = max(self.now, self.switch_busy[node - self.first]) + self.costs.switch
        job, kind = int(row["owner"]) >> 24, int(row["kind"])
        up = kind in (wire.KIND_GRADIENT, wire.KIND_QUERY)
        server = packet.goal if up else int(self._server_of(job, row))
        model = self.switches.get((job, server, node))
        chunk = int(row["owner"]) & (1 << 24) - 1
        if kind == wire.KIND_RESULT:
            if packet.goal == node:
                if model:
                    model.epochs[job] = EPOCH
                    model.result(EPOCH, (job, chunk), int(row["index"]))
                self._spread(now, server, packet)
            else:
                self.leave(now, node, packet)
            return
        if model is None:
            self.leave(now, node, packet)
            return
        model.now = now
        model.epochs.setdefault(job, EPOCH)
        flags, owner, index = int(row["flags"]), (job, chunk), int(row["index"])
        workers, children = _bits(int(row["bitmap0"])), _bits(int(row["bitmap1"]))
        ecn = flags & wire.ECN > 0
        if kind == wire.KIND_GRADIENT:
            vector = tuple(int(v) for v in row["vector"])
            gone = model.gradient(
                Gradient(
                    EPOCH, owner, index, workers, children, vector, flags & wire.RESEND > 0, flags & wire.COLLISION > 0, False,
                    ecn, flags & wire.ASKED > 0,
                )
            )  # fmt: skip
        elif kind == wire.KIND_QUERY:
            gone = model.query(Query(EPOCH, owner, index, workers, children, flags & wire.ASKED > 0))
            if isinstance(gone, Status):
                self.leave(now, node, self._packet(packet, replace(gone, ecn=ecn), _asker(self, packet)))
                return
        else:
            gone = model.status(
                Status(EPOCH, owner, index, workers, children, flags & wire.ASKED > 0, False, ecn, flags & wire.RESEND > 0)
            )
        if gone is None:
            return
        goal = packet.goal if up or isinstance(gone, Status) else server
        self.leave(now, node, self._packet(packet, gone, goal))

    def _spread(self, now: float, server: int, packet: Packet) -> None:
        """To all below: workers in the order of ranks, then the next switches."""
        job = int(packet.row["owner"]) >> 24
        towards = self._next(job, packet.node, server)
        below = [node for node in self.routes[job, packet.node] if node != towards and node < self.top]
        for node in sorted(below):
            if self._leads_to_workers(job, packet.node, node):
                self.leave(now, packet.node, replace(packet, goal=node), to=node)

    def _leads_to_workers(self, job: int, node: int, child: int) -> bool:
        if child < self.first:
            return True
        return any(self._leads_to_workers(job, child, other) for other in self.routes[job, child] if other != node)

    def _server_of(self, job: int, row: Any) -> int:
        mine = [server.node for server in self.servers if server.job == job]
        return mine[(int(row["owner"]) & (1 << 24) - 1) % len(mine)]

    def _packet(self, packet: Packet, what: Gradient | Query | Status, goal: int) -> Packet:
        """The same with what a model's switch has made of it."""
        row = packet.row.copy()
        row["bitmap0"] = sum(1 << bit for bit in what.workers)
        row["bitmap1"] = sum(1 << bit for bit in what.children)
        flags = (wire.ASKED if what.asked else 0) | int(row["flags"]) & wire.EDGE_SWITCH
        if isinstance(what, Query):
            flags |= int(row["flags"]) & (wire.RESEND | wire.ECN)
            row["kind"] = wire.KIND_QUERY
        else:
            flags |= (wire.RESEND if what.resend else 0) | (wire.ECN if what.ecn else 0)
            row["kind"] = wire.KIND_STATUS if isinstance(what, Status) else wire.KIND_GRADIENT
        if isinstance(what, Gradient):
            flags |= wire.COLLISION if what.collision else 0
            row["vector"] = what.vector
        row["flags"] = flags
        return replace(packet, row=row, goal=goal, vector=isinstance(what, Gradient))


def _asker(twin: AtpTwin, packet: Packet) -> int:
    """The node of the worker that a query is of."""
    job, rank = int(packet.row["owner"]) >> 24, int(packet.row["next_index"]) % wire.RANKS
    return next(w.node for w in twin.workers if w.job == job) + rank


def _bits(bitmap: int) -> frozenset[int]:
    return frozenset(bit for bit in range(BITS) if bitmap >> bit & 1)
