"""SwitchML's rules in plain Python, independent of the P4 program.

A switch is a dictionary of cells; a packet is a small object. No bytes, no tables: what must come out, and to whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

UPDATE, RESULT, QUERY, STATUS = "update", "result", "query", "status"


@dataclass(frozen=True)
class Part:
    """The worker, by its rank in the job, that gets the sum of a chunk, or else gives the vector that all others get."""

    to_owner: bool
    owner: int


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
    part: Part | None = None  # of a chunk that has an owner


@dataclass(frozen=True)
class Tree:
    """The tree in which a chunk is summed, at a switch: the links to those below, and that to the one above (None at the root); and the
    link of the chunk's owner at the root, which is its switch."""

    below: frozenset[int]
    above: int | None
    owner: int | None = None


@dataclass
class Cell:
    """One slot of one version: what its current chunk has gathered."""

    chunk: int = 0
    seen: set[int] = field(default_factory=set)
    total: tuple[int, ...] = ()
    exponent: int = 0
    final: bool = False
    asker: int | None = None
    part: Part | None = None


def later(number: int, other: int) -> bool:
    """Whether a 32-bit serial number comes after another (RFC 1982)."""
    return 0 < (number - other) % 2**32 < 2**31


def wrapped(value: int) -> int:
    """A sum in 32-bit two's complement."""
    return (value + 2**31) % 2**32 - 2**31


PARENT = 31  # the link to a switch's parent, beside those to its workers


class ModelSwitch:
    """A switch of `workers` workers; with a parent it passes its sums up and keeps what comes down.

    `owners` are the ranks of owners below it, each with the worker that it is here, or whose rack it is in. Which of the workers are
    racks' switches, `switches` says.
    """

    def __init__(
        self, workers: int, has_parent: bool = False, owners: dict[int, int] | None = None, switches: frozenset[int] = frozenset()
    ) -> None:
        self.workers, self.has_parent, self.owners, self.switches = workers, has_parent, owners or {}, switches
        self.epoch: int | None = None  # of the newest group
        self.cells: dict[tuple[int, int], Cell] = {}

    def update(self, m: Message) -> tuple[str, Message] | None:
        """What leaves: ("all", result), ("one", result), ("up", partial sum) or nothing."""
        self._begin(m)
        if m.epoch != self.epoch:
            return None  # delayed beyond its group
        tree = self.tree(m.part)
        if tree is None or m.worker not in tree.below:
            return None  # nobody's, or from above
        if m.part and (len(m.vector) > 1) != self._whole(m.part, UPDATE, m.worker):
            return None  # of another shape than its owner's, or the others', have
        cell = self.cells.setdefault((m.version, m.slot), Cell(m.chunk, part=m.part))
        if later(cell.chunk, m.chunk):
            return None  # delayed beyond its round
        if m.chunk != cell.chunk:
            cell = self.cells[m.version, m.slot] = Cell(m.chunk, part=m.part)
        if m.part != cell.part or (cell.seen and not m.part and len(m.vector) != len(cell.total)):
            return None  # a round is bare for all or for none
        complete_before = cell.seen == tree.below
        if m.worker in cell.seen:
            if not complete_before:
                return None
        else:
            first = not cell.seen
            cell.seen.add(m.worker)
            if not m.part or m.part.to_owner:
                cell.total = m.vector if first else tuple(wrapped(a + b) for a, b in zip(cell.total, m.vector, strict=True))
            elif len(m.vector) > 1:
                cell.total = m.vector
            cell.exponent = m.exponent if first else max(cell.exponent, m.exponent)
            if cell.seen != tree.below:
                return None
        out = replace(m, kind=RESULT, vector=cell.total, exponent=cell.exponent)
        if tree.above is not None and not cell.final:
            return "up", self._up(replace(out, kind=UPDATE))
        return ("one", self.copy(out, m.worker)) if complete_before else ("all", out)

    def tree(self, part: Part | None) -> Tree | None:
        """That of a chunk: an owner's has its root at the owner's switch. None: the owner is not of this job."""
        workers, above = frozenset(range(self.workers)), PARENT if self.has_parent else None
        if part is None or part.owner not in self.owners:
            return None if part and above is None else Tree(workers, above)
        link, links = self.owners[part.owner], workers | ({PARENT} if self.has_parent else frozenset())
        return Tree(links - {link}, link) if link in self.switches else Tree(links, None, link)

    def _complete(self, cell: Cell) -> bool:
        tree = self.tree(cell.part)
        return tree is not None and cell.seen == tree.below

    def above(self, m: Message) -> int | None:
        """The link by which this switch sends sums, or queries, of a message's round."""
        cell = self._current(m)
        tree = self.tree(cell.part if cell else m.part)
        return tree.above if tree else None

    def _whole(self, part: Part, kind: str, link: int) -> bool:
        """Whether a packet on a link of this switch has a vector."""
        tree = self.tree(part)
        of_owner = tree is not None and tree.owner == link
        return (kind == UPDATE or of_owner) if part.to_owner else (of_owner == (kind == UPDATE))

    def copy(self, result: Message, worker: int) -> Message:
        """A result as a worker gets it."""
        return result if not result.part or self._whole(result.part, RESULT, worker) else replace(result, vector=(0,))

    def _up(self, m: Message) -> Message:
        return m if not m.part or m.part.to_owner else replace(m, vector=(0,))

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
        tree = cell and self.tree(cell.part)
        if cell is None or tree is None or not self._complete(cell) or m.worker not in tree.below:
            known = cell is not None and tree is not None and m.worker in tree.below
            return "one", out if known else replace(out, seen=frozenset())
        if cell.final or tree.above is None:
            result = replace(answer, kind=RESULT, vector=cell.total, exponent=cell.exponent, again=True, part=cell.part)
            return "one", self.copy(result, m.worker)
        if cell.asker is None or m.insists:
            cell.asker = m.worker
        elif m.worker != cell.asker or not m.again:
            return None
        return "up", m

    def status(self, m: Message, has_us: bool, link: int = PARENT) -> tuple[str, Message] | None:
        """An answer from above: for all below; or the partial sum once more, if it is that which the parent lacks."""
        cell = self._current(m)
        if cell is None or not self._complete(cell) or cell.final or self.above(m) != link:
            return None
        if has_us:
            return "all", m
        return "up", self._up(replace(m, kind=UPDATE, vector=cell.total, exponent=cell.exponent, again=True, part=cell.part))

    def _current(self, m: Message) -> Cell | None:
        """The cell, if it is at that chunk."""
        cell = self.cells.get((m.version, m.slot))
        return cell if cell and m.epoch == self.epoch and cell.chunk == m.chunk else None

    def result(self, m: Message, link: int = PARENT) -> tuple[str, Message] | None:
        """The parent's result, for all below the first time it comes."""
        cell = self._current(m)
        if cell is None or not self._complete(cell) or cell.final or self.above(m) != link:
            return None
        if m.part != cell.part or (not m.part and len(m.vector) != len(cell.total)):
            return None
        if m.part and (len(m.vector) > 1) != self._whole(m.part, RESULT, link):
            return None
        cell.final, cell.exponent = True, m.exponent
        if not m.part or len(m.vector) > 1:
            cell.total = m.vector
        return "all", replace(m, vector=cell.total)
