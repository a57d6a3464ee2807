"""Jobs on a network, packet by packet, and the events that they are.

A worker sends a packet for each slot of its pool or place in its window. When a chunk's result comes, the next packet leaves. Links
send one packet after another at their rates, and lose some; switches, timers, queries and what is sent again are the real ones'.
tests/simulated_switchml.py and tests/simulated_atp.py hold the loops to the real workers' and servers' code, and to the models of
the switches that the P4 programs are held to, event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.congestion import CONTROLS, MARKS
from inalab.hosts.atp.tree import BITS
from inalab.hosts.compiled import compiled
from inalab.hosts.stream.retransmission import MOST_BACKOFF, REMEMBERED
from inalab.switches.atp import EVENTS as HAPPENINGS
from inalab.switches.loss import Loss, link_seed, threshold
from inalab.testbed.simulator.atp import server
from inalab.testbed.simulator.atp.aggregators import TRANSIT
from inalab.testbed.simulator.atp.aggregators import take_at_switch as take_at_atp_switch
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.simulator.events import pop
from inalab.testbed.simulator.lines import arrives, is_due
from inalab.testbed.simulator.switchml.pool import NO_ONE
from inalab.testbed.simulator.switchml.pool import take_at_switch as take_at_switchml_switch
from inalab.testbed.simulator.timers import STREAM, URGENT, set_timeouts
from inalab.testbed.simulator.worker import arrive, begin, look, ring
from inalab.testbed.simulator.world import (
    AGGREGATOR_FIELDS,
    ATP,
    CELL_FIELDS,
    CHUNK,
    DEADLINE,
    DOWN,
    EVENTS,
    FULL,
    HAPPENED,
    INDEX,
    JOB_FIELDS,
    LINK_FIELDS,
    NEXT,
    PACKET_FIELDS,
    ROW_FIELDS,
    SERVER_FIELDS,
    SIZE,
    SLOT_FIELDS,
    SLOT_TIMES,
    START,
    STATES,
    SUM_FIELDS,
    SWITCHML,
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
MOST_EVENTS, AT_A_TIME = 300_000_000, 1_000_000
PAPER_MARGIN, ASKING_MARGIN = 1.0, 1 / 4  # of round trips: hosts.stream.recovery


@dataclass(frozen=True)
class Link:
    """Seconds that a packet with a vector takes on a link, and one without; and the number from which its losses' seeds follow."""

    vector: float
    header: float = 0.0
    number: int = 0


@dataclass(frozen=True)
class Job:
    """Workers by rank, each with its switch and its link; sums of so many chunks, and seconds before each, by worker and sum.

    With servers, each with its switch and its link, it is ATP's, and its slots are its window; else it is SwitchML's.
    """

    switches: Sequence[int]
    links: Sequence[int]
    above: dict[int, tuple[int, int]]  # by switch that has one: the next one on the way to the root, and the link to it
    chunks: int
    slots: int
    compute: NDArray[np.float64]
    exponents: bool = True
    asks: bool = True
    servers: Sequence[tuple[int, int]] = ()
    aggregators: int = 0  # of each switch, shared by all jobs
    control: str = MARKS  # of its congestion windows


@dataclass(frozen=True)
class Network:
    """Links, a number of switches, and losses in both directions of all links; how many packets a switch's port holds, 0: all.

    `paces` are seconds between two packets that leave the queue before a link, by link and direction, 0: no limit; such a queue
    marks packets that find it `deep`.
    """

    links: Sequence[Link]
    switches: int
    loss: Loss | None = None
    seed: int = 1
    depth: int = 0
    paces: NDArray[np.float64] | None = None
    deep: int = 0


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
    """The jobs, packets that links lost and numbered and that queues dropped, and how many events that took.

    `happened` is what became of ATP's packets, by switch, job and switches.atp.EVENTS.
    """

    jobs: list[Summed]
    lost: int
    numbered: int
    dropped: int
    events: int
    happened: NDArray[np.int64]


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
        raise ValueError(
            f"a simulation of more than {MOST_EVENTS:,} events: choose fewer workers, steps or elements; or less loss, or longer "
            "queues, where hardly anything comes through"
        )
    return Simulated(
        [_summed(world, number, job) for number, job in enumerate(jobs)], int(world.links["lost"].sum()),
        int(world.links["numbered"].sum()), int(world.links["dropped"].sum()), events, world.happened,
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
    sizes, trees = [len(job.switches) for job in jobs], [max(1, len(job.servers)) for job in jobs]
    workers, most, steps = sum(sizes), max(job.slots for job in jobs), max(job.compute.shape[1] for job in jobs)
    servers, paths, pools = sum(len(job.servers) for job in jobs), max(trees), [job for job in jobs if not job.servers]
    nodes, cells = workers + network.switches + servers, 2 * sum(job.slots for job in pools)
    packets = room * nodes * most + 64
    rows, racks, aggregators = 2 * most if servers else 0, BITS if servers else 0, max(job.aggregators for job in jobs)
    inbox = room * most * (max(sizes) if servers else 1)  # of what finds no aggregator, a server gets all workers' packets
    world = World(
        times=np.zeros(packets + 4 * nodes), orders=np.zeros(packets + 4 * nodes, np.int64),
        whats=np.zeros(packets + 4 * nodes, np.int64), state=np.zeros(STATES, np.int64),
        packets=np.zeros(packets, PACKET_FIELDS), links=_links(network), chances=_chances(network.loss),
        costs=np.array([costs.host, costs.batch, costs.switch, costs.delay, float(costs.naps)]),
        jobs=np.zeros(len(jobs), JOB_FIELDS), trees=np.zeros((sum(trees), nodes), TREE_FIELDS),
        children=np.zeros(sum(trees) * nodes, np.int64), switches=np.zeros(network.switches),
        cells=np.zeros((network.switches, cells), CELL_FIELDS), workers=np.zeros(workers, WORKER_FIELDS),
        sums=np.zeros((workers, steps), SUM_FIELDS), inbox=np.zeros((workers + servers, inbox), np.int64),
        slots=np.zeros((workers, SLOT_FIELDS, most), np.int64), slot_times=np.zeros((workers, SLOT_TIMES, most)),
        timers=np.zeros((workers, STREAM + paths), TIMER_FIELDS), recent=np.zeros((workers, STREAM + paths, REMEMBERED)),
        backoffs=np.zeros((workers, paths, MOST_BACKOFF + 1)), urgent_backoffs=np.zeros((workers, URGENT + 1, MOST_BACKOFF + 1)),
        aggregators=np.zeros((network.switches, aggregators), AGGREGATOR_FIELDS),
        happened=np.zeros((network.switches, len(jobs), len(HAPPENINGS)), np.int64),
        servers=np.zeros(servers, SERVER_FIELDS), rows=np.zeros((servers, rows), ROW_FIELDS),
        seen=np.zeros((servers, rows, racks), np.int64), members=np.zeros((servers, racks), np.int64),
        ranks=np.zeros((servers, racks, racks), np.int64), places=np.zeros((servers, 2, most), np.int64),
        held=np.zeros((servers, aggregators), np.int64), nearest=np.arange(nodes), idle_at=np.zeros((servers, 2)),
        goals=np.full((servers, rows), NO_ONE, np.int64), leaves=np.zeros((servers, rows)),
    )  # fmt: skip
    world.packets["kind"] = np.arange(1, packets + 1)
    world.cells["chunk"], world.cells["asker"] = -1, NO_ONE
    world.aggregators["refused_chunk"] = world.aggregators["finished_chunk"] = -1
    world.rows["chunk"] = -1
    world.slots[:, CHUNK], world.slots[:, NEXT] = -1, np.arange(most)
    world.slot_times[:, DEADLINE] = np.inf
    world.workers["timer_at"], world.workers["probing"], world.workers["suspect"] = np.inf, 1, -1
    base = first = tree = served = 0
    for number, job in enumerate(jobs):
        its, own = world.jobs[number], world.workers[first : first + sizes[number]]
        its["scheme"] = ATP if job.servers else SWITCHML
        its["slots"], its["base"], its["sums"] = job.slots, base, job.compute.shape[1]
        its["chunks"] = job.chunks + (1 if job.servers else 0)  # ATP has one more, which announces the sum
        its["exponents"], its["asks"], its["control"] = job.exponents, job.asks, CONTROLS.index(job.control)
        its["aggregators"] = job.aggregators
        its["tree"], its["paths"], its["first"], its["size"] = tree, trees[number], first, sizes[number]
        own["job"], own["margin"], own["window"] = number, ASKING_MARGIN if job.asks else PAPER_MARGIN, job.slots
        for _, link in job.above.values():
            world.links[link, UP]["depth"] = network.depth
        world.nearest[first : first + sizes[number]] = workers + np.array(job.switches)
        if job.servers:
            for s in range(len(job.servers)):
                _serve(world, number, job, s, served + s)
        else:
            its["near"] = _plant(world, tree, _tree_of(job, first, workers)) > 1
        world.sums["compute"][first : first + sizes[number], : job.compute.shape[1]] = job.compute
        for w in range(first, first + sizes[number]):
            for timer in range(STREAM + trees[number]):
                set_timeouts(world, w, timer)
            schedule(world, job.compute[w - first, 0], w * EVENTS + START)
        base, first, tree, served = base + 2 * job.slots, first + sizes[number], tree + trees[number], served + len(job.servers)
    return world


def _links(network: Network) -> Any:
    found = np.zeros((len(network.links), 2), LINK_FIELDS)
    for its, link in zip(found, network.links, strict=True):
        its["vector"], its["header"] = link.vector, link.header
        its[DOWN]["depth"] = network.depth
        its["head"] = -1
        its["seed"] = [link_seed(network.seed, link.number, direction) for direction in range(2)]
    if network.paces is not None:
        found["pace"] = network.paces
        found["deep"] = network.deep
    return found


def _chances(loss: Loss | None) -> NDArray[np.int64]:
    chosen = loss or Loss()
    return np.array([threshold(chance) for chance in (chosen.good, chosen.bad, chosen.enter, chosen.leave)])


Branches = dict[int, tuple[int, int, int]]  # by node: the one above it, the link to that, and the way, UP or DOWN


def _tree_of(job: Job, first: int, workers: int) -> Branches:
    """The tree of a job's switches."""
    found = {first + rank: (workers + switch, job.links[rank], UP) for rank, switch in enumerate(job.switches)}
    return found | {workers + switch: (workers + above, link, UP) for switch, (above, link) in sorted(job.above.items())}


def _towards(job: Job, first: int, workers: int, top: int, server: tuple[int, int]) -> Branches:
    """The tree of a job's switches that leads to one of its servers, which is the node `top`."""
    found, near = _tree_of(job, first, workers), workers + server[0]
    turned, node = {near: (top, server[1], DOWN)}, near
    while node in found:  # what lies between the server's switch and the root is turned round
        above, link, way = found.pop(node)
        turned[above] = node, link, 1 - way
        node = above
    whole, used = found | turned, set()
    for node in range(first, first + len(job.switches)):
        while node != top and node not in used:
            used.add(node)
            node = whole[node][0]
    return {node: branch for node, branch in whole.items() if node in used or node == near}


def _plant(world: World, tree: int, branches: Branches) -> int:
    """Set up a tree; how many levels of switches it has."""
    below: dict[int, list[int]] = {}
    for node, (above, _, _) in branches.items():
        below.setdefault(above, []).append(node)
    its, filled = world.trees[tree], tree * world.trees.shape[1]
    its["above"] = -1
    for node, children in below.items():
        if len(children) > 63:
            raise ValueError(f"{len(children)} nodes below one switch: up to 63 are simulated")
        its[node]["first"], its[node]["count"], its[node]["everyone"] = filled, len(children), (1 << len(children)) - 1
        world.children[filled : filled + len(children)] = children
        filled += len(children)
        for i, child in enumerate(children):
            its[child]["above"], its[child]["link"], its[child]["way"] = branches[child]
            its[child]["child"] = i
    levels, node = 0, int(its[next(iter(branches))]["above"])
    while node >= 0:
        levels, node = levels + 1, int(its[node]["above"])
    return levels


def _serve(world: World, number: int, job: Job, share: int, place: int) -> None:
    """Set up a server of ATP, the job's of number `share`, and its tree; bits are those of hosts.atp.tree."""
    workers, its, me = len(world.workers), world.jobs[number], world.servers[place]
    first, tree = int(its["first"]), int(its["tree"]) + share
    top = workers + len(world.switches) + place
    _plant(world, tree, _towards(job, first, workers, top, job.servers[share]))
    local = job.servers[share][0]
    racks: dict[int, list[int]] = {}
    for rank, switch in enumerate(job.switches):
        racks.setdefault(switch, []).append(rank)
    me["job"], me["tree"], me["local"], me["racks"] = number, tree, local, max([local, *racks]) + 1
    me["before"] = me["before_that"] = NO_ONE
    nodes = world.trees[tree]
    for node in range(workers, top):
        nodes[node]["level"] = TRANSIT
    for rack, ranks in racks.items():
        world.members[place, rack] = (1 << len(ranks)) - 1
        for i, rank in enumerate(ranks):
            world.ranks[place, rack, i] = first + rank
            bit = 1 << (i if rack == local else BITS - 1 - rack)
            nodes[first + rank]["zero"], nodes[first + rank]["one"] = 0 if rack == local else 1 << i, bit
        if rack != local:
            nodes[workers + rack]["level"], nodes[workers + rack]["fan_in"] = 0, len(ranks)
            nodes[workers + rack]["one"] = 1 << (BITS - 1 - rack)
    nodes[workers + local]["level"] = 1
    nodes[workers + local]["fan_in"] = len(racks.get(local, [])) + len(racks.keys() - {local})
    window = job.slots
    index, attempts, held = beginning(number, window, job.aggregators)
    world.places[place, server.AGGREGATOR, :window], world.places[place, server.ATTEMPT, :window] = index, attempts
    world.held[place, : job.aggregators] = held
    world.slots[first : first + len(job.switches), INDEX, :window] = index


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
            if number < workers:
                look(world, number, now)
            else:
                server.look(world, number - workers, now)
        elif kind == TIMER:
            ring(world, number, now)
        elif not is_due(world, number, now):
            state[HAPPENED] -= 1
        elif not arrives(world, number):
            drop(world, number)
        elif world.packets[number].node < workers:
            arrive(world, world.packets[number].node, number, now)
        elif world.packets[number].node >= workers + len(world.switches):
            server.arrive(world, world.packets[number].node - workers - len(world.switches), number, now)
        elif world.jobs[world.packets[number].job].scheme == SWITCHML:
            take_at_switchml_switch(world, now, number)
            drop(world, number)
        else:
            take_at_atp_switch(world, now, number)
    return int(state[HAPPENED])
