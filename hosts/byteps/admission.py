"""Which partition goes next, and how many bytes may be under way (ByteScheduler, SOSP '19; BytePS, OSDI '20, section 5)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

FIFO, PRIORITY = "fifo", "priority"
ORDERS = (FIFO, PRIORITY)


@dataclass(order=True, frozen=True)
class Partition:
    """A part of a sum's tensor, elements `start` to `stop`; ordered by urgency."""

    priority: int  # the lower, the sooner
    number: int  # of the sum
    turn: tuple[float, int]  # among those of the sum
    index: int  # in the tensor
    start: int = field(compare=False)
    stop: int = field(compare=False)
    service: int = field(compare=False)

    @property
    def size(self) -> int:
        """Bytes."""
        return 4 * (self.stop - self.start)


class Admission:
    """Partitions that wait, the most urgent first, while others under way use up the credit: bytes from a partition's admission to
    the end of its pull. One may always be under way."""

    def __init__(self, credit: int) -> None:
        self.credit, self.used = credit, 0
        self.waiting: list[Partition] = []  # a heap

    def put(self, partition: Partition) -> None:
        """Let a partition wait."""
        heapq.heappush(self.waiting, partition)

    def admit(self) -> Partition | None:
        """The next partition, if it may go now."""
        if not self.waiting or (self.used and self.used + self.waiting[0].size > self.credit):
            return None
        partition = heapq.heappop(self.waiting)
        self.used += partition.size
        return partition

    def ended(self, partition: Partition) -> None:
        """A partition's pull has ended."""
        self.used -= partition.size
