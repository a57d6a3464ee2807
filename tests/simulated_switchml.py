"""What testbed.simulator.simulation does with SwitchML, with the real workers' cores and the model of the switches that the P4 program is held to.

Nothing of the simulator's loops is here: workers are hosts.switchml.worker.SwitchML; switches are tests.reference.ModelSwitch; links,
losses and events are objects. Sums are checked, too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from inalab.hosts.collective import Membership, Sum
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML
from inalab.switches.loss import Loss, link_seed, mix, threshold
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.simulator.simulation import Job, Network, Simulated
from tests.reference import QUERY, RESULT, STATUS, UPDATE, Message, ModelSwitch

EPOCH = 5
K = 32
KINDS = {wire.KIND_UPDATE: UPDATE, wire.KIND_QUERY: QUERY}
UP, DOWN = 0, 1


@dataclass
class Packet:
    """A message on its way to a node: from a child of it by number, or from above (None). `mark` is as on the wire."""

    job: int
    node: int
    child: int | None
    message: Message
    mark: int


@dataclass
class Direction:
    """One direction of a link."""

    vector: float
    header: float
    seed: int
    loss: Loss | None
    depth: int = 0
    dropped: int = 0
    busy: float = 0.0
    waiting: tuple[deque[Any], deque[Any]] = field(default_factory=lambda: (deque(), deque()))  # at a host: urgent ones, and others
    sending: bool = False
    numbered: int = 0
    lost: int = 0
    bad: bool = False

    def loses(self) -> bool:
        if self.loss is None:
            return False
        draw = mix(self.seed ^ mix(self.numbered))
        self.numbered += 1
        if mix(draw ^ 0x5BD1E995) < threshold(self.loss.leave if self.bad else self.loss.enter):
            self.bad = not self.bad
        lost = draw < threshold(self.loss.bad if self.bad else self.loss.good)
        self.lost += lost
        return lost

    def full(self, now: float) -> bool:
        """Whether the queue before it takes no more."""
        over = self.depth > 0 and self.busy - now > self.depth * self.vector
        self.dropped += over
        return over

    def crossed(self, now: float, takes: float) -> float:
        """When the last bit of a switch's packet is over."""
        self.busy = max(now, self.busy) + takes
        return self.busy


@dataclass
class Worker:
    """A worker's place in the twin, and what it does."""

    node: int
    job: int
    tensors: list[np.ndarray]
    compute: Sequence[float]
    core: Any = None
    receiver: Any = None  # the memory of what it receives
    busy: float = 0.0
    inbox: list[Any] = field(default_factory=list)
    woken: bool = False
    timer_at: float = float("inf")
    under_way: Sum | None = None
    totals: list[np.ndarray] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)


class Twin:
    """The same network and jobs; `run` returns when each worker's sums have begun and ended."""

    def __init__(self, network: Network, jobs: Sequence[Job], costs: Costs) -> None:
        self.costs, self.jobs, self.now, self.order, self.happened = costs, jobs, 0.0, 0, 0
        self.events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self.links = [
            [Direction(link.vector, link.header, link_seed(network.seed, link.number, way), network.loss) for way in (UP, DOWN)]
            for link in network.links
        ]
        self.first = sum(len(job.switches) for job in jobs)
        for link in {link for job in jobs for _, link in job.above.values()}:
            self.links[link][UP].depth = network.depth
        for _, down in self.links:
            down.depth = network.depth
        self.switch_busy = [0.0] * network.switches
        self.children: dict[tuple[int, int], list[int]] = {}
        self.above: dict[tuple[int, int], tuple[int, int]] = {}  # by job and node: the node above it, and the link
        self.workers: list[Worker] = []
        for number, job in enumerate(jobs):
            self._admit(number, job)
        self.models = {
            key: ModelSwitch(len(children), key in self.above) for key, children in self.children.items()
        }  # by job and node

    def _admit(self, number: int, job: Job) -> None:
        racks: dict[int, list[int]] = {}
        begin = len(self.workers)
        for rank, switch in enumerate(job.switches):
            racks.setdefault(switch, []).append(rank)
            self.children.setdefault((number, self.first + switch), []).append(begin + rank)
            self.above[number, begin + rank] = self.first + switch, job.links[rank]
        for switch, (above, link) in sorted(job.above.items()):
            self.children.setdefault((number, self.first + above), []).append(self.first + switch)
            self.above[number, self.first + switch] = self.first + above, link
        draw = np.random.default_rng(number)
        size, sums = len(job.switches), job.compute.shape[1]
        for rank in range(size):
            tensors = [draw.integers(-99, 99, job.chunks * K).astype(np.int32) for _ in range(sums)]
            if job.exponents:
                tensors = [tensor.astype(np.float32) for tensor in tensors]
            mine = Worker(begin + rank, number, tensors, job.compute[rank])
            self.workers.append(mine)
            others: list[list[int]] = [[]] if job.above and len(racks) == 1 else []  # racks without workers of the job
            membership = Membership(number, rank, size, [*(racks[switch] for switch in sorted(racks)), *others])
            recovery = "ask" if job.asks else "paper"
            mine.core = SwitchML(membership, EPOCH, job.slots, K, recovery=recovery)
            mine.receiver = Datagrams(1 << 12, mine.core.record)
            self.at(job.compute[rank, 0], self.start, mine)

    def run(self) -> tuple[list[list[float]], list[list[float]]]:
        while self.events:
            self.now, _, what, about = heapq.heappop(self.events)
            self.happened += what not in (self.queue, self.departed)
            what(about)
        for number, job in enumerate(self.jobs):
            mine = [w for w in self.workers if w.job == number]
            for step in range(job.compute.shape[1]):
                total = np.sum([w.tensors[step] for w in mine], axis=0)
                assert all(np.allclose(w.totals[step], total, atol=1e-2 * len(mine)) for w in mine)
        return [w.begun for w in self.workers], [w.ended for w in self.workers]

    def at(self, time: float, what: Callable[[Any], None], about: Any) -> None:
        heapq.heappush(self.events, (time, self.order, what, about))
        self.order += 1

    # --- links

    def up(self, now: float, job: int, node: int, message: Message, mark: int, urgent: bool = False) -> None:
        above, link = self.above[job, node]
        packet = Packet(job, above, self.children[job, above].index(node), message, mark)
        way, takes = self.links[link][UP], self.takes(link, UP, packet)
        if node < self.first:
            self.at(now, self.queue, (way, takes, packet, urgent))
        elif not way.full(now):
            self.at(way.crossed(now, takes) + self.costs.delay, self.arrive, packet)

    def takes(self, link: int, way: int, packet: Packet) -> float:
        its = self.links[link][way]
        return its.header if packet.message.kind in (QUERY, STATUS) else its.vector

    def queue(self, put: tuple[Direction, float, Any, bool]) -> None:
        """A packet has come to a host's link."""
        way, takes, packet, urgent = put
        way.waiting[not urgent].append((takes, packet))
        if not way.sending:
            self.departed(way)

    def departed(self, way: Direction) -> None:
        """A host's link is free for its next packet, an urgent one if there is any."""
        queue = next(filter(None, way.waiting), None)
        way.sending = queue is not None
        if queue:
            takes, packet = queue.popleft()
            self.at(self.now + takes, self.departed, way)
            self.at(self.now + takes + self.costs.delay, self.arrive, packet)

    def down(self, now: float, job: int, node: int, message: Message, mark: int) -> None:
        link = self.above[job, node][1]
        way, packet = self.links[link][DOWN], Packet(job, node, None, message, mark)
        if not way.loses() and not way.full(now):
            self.at(way.crossed(now, self.takes(link, DOWN, packet)) + self.costs.delay, self.arrive, packet)

    def arrive(self, packet: Packet) -> None:
        if packet.child is not None:
            below = self.children[packet.job, packet.node][packet.child]
            if self.links[self.above[packet.job, below][1]][UP].loses():
                return
        if packet.node >= self.first:
            self.switch(packet)
        else:
            self.take(self.workers[packet.node], packet)

    def take(self, mine: Worker, packet: Any) -> None:
        mine.inbox.append(packet)
        if not self.costs.naps:
            self.look(mine)
        elif not mine.woken:
            mine.woken = True
            self.at(max(self.now, mine.busy) + mine.core.nap(), self.look, mine)

    # --- switches

    def switch(self, packet: Packet) -> None:
        job, node, child, mark = packet.job, packet.node, packet.child, packet.mark
        number = node - self.first
        now = self.switch_busy[number] = max(self.now, self.switch_busy[number]) + self.costs.switch
        model, below = self.models[job, node], self.children[job, node]
        m = packet.message if child is None else replace(packet.message, worker=child)
        if m.kind == UPDATE:
            out = model.update(m)
        elif m.kind == QUERY:
            out = model.query(m)
        elif m.kind == RESULT:
            out = model.result(m)
        else:
            above = self.above.get((job, node))
            own = self.children[job, above[0]].index(node) if above else 0
            out = model.status(m, mark != 0 or own in m.seen)
            mark += 1
        if out is None:
            return
        to, message = out
        if m.kind == QUERY and message.kind != QUERY:
            mark = int(message.kind == RESULT)
        if message.kind in (UPDATE, RESULT):
            mark = int(message.again)
        if to == "up":
            self.up(now, job, node, message, mark)
        else:
            for there in below if to == "all" else [below[child or 0]]:
                self.down(now, job, there, message, mark)

    # --- workers

    def start(self, mine: Worker) -> None:
        self.now = max(self.now, mine.busy)
        mine.begun.append(self.now)
        tensor = mine.tensors[len(mine.begun) - 1].copy()
        mine.under_way = Sum(tensor, tensor.shape)
        mine.core.start(mine.under_way, self.now)
        self.carry_out(mine)
        self.set_timer(mine)

    def look(self, mine: Worker) -> None:
        self.now = mine.busy = max(self.now, mine.busy) + self.costs.batch + self.costs.host * len(mine.inbox)
        mine.woken = False
        mine.core.received(self.arrived(mine), self.now)
        self.carry_out(mine)
        if mine.under_way is not None and mine.under_way.total is not None:
            mine.totals.append(mine.under_way.total)
            mine.under_way = None
            mine.ended.append(self.now)
            if len(mine.ended) < len(mine.compute):
                self.at(self.now + mine.compute[len(mine.ended)], self.start, mine)
        self.set_timer(mine)

    def arrived(self, mine: Worker) -> Datagrams:
        packets, mine.inbox = mine.inbox, []
        lengths = np.zeros(len(packets), np.uint32)
        for i, p in enumerate(packets):
            m, d = p.message, mine.receiver.data[i]
            status = m.kind == STATUS
            d["kind"] = wire.KIND_STATUS if status else wire.KIND_RESULT
            d["job"], d["version"], d["slot"], d["chunk"], d["epoch"] = p.job, m.version, m.slot, m.chunk, m.epoch
            d["exponent"], d["mark"] = m.exponent, p.mark
            lengths[i] = wire.STATUS.itemsize if status else mine.core.record.itemsize
            if status:
                d["vector"][0] = sum(1 << child for child in m.seen)
            else:
                d["vector"] = m.vector
        return mine.receiver.first(len(packets), lengths)

    def carry_out(self, mine: Any) -> None:
        """Send what a core wants sent."""
        sends, mine.core.sends = mine.core.sends, []
        for send in sends:
            for row in send.rows:
                mine.busy = max(self.now, mine.busy) + self.costs.host
                self.put(mine, mine.core.sender.data[row], send)

    def put(self, mine: Worker, d: Any, send: Send) -> None:
        vector = tuple(int(v) for v in d["vector"]) if d["kind"] == wire.KIND_UPDATE else ()
        message = Message(
            KINDS[int(d["kind"])], int(d["epoch"]), int(d["worker"]), int(d["version"]), int(d["slot"]), int(d["chunk"]),
            int(d["exponent"]), vector, bool(d["mark"]), d["mark"] == wire.MARK_INSISTS,
        )  # fmt: skip
        self.up(mine.busy, mine.job, mine.node, message, int(d["mark"]), send.urgent)

    def set_timer(self, mine: Worker) -> None:
        first = mine.core.deadline.min()
        if first < mine.timer_at:
            mine.timer_at = first
            self.at(max(first, self.now), self.ring, mine)

    def ring(self, mine: Worker) -> None:
        if self.now < mine.timer_at:
            return
        mine.timer_at = float("inf")
        if mine.woken:
            return
        mine.core.expired(self.now)
        self.carry_out(mine)
        self.set_timer(mine)


def assert_alike(ours: Simulated, twin: Twin) -> None:
    """The simulator and its twin agree on all times, counters, losses and the number of events."""
    begun, ended = twin.run()
    for job, summed in enumerate(ours.jobs):
        mine = [w for w in twin.workers if w.job == job]
        for name, values in summed.counters.items():
            assert values.tolist() == [getattr(w.core.counters, name) for w in mine], name
    assert np.concatenate([job.begun for job in ours.jobs]) == pytest.approx(np.array(begun), rel=1e-12)
    assert np.concatenate([job.ended for job in ours.jobs]) == pytest.approx(np.array(ended), rel=1e-12)
    assert ours.events == twin.happened
    assert ours.lost == sum(way.lost for link in twin.links for way in link)
    assert ours.dropped == sum(way.dropped for link in twin.links for way in link)
