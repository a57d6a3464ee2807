"""Which partition goes next, and how many bytes may be under way (ByteScheduler, SOSP '19; BytePS, OSDI '20, section 5)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

FIFO, PRIORITY = "fifo", "priority"
ORDERS = (FIFO, PRIORITY)


@dataclass(order=True, frozen=True)
class Partition:
    """A part of a sum's tensor, elements `start` to `stop`; ordered by urgency, and then as the worker has them in turn."""

    priority: int  # the lower, the sooner
    number: int  # of the sum
    turn: float  # among those of the sum
    own: int  # among those whose turn it is: a worker's own order
    index: int  # in the tensor
    start: int = field(compare=False)
    stop: int = field(compare=False)
    service: int = field(compare=False)

    @property
    def urgency(self) -> tuple[int, int, float]:
        """The lower, the sooner; the same on all workers."""
        return self.priority, self.number, self.turn

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 * (self.stop - self.start)


class Admission:
    """Partitions that wait, the most urgent first, while others under way use up the credit: bytes from a partition's admission to
    the end of its pull.

    A pull ends when all workers have pushed. If the credit of each were used up by partitions that another has not admitted, all
    would wait for ever. So partitions that are at least as urgent as all under way need no credit: all workers agree on which
    partition is the most urgent, so all admit it, and none is stuck.
    """

    def __init__(self, credit: int) -> None:
        self.credit, self.used = credit, 0
        self.waiting: list[Partition] = []  # a heap
        self.under_way: dict[tuple[int, int], Partition] = {}  # by number of the sum and index

    def put(self, partition: Partition) -> None:
        """Let a partition wait."""
        heapq.heappush(self.waiting, partition)

    def admit(self) -> Partition | None:
        """The next partition, if it may go now."""
        if not self.waiting:
            return None
        first = self.waiting[0]
        if self.used + first.size > self.credit and any(other.urgency < first.urgency for other in self.under_way.values()):
            return None
        heapq.heappop(self.waiting)
        self.used += first.size
        self.under_way[first.number, first.index] = first
        return first

    def ended(self, number: int, index: int) -> None:
        """The pull of a sum's partition has ended."""
        self.used -= self.under_way.pop((number, index)).size
