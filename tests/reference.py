"""SwitchML's rules in plain Python, independent of the P4 program.

A switch is a dictionary of cells; a packet is a small object. No bytes, no tables: what must come out, and to whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

UPDATE, RESULT, QUERY, STATUS = "update", "result", "query", "status"


@dataclass(frozen=True)
class Message:
    """An update or a query from, or a result or a status for, `worker` of a switch, in a group with this epoch.

    The vector of a bare update or result is its tag alone.
    """

    kind: str
    epoch: int
    worker: int
    version: int
    slot: int
    chunk: int
    exponent: int
    vector: tuple[int, ...] = ()
    again: bool = False  # a query that was sent before, or a result that answers one
    insists: bool = False  # a query that goes up in any case
    seen: frozenset[int] = frozenset()  # of a status: who is in


@dataclass
class Cell:
    """One slot of one version: what its current chunk has gathered."""

    chunk: int = 0
    seen: set[int] = field(default_factory=set)
    total: tuple[int, ...] = ()
    exponent: int = 0
    final: bool = False
    asker: int | None = None


def later(number: int, other: int) -> bool:
    """Whether a 32-bit serial number comes after another (RFC 1982)."""
    return 0 < (number - other) % 2**32 < 2**31


def wrapped(value: int) -> int:
    """A sum in 32-bit two's complement."""
    return (value + 2**31) % 2**32 - 2**31


class ModelSwitch:
    """A switch of `workers` workers; with a parent it passes its sums up and keeps what comes down."""

    def __init__(self, workers: int, has_parent: bool = False) -> None:
        self.workers, self.has_parent = workers, has_parent
        self.epoch: int | None = None  # of the newest group
        self.cells: dict[tuple[int, int], Cell] = {}

    def update(self, m: Message) -> tuple[str, Message] | None:
        """What leaves: ("all", result), ("one", result), ("up", partial sum) or nothing."""
        self._begin(m)
        if m.epoch != self.epoch:
            return None  # delayed beyond its group
        cell = self.cells.setdefault((m.version, m.slot), Cell(m.chunk))
        if later(cell.chunk, m.chunk):
            return None  # delayed beyond its round
        if m.chunk != cell.chunk:
            cell = self.cells[m.version, m.slot] = Cell(m.chunk)
        if cell.seen and len(m.vector) != len(cell.total):
            return None  # a round is bare for all or for none
        complete_before = len(cell.seen) == self.workers
        if m.worker in cell.seen:
            if not complete_before:
                return None
        else:
            first = not cell.seen
            cell.seen.add(m.worker)
            cell.total = m.vector if first else tuple(wrapped(a + b) for a, b in zip(cell.total, m.vector, strict=True))
            cell.exponent = m.exponent if first else max(cell.exponent, m.exponent)
            if len(cell.seen) < self.workers:
                return None
        out = replace(m, kind=RESULT, vector=cell.total, exponent=cell.exponent)
        if self.has_parent and not cell.final:
            return "up", replace(out, kind=UPDATE)
        return ("one" if complete_before else "all"), out

    def _begin(self, m: Message) -> None:
        """A worker's packet begins its group's epoch if that is newer."""
        if self.epoch is None or later(m.epoch, self.epoch):
            self.epoch, self.cells = m.epoch, {}  # nothing of another group is left

    def query(self, m: Message) -> tuple[str, Message] | None:
        """The result, if it is there; else who is in; or the query itself, one worker's a round, if it is the parent that knows more."""
        self._begin(m)
        cell = self._current(m)
        answer = replace(m, again=False, insists=False)
        out = replace(answer, kind=STATUS, epoch=self.epoch or 0, seen=frozenset(cell.seen) if cell else frozenset())
        if cell is None or len(cell.seen) < self.workers:
            return "one", out
        if cell.final or not self.has_parent:
            return "one", replace(answer, kind=RESULT, vector=cell.total, exponent=cell.exponent, again=True)
        if cell.asker is None or m.insists:
            cell.asker = m.worker
        elif m.worker != cell.asker or not m.again:
            return None
        return "up", m

    def status(self, m: Message, has_us: bool) -> tuple[str, Message] | None:
        """An answer from above: for all workers; or the partial sum once more, if it is that which the parent lacks."""
        cell = self._current(m)
        if cell is None or len(cell.seen) < self.workers or cell.final or not self.has_parent:
            return None
        if has_us:
            return "all", m
        return "up", replace(m, kind=UPDATE, vector=cell.total, exponent=cell.exponent, again=True)

    def _current(self, m: Message) -> Cell | None:
        """The cell, if it is at that chunk."""
        cell = self.cells.get((m.version, m.slot))
        return cell if cell and m.epoch == self.epoch and cell.chunk == m.chunk else None

    def result(self, m: Message) -> tuple[str, Message] | None:
        """The parent's result, for all workers the first time it comes."""
        cell = self.cells.get((m.version, m.slot), Cell())
        if m.epoch != self.epoch or m.chunk != cell.chunk or len(cell.seen) < self.workers or cell.final:
            return None
        if len(m.vector) != len(cell.total):
            return None
        cell.final, cell.total, cell.exponent = True, m.vector, m.exponent
        return "all", m
