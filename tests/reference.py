"""SwitchML's rules in plain Python, written from PAPERS.md section 1 and independent of the P4 program.

A switch is a dictionary of cells; a packet is a small object. No bytes, no tables: what must come out, and to whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

UPDATE, RESULT = "update", "result"


@dataclass(frozen=True)
class Message:
    """An update from, or a result for, `worker` of a switch."""

    kind: str
    worker: int
    version: int
    slot: int
    chunk: int
    exponent: int
    vector: tuple[int, ...]


@dataclass
class Cell:
    """One slot of one version: what its current chunk has gathered."""

    chunk: int = 0
    seen: set[int] = field(default_factory=set)
    total: tuple[int, ...] = ()
    exponent: int = 0
    final: bool = False


def wrapped(value: int) -> int:
    """A sum in 32-bit two's complement."""
    return (value + 2**31) % 2**32 - 2**31


class ModelSwitch:
    """A switch of `workers` workers; with a parent it passes its sums up and keeps what comes down."""

    def __init__(self, workers: int, has_parent: bool = False) -> None:
        self.workers, self.has_parent = workers, has_parent
        self.cells: dict[tuple[int, int], Cell] = {}

    def update(self, m: Message) -> tuple[str, Message] | None:
        """What leaves: ("all", result), ("one", result), ("up", partial sum) or nothing."""
        cell = self.cells.setdefault((m.version, m.slot), Cell())
        if m.chunk < cell.chunk:
            return None  # delayed beyond its round
        if m.chunk > cell.chunk:
            cell = self.cells[m.version, m.slot] = Cell(m.chunk)
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

    def result(self, m: Message) -> tuple[str, Message] | None:
        """The parent's result, for all workers the first time it comes."""
        cell = self.cells.get((m.version, m.slot), Cell())
        if m.chunk != cell.chunk or len(cell.seen) < self.workers or cell.final:
            return None
        cell.final, cell.total, cell.exponent = True, m.vector, m.exponent
        return "all", m
