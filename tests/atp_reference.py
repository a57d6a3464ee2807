"""ATP's rules for a switch in plain Python, independent of the P4 program.

An aggregator is an object in a dictionary; a gradient is a small object. No bytes, no tables: what must come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.reference import later, wrapped

Vector = tuple[int, ...]
SMALLEST, LARGEST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Gradient:
    """What goes up: a worker's packet, a sum, or a part of a rack's sum.

    `workers` are those of one rack that are in, empty where a rack is complete; `children` are the racks, and the workers
    of the server's own rack. The owner is a job and a sequence number. A bare one has an exponent, and its vector is a tag.
    """

    epoch: int
    owner: tuple[int, int]
    index: int
    workers: frozenset[int]
    children: frozenset[int]
    vector: Vector
    resend: bool = False
    collision: bool = False
    overflow: bool = False
    ecn: bool = False
    asked: bool = False
    exponent: int | None = None


@dataclass(frozen=True)
class Query:
    """What has become of a chunk, for these workers and children? `asked` is not the first about it."""

    epoch: int
    owner: tuple[int, int]
    index: int
    workers: frozenset[int]
    children: frozenset[int]
    asked: bool = False
    raw: bool = False


@dataclass(frozen=True)
class Status:
    """What a switch or a server has of a chunk; `asked` is a switch's."""

    epoch: int
    owner: tuple[int, int]
    index: int
    workers: frozenset[int]
    children: frozenset[int]
    asked: bool = True
    raw: bool = False
    ecn: bool = False
    resend: bool = True


@dataclass
class Aggregator:
    """Who holds it, what is in, and the sum so far; and whether a query about it waits for its answer.

    `again` tells that some of it was sent again for an answer.
    """

    epoch: int
    owner: tuple[int, int]
    seen: frozenset[int]
    total: Vector
    overflow: bool
    ecn: bool
    again: bool
    touched: float
    exponent: int | None
    asked: bool = False

    def add(self, g: Gradient, who: frozenset[int]) -> None:
        exact = [a + b for a, b in zip(self.total, g.vector, strict=True)]
        if g.exponent is None or self.exponent is None:
            self.total = tuple(min(max(v, SMALLEST), LARGEST) for v in exact)
            self.overflow |= g.overflow or list(self.total) != exact
        else:
            self.total, self.exponent = tuple(map(wrapped, exact)), max(self.exponent, g.exponent)
        self.seen |= who
        self.ecn |= g.ecn
        self.again |= g.asked


class ModelAtpSwitch:
    """A switch of level 0 (the remote rack with number `rack`) or 1 (the server's rack) with so many children to wait for.

    It is `now` so late, in seconds; after `lifetime` others do not respect an aggregator that nobody has touched.
    """

    def __init__(self, level: int, fan_in: int, rack: int = 0, lifetime: float = float("inf")) -> None:
        self.level, self.fan_in, self.rack, self.lifetime, self.now = level, fan_in, rack, lifetime, 0.0
        self.table: dict[int, Aggregator] = {}
        self.refused: dict[int, tuple[int, int, int]] = {}  # by index: the last (epoch, *owner) that found it taken
        self.finished: dict[int, tuple[int, int, int]] = {}  # by index: the last (epoch, *owner) whose result has passed
        self.epochs: dict[int, int] = {}  # by job: of the newest group
        self.closed: dict[int, int] = {}  # by job: the epoch of the group that is over

    def gradient(self, g: Gradient) -> Gradient | None:
        """What goes on to the server, if anything does."""
        job = g.owner[0]
        if not self._current(job, g.epoch):
            return None  # delayed beyond its group
        if self.level == 1 and g.workers:
            if g.collision:
                self.refused[g.index] = (g.epoch, *g.owner)  # its rack will never be complete here
            return g  # a part of a rack can be added at the server alone
        who = g.workers if self.level == 0 else g.children
        held = self._held(g.index, job, g.epoch)
        if held is None or held.owner != g.owner:
            return self._of_another(g, who, held)
        if (held.exponent is None) != (g.exponent is None):
            if g.collision:
                self.refused[g.index] = (g.epoch, *g.owner)
            return self._on(g, who)  # of another shape: the server is to find out
        stays = not g.resend or g.asked
        if stays and who <= held.seen:
            return None
        if not who <= held.seen:
            held.add(g, who)
            held.touched = self.now
            if stays and len(held.seen) < self.fan_in:
                return None
        total = replace(g, vector=held.total, exponent=held.exponent, overflow=held.overflow, ecn=held.ecn or g.ecn)
        if not stays:
            del self.table[g.index]
            return self._on(total, held.seen)
        return self._on(replace(total, resend=False, asked=held.again), held.seen)  # a whole sum may claim further up

    def _of_another(self, g: Gradient, who: frozenset[int], held: Aggregator | None) -> Gradient | None:
        """A gradient whose chunk its aggregator does not hold."""
        job = g.owner[0]
        if g.resend:
            return self._on(g, who)
        if held is not None and self.now - held.touched <= self.lifetime:
            return self._collided(g, who)
        if len(who) == self.fan_in or self.closed.get(job) == g.epoch:
            return self._on(g, who)
        if (g.epoch, *g.owner) in (self.refused.get(g.index), self.finished.get(g.index)):
            return self._collided(g, who)  # others of this chunk are at the server already, or all are
        self.table[g.index] = Aggregator(g.epoch, g.owner, who, g.vector, g.overflow, g.ecn, g.asked, self.now, g.exponent)
        return None

    def _current(self, job: int, epoch: int) -> bool:
        """Whether a worker's packet is of its job's newest group."""
        if job not in self.epochs or later(epoch, self.epochs[job]):
            self.epochs[job] = epoch
        return epoch == self.epochs[job]

    def _held(self, index: int, job: int, epoch: int) -> Aggregator | None:
        held = self.table.get(index)
        if held is not None and held.owner[0] == job and held.epoch != epoch:
            return None  # an earlier group of the job has left it behind
        return held

    def query(self, q: Query) -> Query | Status | None:
        """What goes on, or comes back as an answer."""
        if not self._current(q.owner[0], q.epoch):
            return None
        held = self._held(q.index, q.owner[0], q.epoch)
        who = q.workers if self.level == 0 else q.children
        if q.raw or (self.level == 1 and q.workers) or held is None or held.owner != q.owner:
            return replace(q, workers=frozenset()) if self.level == 0 and self.fan_in == 1 else q
        if not who <= held.seen or len(held.seen) < self.fan_in or (held.asked and not q.asked):
            workers, children = (held.seen, q.children) if self.level == 0 else (q.workers, held.seen)
            return Status(q.epoch, q.owner, q.index, workers, children)
        held.asked = True
        return replace(q, workers=frozenset()) if self.level == 0 else replace(q, children=held.seen)

    def status(self, s: Status) -> Status | Gradient | None:
        """What passes on to the worker, or what goes back to where the status comes from."""
        if self.epochs.get(s.owner[0]) != s.epoch:
            return None
        held = self._held(s.index, s.owner[0], s.epoch)
        if held is None or held.owner != s.owner:
            return s
        held.asked = False
        there = bool(s.children) if self.level == 1 else self.rack in s.children
        complete = len(held.seen) == self.fan_in
        lost_above = complete and not there
        if s.raw or not (lost_above or (there and not s.asked)):
            return s
        if not lost_above:
            del self.table[s.index]  # the server has a part: what is missing here will not come, or the whole is of no use
            if complete:
                return s
        workers, children = frozenset[int](), held.seen
        if self.level == 0:
            workers, children = frozenset() if complete else held.seen, frozenset({self.rack})
        ecn = held.ecn or s.ecn
        its = held.overflow, ecn, True, held.exponent
        return Gradient(s.epoch, s.owner, s.index, workers, children, held.total, s.resend, False, *its)

    def _collided(self, g: Gradient, who: frozenset[int]) -> Gradient:
        self.refused[g.index] = (g.epoch, *g.owner)
        return self._on(replace(g, collision=True), who)

    def _on(self, g: Gradient, seen: frozenset[int]) -> Gradient:
        if self.level == 1:
            return replace(g, children=seen)
        return replace(g, workers=frozenset() if len(seen) == self.fan_in else seen)

    def result(self, epoch: int, owner: tuple[int, int], index: int) -> bool:
        """The server's answer comes; whether it passes."""
        if self.epochs.get(owner[0]) != epoch:
            return False
        self.finished[index] = (epoch, *owner)
        held = self.table.get(index)
        if held is not None and (held.epoch, held.owner) == (epoch, owner):
            del self.table[index]
        return True

    def release(self, epoch: int, job: int, index: int) -> None:
        """A group of the job is over, and lets this aggregator go, if it or an earlier one holds it."""
        if self.epochs.get(job) == epoch:
            self.closed[job] = epoch
        held = self.table.get(index)
        if held is not None and held.owner[0] == job and not later(held.epoch, epoch):
            del self.table[index]
