"""All-reduce without switches, as schedules: which block of the tensor goes from whom to whom, in which step.

A tensor is cut into equal blocks. The moves of a step go at once; a step begins for a node when all moves to it in the step
before have come. Of all moves to a node in one step that add to a block, the one from the lowest rank is added first, so the
sum has the same bits on every worker and in every run. Nodes are the n workers, and after them the dedicated servers, which
begin with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PIECES = 16  # that a server's share is cut into, so that sums go down while the next piece comes up


@dataclass(frozen=True)
class Move:
    """A block on its way: on arrival it is added to the receiver's, or replaces it."""

    source: int
    destination: int
    block: int
    add: bool


Schedule = list[list[Move]]


@dataclass(frozen=True)
class Nodes:
    """Who takes part: workers, then dedicated servers. Rates are in Mbit/s, of each one's link; 0 means no limit.

    Where racks are machines, `groups` are the PCIe switches that workers are at, and `nic` is that of the network interface, if it
    is at one. `settings` are the scheme's.
    """

    workers: int
    servers: int
    rates: Sequence[float]
    racks: Sequence[int]
    groups: Sequence[int] = ()
    nic: int | None = None
    settings: Any = None


def ring(n: int) -> Schedule:
    """Each worker sends to the next: n - 1 steps that add, then n - 1 that pass the sums on. 2(n-1)/n of the tensor a worker."""
    reduce = [[Move(w, (w + 1) % n, (w - step) % n, True) for w in range(n)] for step in range(n - 1)]
    gather = [[Move(w, (w + 1) % n, (w + 1 - step) % n, False) for w in range(n)] for step in range(n - 1)]
    return reduce + gather


def halving_doubling(n: int) -> Schedule:
    """Pairs at halving distances exchange halves of what they hold, then the way back; n is a power of two.

    Raises ValueError for another n. (Thakur, Rabenseifner and Gropp, 2005: recursive halving and doubling.)
    """
    if n & (n - 1):
        raise ValueError(f"halving-doubling needs a power of two of workers, not {n}")
    reduce = []
    distance = n // 2
    while distance:
        # a worker keeps the blocks whose bit at `distance` and above are its own rank's
        held = [[b for b in range(n) if b // (2 * distance) == w // (2 * distance)] for w in range(n)]
        reduce.append(
            [Move(w, w ^ distance, b, True) for w in range(n) for b in held[w] if b & distance == (w ^ distance) & distance]
        )
        distance //= 2
    return reduce + [[_back(m) for m in step] for step in reversed(reduce)]


def sharded_server(n: int) -> Schedule:
    """A parameter server on every worker: all sends block w to worker w, which sends the sum back to all."""
    push = [Move(w, server, server, True) for server in range(n) for w in range(n) if w != server]
    return [push, [_back(m) for m in push]]


def dedicated_servers(n: int, servers: int) -> Schedule:
    """Parameter servers on hosts of their own, each with an equal share, pipelined: n/k of the tensor over a server's link.

    In each step a piece of every share comes up, and the sum of the piece before goes down.
    """
    pushes = [[Move(w, n + s, s * PIECES + piece, True) for s in range(servers) for w in range(n)] for piece in range(PIECES)]
    pulls = [[_back(m) for m in step] for step in pushes]
    return [up + down for up, down in zip([*pushes, []], [[], *pulls], strict=True)]


def _back(move: Move) -> Move:
    return Move(move.destination, move.source, move.block, False)


def blocks(schedule: Schedule) -> int:
    """How many blocks a schedule cuts a tensor into."""
    return 1 + max((move.block for step in schedule for move in step), default=0)
