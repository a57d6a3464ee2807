"""SwitchML packet by packet (NSDI '21, section 3): pools of slots, self-clocked by results, on trees of switches, for several jobs.

A worker sends a packet for each slot. When a slot's result comes, its next packet leaves. Links send one packet after another at
their rates, and lose some; timers, queries and what is sent again are the real workers'. tests/simulated_switchml.py holds the
loops to the real workers' code and to tests/reference.py, event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.compiled import compiled
from hosts.stream.retransmission import MOST_BACKOFF, REMEMBERED
from switches.loss import Loss, link_seed, threshold
from testbed.simulator.costs import Costs
from testbed.simulator.events import pop
from testbed.simulator.lines import arrives
from testbed.simulator.pool import NOBODY, take_at_switch
from testbed.simulator.timers import STREAM, TIMERS, URGENT, set_timeouts
from testbed.simulator.worker import arrive, begin, look, ring
from testbed.simulator.world import (
    CELL_FIELDS,
    CHUNK,
    DEADLINE,
    DOWN,
    EVENTS,
    FULL,
    HAPPENED,
    JOB_FIELDS,
    LINK_FIELDS,
    NEXT,
    PACKET_FIELDS,
    SIZE,
    SLOT_FIELDS,
    SLOT_TIMES,
    START,
    STATES,
    SUM_FIELDS,
    TIMER,
    TIMER_FIELDS,
    TREE_FIELDS,
    UP,
    WAKE,
    WORKER_FIELDS,
    WORLD,
    World,
    Z,
    drop,
    schedule,
    unowned,
)

IDEAL = Costs()
MOST_EVENTS, AT_A_TIME = 1_000_000_000, 1_000_000
PAPER_MARGIN, ASKING_MARGIN = 1.0, 1 / 4  # of round trips: hosts.stream.recovery


@dataclass(frozen=True)
class Link:
    """Seconds that a packet with a vector takes on a link, and one without; and the number from which its losses' seeds follow."""

    vector: float
    header: float = 0.0
    number: int = 0


@dataclass(frozen=True)
class Job:
    """Workers by rank, each with its switch and its link; sums of so many chunks, and seconds before each, by worker and sum."""

    switches: Sequence[int]
    links: Sequence[int]
    above: dict[int, tuple[int, int]]  # by switch that has one: the next one on the way to the root, and the link to it
    chunks: int
    slots: int
    compute: NDArray[np.float64]
    exponents: bool = True
    asks: bool = True


@dataclass(frozen=True)
class Network:
    """Links, a number of switches, and losses in both directions of all links; how many packets a switch's port holds, 0: all."""

    links: Sequence[Link]
    switches: int
    loss: Loss | None = None
    seed: int = 1
    depth: int = 0


@dataclass(frozen=True)
class Summed:
    """What became of a job, by worker and sum: times in seconds, and counts of its packets up to the sum's end."""

    begun: NDArray[np.float64]
    ended: NDArray[np.float64]
    waited: NDArray[np.float64]  # for results, all together; like those:
    results: NDArray[np.int64]
    retransmissions: NDArray[np.int64]
    counters: dict[str, NDArray[np.int64]]  # of the workers, by name


@dataclass(frozen=True)
class Simulated:
    """The jobs, packets that links lost and numbered and that queues dropped, and how many events that took."""

    jobs: list[Summed]
    lost: int
    numbered: int
    dropped: int
    events: int


COUNTERS = ("sent", "results", "duplicates", "timeouts", "retransmissions", "queries")


def simulate(network: Network, jobs: Sequence[Job], costs: Costs = IDEAL) -> Simulated:
    """Let all jobs sum until they are done. Raises ValueError for what cannot be."""
    room = 4
    while True:
        world = build(network, jobs, costs, room)
        events = 0
        while world.state[SIZE] and not world.state[FULL] and events < MOST_EVENTS:
            events = run(world, events + AT_A_TIME)  # in between, Python takes signals
        if not world.state[FULL]:
            break
        room *= 2  # more packets under way than in most networks: begin again, which gives the same
    if events >= MOST_EVENTS:
        raise ValueError(f"a simulation of more than {MOST_EVENTS:,} events: choose fewer workers, steps or elements")
    return Simulated(
        [_summed(world, number, job) for number, job in enumerate(jobs)], int(world.links["lost"].sum()),
        int(world.links["numbered"].sum()), int(world.links["dropped"].sum()), events,
    )  # fmt: skip


def _summed(world: World, number: int, job: Job) -> Summed:
    mine = world.workers["job"] == number
    sums, workers = world.sums[mine][:, : job.compute.shape[1]], world.workers[mine]
    return Summed(
        sums["begun"], sums["ended"], sums["waited"], sums["results"], sums["retransmissions"],
        {name: workers[name] for name in COUNTERS},
    )  # fmt: skip


def build(network: Network, jobs: Sequence[Job], costs: Costs, room: int) -> World:
    """The network before its first event, with room for `room` packets of each slot of each node."""
    sizes = [len(job.switches) for job in jobs]
    workers, most, steps = sum(sizes), max(job.slots for job in jobs), max(job.compute.shape[1] for job in jobs)
    nodes, cells = workers + network.switches, 2 * sum(job.slots for job in jobs)
    packets = room * nodes * most + 64
    world = World(
        times=np.zeros(packets + 4 * workers), orders=np.zeros(packets + 4 * workers, np.int64),
        whats=np.zeros(packets + 4 * workers, np.int64), state=np.zeros(STATES, np.int64),
        packets=np.zeros(packets, PACKET_FIELDS), links=_links(network), chances=_chances(network.loss),
        costs=np.array([costs.host, costs.batch, costs.switch, costs.delay, float(costs.naps)]),
        jobs=np.zeros(len(jobs), JOB_FIELDS), trees=np.zeros((len(jobs), nodes), TREE_FIELDS),
        children=np.zeros(len(jobs) * nodes, np.int64), switches=np.zeros(network.switches),
        cells=np.zeros((network.switches, cells), CELL_FIELDS), workers=np.zeros(workers, WORKER_FIELDS),
        sums=np.zeros((workers, steps), SUM_FIELDS), inbox=np.zeros((workers, room * most), np.int64),
        slots=np.zeros((workers, SLOT_FIELDS, most), np.int64), slot_times=np.zeros((workers, SLOT_TIMES, most)),
        timers=np.zeros((workers, TIMERS), TIMER_FIELDS), recent=np.zeros((workers, TIMERS, REMEMBERED)),
        backoffs=np.zeros((workers, 1, MOST_BACKOFF + 1)), urgent_backoffs=np.zeros((workers, 1, MOST_BACKOFF + 1)),
    )  # fmt: skip
    world.packets["kind"] = np.arange(1, packets + 1)
    world.cells["chunk"], world.cells["asker"] = -1, NOBODY
    world.slots[:, CHUNK], world.slots[:, NEXT] = -1, np.arange(most)
    world.slot_times[:, DEADLINE] = np.inf
    world.workers["timer_at"], world.workers["probing"] = np.inf, 1
    base = first = 0
    for number, job in enumerate(jobs):
        its, own = world.jobs[number], world.workers[first : first + sizes[number]]
        its["slots"], its["base"], its["chunks"], its["sums"] = job.slots, base, job.chunks, job.compute.shape[1]
        its["exponents"], its["asks"] = job.exponents, job.asks
        own["job"], own["margin"] = number, ASKING_MARGIN if job.asks else PAPER_MARGIN
        its["levels"] = _plant(world, number, job, first, workers, network.depth)
        world.sums["compute"][first : first + sizes[number], : job.compute.shape[1]] = job.compute
        for w in range(first, first + sizes[number]):
            set_timeouts(world, w, STREAM)
            set_timeouts(world, w, URGENT)
            schedule(world, job.compute[w - first, 0], w * EVENTS + START)
        base, first = base + 2 * job.slots, first + sizes[number]
    return world


def _links(network: Network) -> Any:
    found = np.zeros((len(network.links), 2), LINK_FIELDS)
    for its, link in zip(found, network.links, strict=True):
        its["vector"], its["header"] = link.vector, link.header
        its[DOWN]["depth"] = network.depth
        its["seed"] = [link_seed(network.seed, link.number, direction) for direction in range(2)]
    return found


def _chances(loss: Loss | None) -> NDArray[np.int64]:
    chosen = loss or Loss()
    return np.array([threshold(chance) for chance in (chosen.good, chosen.bad, chosen.enter, chosen.leave)])


def _plant(world: World, number: int, job: Job, first: int, workers: int, depth: int) -> int:
    """Set up a job's tree; how many levels of switches it has."""
    below: dict[int, list[int]] = {}
    for rank, switch in enumerate(job.switches):
        below.setdefault(workers + switch, []).append(first + rank)
    for switch, (above, _) in sorted(job.above.items()):
        below.setdefault(workers + above, []).append(workers + switch)
    tree, filled = world.trees[number], number * world.trees.shape[1]
    for _, link in job.above.values():
        world.links[link, UP]["depth"] = depth
    tree["above"] = -1
    for node, children in below.items():
        if len(children) > 63:
            raise ValueError(f"{len(children)} nodes below one switch: up to 63 are simulated")
        tree[node]["first"], tree[node]["count"], tree[node]["everyone"] = filled, len(children), (1 << len(children)) - 1
        world.children[filled : filled + len(children)] = children
        filled += len(children)
        for i, child in enumerate(children):
            link = job.links[child - first] if child < workers else job.above[child - workers][1]
            tree[child]["above"], tree[child]["child"], tree[child]["link"] = node, i, link
    levels, node = 0, int(tree[first]["above"])
    while node >= 0:
        levels, node = levels + 1, int(tree[node]["above"])
    return levels


@compiled(Z(WORLD, Z))
def run(world: World, most: int) -> int:
    """Let everything happen, up to so many events; how many have."""
    world = unowned(world)  # type: ignore[call-arg] # numba gives the context
    state, workers = world.state, len(world.workers)
    while state[SIZE] and not state[FULL] and state[HAPPENED] < most:
        now, what = world.times[0], world.whats[0]
        state[SIZE] = pop(world.times, world.orders, world.whats, state[SIZE])
        state[HAPPENED] += 1
        kind, number = what % EVENTS, what // EVENTS
        if kind == START:
            begin(world, number, now)
        elif kind == WAKE:
            look(world, number, now)
        elif kind == TIMER:
            ring(world, number, now)
        elif not arrives(world, number):
            drop(world, number)
        elif world.packets[number].node < workers:
            arrive(world, world.packets[number].node, number, now)
        else:
            take_at_switch(world, now, number)
            drop(world, number)
    return int(state[HAPPENED])
