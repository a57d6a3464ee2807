"""Jobs on a network, packet by packet, and the events that they are.

Workers and servers are the real cores (hosts/), on packets that have headers and no vectors; switches are models (pool.c,
queue_pairs.c, aggregators.c), which tests hold to the models that the P4 programs are held to. Links send one packet after another
at their rates, and lose some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import worker as atp
from inalab.hosts.atp.congestion import CONTROLS, MARKS
from inalab.hosts.cores import values
from inalab.hosts.switchml import worker as switchml
from inalab.switches.atp import EVENTS as HAPPENINGS
from inalab.switches.loss import Loss, link_seed, threshold
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.steps import Steps

IDEAL = Costs()
MOST_EVENTS, AT_A_TIME = 300_000_000, 1_000_000
BITS = 32  # of a bitmap: nodes below a switch
UP, DOWN = range(2)  # ways of a link
REMOTE, LOCAL = range(2)  # of a switch of ATP: enum atp_level
EPOCH = 1  # of every group: there is one in a trial


@dataclass(frozen=True)
class Link:
    """Seconds that a packet with a vector takes on a link, one without, and a byte; and the number from which its losses' seeds
    follow."""

    vector: float
    header: float = 0.0
    number: int = 0
    octet: float = 0.0


@dataclass(frozen=True)
class Job:
    """Workers by rank, each with its switch and its link; so many chunks of each layer, front first; and what workers compute.

    With servers, each with its switch and its link, it is ATP's, and its slots are its window; else it is SwitchML's. Over RoCE its
    chunks are messages, whose packets have a slot each.
    """

    switches: Sequence[int]
    links: Sequence[int]
    above: dict[int, tuple[int, int]]  # by switch that has one: the next one on the way to the root, and the link to it
    chunks: Sequence[int]
    slots: int
    steps: Steps
    exponents: bool = True
    asks: bool = True
    servers: Sequence[tuple[int, int]] = ()
    aggregators: int = 0  # of each switch, shared by all jobs
    control: str = MARKS  # of its congestion windows
    message: int = 0  # packets of a chunk, over RoCE; 0: it is one over UDP


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
    """What became of a job, by worker and sum (testbed.simulator.steps): seconds, and counts of its packets up to the sum's end."""

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


COUNTERS = ("sent", "results", "duplicates", "timeouts", "retransmissions", "queries", "handled")


def simulate(network: Network, jobs: Sequence[Job], costs: Costs = IDEAL) -> Simulated:
    """Let all jobs sum until they are done. Raises ValueError for what cannot be."""
    world = build(network, jobs, costs)
    events, workers = 0, [(job, rank) for job in jobs for rank in range(len(job.switches))]
    for worker, (job, rank) in enumerate(workers):
        _come(world, worker, job.steps.begin(rank))
    while world.events.count and events < MOST_EVENTS:
        events = SIMULATOR.c.world_run(world, events + AT_A_TIME)  # in between, Python takes signals
        if (worker := world.stepped) >= 0:
            world.stepped = -1
            job, rank = workers[worker]
            steps = job.steps
            steps.ended[rank] = _spans(world)["ended"][worker, : steps.sums]
            _come(world, worker, steps.begin(rank))
    if events >= MOST_EVENTS:
        raise ValueError(
            f"a simulation of more than {MOST_EVENTS:,} events: choose fewer workers, steps or elements; or less loss, or longer "
            "queues, where hardly anything comes through"
        )
    lines = values(world.lines, 2 * world.links)
    happened = values(world.happened, world.switches * len(jobs) * len(HAPPENINGS)).reshape(-1, len(jobs), len(HAPPENINGS))
    return Simulated(
        [_summed(world, number, job) for number, job in enumerate(jobs)], int(lines["lost"].sum()), int(lines["numbered"].sum()),
        int(lines["dropped"].sum()), events, happened.copy(),
    )  # fmt: skip


def _come(world: Any, worker: int, times: Sequence[float]) -> None:
    """Have a worker come to its next sums."""
    for when in times:
        SIMULATOR.c.world_come(world, worker, when)


def _summed(world: Any, number: int, job: Job) -> Summed:
    first, size = world.jobs[number].first, world.jobs[number].size
    its = _spans(world)[first : first + size, : job.steps.sums]
    hosts = [world.hosts[worker] for worker in range(first, first + size)]
    streams = [host.atp.stream if job.servers else host.switchml.stream for host in hosts]
    counted = {name: np.array([getattr(stream.counters, name) for stream in streams]) for name in COUNTERS}
    found = {name: its[name].copy() for name in ("begun", "ended", "waited", "results", "retransmissions")}
    return Summed(**found, counters=counted)


def _spans(world: Any) -> NDArray[Any]:
    """By worker and sum."""
    return values(world.spans, world.workers * world.sums_count).reshape(world.workers, -1)


def build(network: Network, jobs: Sequence[Job], costs: Costs) -> Any:
    """The network before its first event: a World of world.h."""
    sizes, trees = [len(job.switches) for job in jobs], [max(1, len(job.servers)) for job in jobs]
    servers = [len(job.servers) for job in jobs]
    make, ffi = SIMULATOR.c, SIMULATOR.ffi
    shape = sum(sizes), network.switches, sum(servers), len(network.links), len(jobs), sum(trees)
    world = ffi.gc(make.world_new(*shape), make.world_free)
    cells = [0 if job.servers else 2 * job.slots for job in jobs]
    pairs = sum(cells) // 2 if any(job.message for job in jobs) else 0
    layers = [job.steps.layers for job in jobs]
    sums, aggregators = max(job.steps.sums for job in jobs), max(job.aggregators for job in jobs)
    make.world_room(world, sum(cells), pairs, aggregators, sums, sum(layers))
    world.costs.host, world.costs.batch, world.costs.switch_ = costs.host, costs.batch, costs.switch
    world.costs.delay, world.costs.naps = costs.delay, costs.naps
    chosen = network.loss or Loss()
    for name in ("good", "bad", "enter", "leave"):
        setattr(world, name, threshold(getattr(chosen, name)))
    _set_lines(world, network)
    chunks = [n + (1 if job.servers else 0) for job in jobs for n in reversed(job.chunks)]  # ATP's first one announces the sum
    values(world.chunks, len(chunks))[:] = chunks
    for number, job in enumerate(jobs):
        its, first = world.jobs[number], sum(sizes[:number])
        its.atp, its.slots, its.base = bool(job.servers), job.slots, sum(cells[:number])
        its.first_layer, its.layers = sum(layers[:number]), layers[number]
        its.tree, its.first, its.size = sum(trees[:number]), first, sizes[number]
        its.message = job.message
        its.first_server, its.servers = sum(servers[:number]), servers[number]
        for _, link in job.above.values():
            world.lines[2 * link + UP].depth = network.depth
        if not job.servers:
            _plant(world, its.tree, _tree_of(job, first, world.workers))
        for share in range(len(job.servers)):
            _serve(world, number, job, share)
        how = (atp if job.servers else switchml).HOW["ask" if job.asks else "paper"]
        for worker in range(first, first + sizes[number]):
            make.world_worker(world, worker, number, how, CONTROLS.index(job.control), job.exponents)
    return world


def _set_lines(world: Any, network: Network) -> None:
    lines = values(world.lines, 2 * world.links).reshape(-1, 2)
    for its, link in zip(lines, network.links, strict=True):
        its["vector"], its["header"], its["octet"] = link.vector, link.header, link.octet
        its["depth"][DOWN] = network.depth
        its["seed"] = [link_seed(network.seed, link.number, direction) for direction in range(2)]
    if network.paces is not None:
        lines["pace"], lines["deep"] = network.paces, network.deep


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


def _plant(world: Any, tree: int, branches: Branches) -> None:
    """Set up a tree."""
    below: dict[int, list[int]] = {}
    for node, (above, _, _) in branches.items():
        below.setdefault(above, []).append(node)
    nodes = world.workers + world.switches + world.servers
    its, filled = values(world.branches, world.trees_count * nodes).reshape(-1, nodes)[tree], tree * nodes
    children = values(world.children, world.trees_count * nodes)
    for node, found in below.items():
        if len(found) > BITS:
            raise ValueError(f"{len(found)} nodes below one switch: a bitmap has {BITS} bits")
        its[node]["first"], its[node]["count"], its[node]["everyone"] = filled, len(found), (1 << len(found)) - 1
        children[filled : filled + len(found)] = found
        filled += len(found)
        for i, child in enumerate(found):
            its[child]["above"], its[child]["link"], its[child]["way"] = branches[child]
            its[child]["child"] = i


def _serve(world: Any, number: int, job: Job, share: int) -> None:
    """Set up a server of ATP, the job's of number `share`, and its tree; bits are those of hosts.atp.tree."""
    its, workers, make = world.jobs[number], world.workers, SIMULATOR.c
    place, tree = its.first_server + share, its.tree + share
    local, link = job.servers[share]
    _plant(world, tree, _towards(job, its.first, workers, workers + world.switches + place, job.servers[share]))
    make.world_server(world, place, number, local)
    server = world.hosts[workers + place].server
    server.result_seconds, server.status_seconds = world.lines[2 * link + UP].vector, world.lines[2 * link + UP].header
    racks: dict[int, list[int]] = {}
    for rank, switch in enumerate(job.switches):
        racks.setdefault(switch, []).append(rank)
    nodes = workers + world.switches + world.servers
    switches = values(world.branches, world.trees_count * nodes).reshape(-1, nodes)[tree, workers : workers + world.switches]
    for rack, ranks in racks.items():
        bit = BITS - 1 - rack
        if rack != local and bit < len(racks.get(local, [])):
            raise ValueError(f"{len(racks[local])} workers beside the server and racks up to {rack} do not fit into {BITS} bits")
        for i, rank in enumerate(ranks):
            its_member = server.merger.members[rank]
            its_member.rack, its_member.number, its_member.local = rack, i, rack == local
            its_member.bit1 = i if rack == local else bit
        if rack != local:
            switches[rack]["level"], switches[rack]["fan_in"] = REMOTE, len(ranks)
            switches[rack]["one"] = int.from_bytes((1 << bit).to_bytes(4, "big"), "little")  # as it is on the wire
    switches[local]["level"] = LOCAL
    switches[local]["fan_in"] = len(racks.get(local, [])) + len(racks.keys() - {local})
    make.merger_join(server.merger, number, EPOCH, share, len(job.servers))
