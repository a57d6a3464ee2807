"""A sum that grows as its parts come.

Parts are added in the order of ranks, ((x0 + x1) + x2) + …, in whatever order they come. So the sum has the same bits in every run,
and on whichever node it is added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from inalab.hosts.floats import add


@dataclass
class Parts:
    """Those that have come, one of each worker at most."""

    total: NDArray[Any] | None = None  # of the ranks below `next`
    next: int = 0
    parked: dict[int, NDArray[Any] | None] = field(default_factory=dict)  # of later ranks

    def take(self, rank: int, part: NDArray[Any] | None) -> None:
        """Add a worker's part, or keep it until those before it have come. The first may be written over; None adds nothing."""
        self.parked[rank] = part
        while self.next in self.parked:
            following = self.parked.pop(self.next)
            if self.total is None or following is None:
                self.total = self.total if following is None else following
            else:
                add(self.total, following)
            self.next += 1

    def lacks(self, workers: int) -> list[int]:
        """Ranks whose parts have not come."""
        return [rank for rank in range(self.next, workers) if rank not in self.parked]
