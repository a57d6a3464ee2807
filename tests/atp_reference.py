"""ATP's rules for a switch in plain Python, written from PAPERS.md section 2 and independent of the P4 program.

An aggregator is an object in a dictionary; a gradient is a small object. No bytes, no tables: what must come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Vector = tuple[int, ...]
SMALLEST, LARGEST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Gradient:
    """What goes up: a worker's packet, a sum, or a part of a rack's sum.

    `workers` are those of one rack that are in, empty where a rack is complete; `children` are the racks, and the workers
    of the server's own rack.
    """

    owner: tuple[int, int]
    index: int
    workers: frozenset[int]
    children: frozenset[int]
    vector: Vector
    resend: bool = False
    collision: bool = False
    overflow: bool = False
    ecn: bool = False


@dataclass
class Aggregator:
    """Who holds it, what is in, and the sum so far."""

    owner: tuple[int, int]
    seen: frozenset[int]
    total: Vector
    overflow: bool
    ecn: bool

    def add(self, g: Gradient, who: frozenset[int]) -> None:
        exact = [a + b for a, b in zip(self.total, g.vector, strict=True)]
        self.total = tuple(min(max(v, SMALLEST), LARGEST) for v in exact)
        self.overflow |= g.overflow or list(self.total) != exact
        self.seen |= who
        self.ecn |= g.ecn


class ModelAtpSwitch:
    """A switch of level 0 (a remote rack) or 1 (the server's rack) with so many children to wait for."""

    def __init__(self, level: int, fan_in: int) -> None:
        self.level, self.fan_in = level, fan_in
        self.table: dict[int, Aggregator] = {}
        self.refused: dict[int, tuple[int, int]] = {}  # by index: whose packet has last found it taken
        self.closed: set[int] = set()

    def gradient(self, g: Gradient) -> Gradient | None:
        """What goes on to the server, if anything does."""
        if self.level == 1 and g.workers:
            if g.collision:
                self.refused[g.index] = g.owner  # its rack will never be complete here
            return g  # a part of a rack can be added at the server alone
        who = g.workers if self.level == 0 else g.children
        held = self.table.get(g.index)
        mine = held is not None and held.owner == g.owner
        if held is None or not mine:
            if g.resend:
                return self._on(g, who)
            if held is not None:
                return self._collided(g, who)
            if len(who) == self.fan_in or g.owner[0] in self.closed:
                return self._on(g, who)
            if self.refused.get(g.index) == g.owner:
                return self._collided(g, who)  # others of this chunk are at the server already
            self.table[g.index] = Aggregator(g.owner, who, g.vector, g.overflow, g.ecn)
            return None
        if not g.resend and who <= held.seen:
            return None
        if not who <= held.seen:
            held.add(g, who)
            if not g.resend and len(held.seen) < self.fan_in:
                return None
        if g.resend:
            del self.table[g.index]
        return self._on(replace(g, vector=held.total, overflow=held.overflow, ecn=held.ecn or g.ecn), held.seen)

    def _collided(self, g: Gradient, who: frozenset[int]) -> Gradient:
        self.refused[g.index] = g.owner
        return self._on(replace(g, collision=True), who)

    def _on(self, g: Gradient, seen: frozenset[int]) -> Gradient:
        if self.level == 1:
            return replace(g, children=seen)
        return replace(g, workers=frozenset() if len(seen) == self.fan_in else seen)

    def result(self, owner: tuple[int, int], index: int) -> None:
        """The server's answer passes."""
        if index in self.table and self.table[index].owner == owner:
            del self.table[index]

    def release(self, job: int, index: int) -> None:
        """The job is over, and lets this aggregator go."""
        self.closed.add(job)
        if index in self.table and self.table[index].owner[0] == job:
            del self.table[index]
