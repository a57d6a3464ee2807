"""Who is in which machine, what a strategy says, and the schedule that follows: stages by which blocks go, one behind another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np

from inalab.hosts.tcp.schedules import Move, Nodes, Schedule, blocks

PIECES = 8  # of a tensor: the more, the sooner all stages are busy at once; each costs a step's latency
MOST_SHARDS = 256
Stage = list[Move]


@dataclass(frozen=True)
class Machine:
    """GPUs by rank, by the PCIe switch that they are at; host memory, which is a server; the NIC's switch, if it is at one."""

    switches: dict[int, list[int]]
    memory: int
    nic: int | None = None

    @property
    def groups(self) -> list[list[int]]:
        return list(self.switches.values())

    @property
    def gpus(self) -> list[int]:
        return [gpu for group in self.groups for gpu in group]


class Strategy(Protocol):
    """What happens inside a machine. A file of one's own defines one as STRATEGY."""

    def shards(self, machine: Machine) -> int:
        """Into how many parts, which different GPUs care for, a tensor is cut."""
        ...

    def gather(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        """How the machine's sum of a block comes into its memory."""
        ...

    def spread(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        """How the block comes from there to all GPUs."""
        ...


Between = Callable[[Sequence[int], int, int], list[Stage]]


def services(memories: Sequence[int], owner: int, block: int) -> list[Stage]:
    """Between machines: all push a block to the Summation Service of its owner, and pull the sum."""
    others = [memory for memory in memories if memory != memories[owner]]
    pushes = [Move(memory, memories[owner], block, True) for memory in others]
    return [pushes, [Move(memories[owner], memory, block, False) for memory in others]]


def one_server(memories: Sequence[int], owner: int, block: int) -> list[Stage]:
    """Between machines: a parameter server in the first one's memory."""
    return services(memories, 0, block)


def around(nodes: Sequence[int], owner: int, block: int) -> list[Stage]:
    """Between machines, or GPUs: a ring's way of a block, from the one behind its owner round to the owner, and round once more."""
    n = len(nodes)
    ways = [(nodes[(owner + 1 + i) % n], nodes[(owner + 2 + i) % n]) for i in range(2 * n - 2)]
    return [[Move(source, destination, block, i < n - 1)] for i, (source, destination) in enumerate(ways)]


BETWEEN: dict[str, Between] = {"services": services, "ring": around, "server": one_server}


def machines(nodes: Nodes) -> list[Machine]:
    """Of a job whose racks are machines. Raises ValueError where not each has GPUs and a server."""
    found = []
    for number in sorted(set(nodes.racks)):
        gpus = [rank for rank in range(nodes.workers) if nodes.racks[rank] == number]
        memories = [nodes.workers + s for s in range(nodes.servers) if nodes.racks[nodes.workers + s] == number]
        if not gpus or len(memories) != 1:
            raise ValueError(f"machine {number} has {len(gpus)} GPUs and {len(memories)} servers: it needs GPUs, and one server")
        switches = {switch: [gpu for gpu in gpus if nodes.groups[gpu] == switch] for switch in sorted(set(nodes.groups))}
        found.append(Machine({switch: its for switch, its in switches.items() if its}, memories[0], nodes.nic))
    return found


def checked(nodes: Nodes, strategy: Strategy, between: Between | None) -> Schedule:
    """The schedule. Raises ValueError where the strategy cannot be followed, or does not give all GPUs the sum of all."""
    try:
        whole = schedule(nodes, strategy, between)
        by_network = summed(nodes, strategy) if between is None else {}
        lacking = unserved(whole, nodes.workers, nodes.servers, by_network)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"the strategy cannot be followed: {type(error).__name__}: {error}") from None
    silent = {machine.memory for machine in machines(nodes)}
    silent -= {m.destination for step in whole for m in step if m.source < nodes.workers}
    if silent:
        raise ValueError(
            f"the strategy has no GPU give server {min(silent) - nodes.workers} anything, which then cannot know of a sum"
        )
    if lacking:
        raise ValueError(f"the strategy does not give GPU {lacking[0]} the sum of all: {len(lacking)} of {nodes.workers} lack it")
    return whole


def unserved(whole: Schedule, workers: int, servers: int, by_network: Mapping[int, range] | None = None) -> list[int]:
    """The workers that do not end with every worker's part of every block once: each gives a number of its own, drawn from many.

    `by_network` are blocks that the network sums over all servers, by the step.
    """
    own = np.random.default_rng(1).integers(1, 1 << 40, workers)
    held = np.repeat(np.append(own, np.zeros(servers, np.int64))[:, None], blocks(whole), axis=1)
    for number, step in enumerate(whole):
        blocks_summed = (by_network or {}).get(number, range(0))
        sums = held[workers:, blocks_summed].sum(0)
        for m in step:
            if m.block in blocks_summed and max(m.source, m.destination) >= workers:
                raise ValueError(f"the strategy has a move of what the network sums meanwhile: {m}")
            if not (0 <= m.source < len(held) and 0 <= m.destination < len(held) and m.block >= 0 and m.source != m.destination):
                raise ValueError(f"the strategy has a move that cannot be: {m}")
        came = [held[m.source, m.block] for m in step]
        for replaces in (True, False):
            for m, value in zip(step, came, strict=True):
                if m.add != replaces:
                    held[m.destination, m.block] = value + (0 if replaces else held[m.destination, m.block])
        held[workers:, blocks_summed] = sums
    return [worker for worker in range(workers) if not (held[worker] == own.sum()).all()]


def schedule(nodes: Nodes, strategy: Strategy, between: Between | None) -> Schedule:
    """Each block goes through all stages, a step each. Blocks of a piece go together: one for each service and shard, so that all
    links are busy. A piece goes behind another. Without `between` the network sums, as `summed` says."""
    all_machines, count = _alike(nodes, strategy)
    n, memories = len(all_machines), [machine.memory for machine in all_machines]
    owners, depth = (1, _depth(all_machines, strategy, count)) if between is None else (n, 0)
    steps: Schedule = []
    for piece, owner in product(range(PIECES), range(owners)):
        for shard in range(count):
            block = (piece * owners + owner) * count + shard
            stages = _together([strategy.gather(machine, block, shard) for machine in all_machines])
            if between is None:
                stages += [[] for _ in range(depth + 1 - len(stages))]
            elif n > 1:
                stages += between(memories, owner, block)
            stages += _together([strategy.spread(machine, block, shard) for machine in all_machines])
            steps += [[] for _ in range(piece + len(stages) - len(steps))]
            for step, stage in enumerate(stages, start=piece):
                steps[step] += stage
    return steps


def summed(nodes: Nodes, strategy: Strategy) -> dict[int, range]:
    """The blocks that the network sums over all machines' memories, by the step: a piece's as soon as all of it is there."""
    all_machines, count = _alike(nodes, strategy)
    depth = _depth(all_machines, strategy, count)
    return {depth + piece: range(piece * count, (piece + 1) * count) for piece in range(PIECES)}


def _alike(nodes: Nodes, strategy: Strategy) -> tuple[list[Machine], int]:
    """The machines, and into how many shards all of them cut a tensor. Raises ValueError."""
    all_machines = machines(nodes)
    shards = {strategy.shards(machine) for machine in all_machines}
    if len(shards) != 1:
        raise ValueError("the machines are not alike: give all of them the same number of GPUs")
    count = shards.pop()
    if not (isinstance(count, int) and 1 <= count <= MOST_SHARDS):
        raise ValueError(f"the strategy cuts a tensor into {count!r} shards: from 1 to {MOST_SHARDS} are possible")
    return all_machines, count


def _depth(all_machines: list[Machine], strategy: Strategy, count: int) -> int:
    """Steps after which all of a piece is in the machines' memories."""
    return max(len(strategy.gather(machine, shard, shard)) for machine in all_machines for shard in range(count))


def _together(of_machines: list[list[Stage]]) -> list[Stage]:
    """The stages of all machines at once."""
    if len({len(stages) for stages in of_machines}) != 1:
        raise ValueError("the strategy has more stages for some machines or shards than for others")
    return [[move for stage in stages for move in stage] for stages in zip(*of_machines, strict=True)]
