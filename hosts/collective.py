"""What every scheme offers, and what it says when a collective cannot finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray


@dataclass
class Counters:
    """Packets and bytes of one worker since it started. Bytes are payload."""

    sent: int = 0  # all packets, retransmissions included
    results: int = 0  # results that completed a chunk
    duplicates: int = 0  # results of chunks already complete, or not asked for
    timeouts: int = 0  # times that at least one slot's timer ran out
    retransmissions: int = 0  # packets sent again
    malformed: int = 0  # datagrams that were no packet of this job
    bytes_sent: int = 0
    bytes_received: int = 0
    waited: float = 0.0  # seconds between sending a chunk and its result, over all results; 0 where the scheme does not know


@dataclass
class Membership:
    """A worker's place in a job: `rack` lists the ranks below its own switch, in the order of the switch's bitmap."""

    job: int
    rank: int
    size: int
    racks: list[list[int]] = field(default_factory=list)

    @property
    def rack(self) -> int:
        return next(i for i, ranks in enumerate(self.racks) if self.rank in ranks)

    @property
    def worker(self) -> int:
        """Number of this worker below its switch."""
        return self.racks[self.rack].index(self.rank)


def node_name(rank: int, size: int) -> str:
    """What a node of a job with `size` workers is called in messages; dedicated servers have the ranks after the workers'."""
    return f"worker {rank}" if rank < size else f"server {rank - size}"


class AggregationError(RuntimeError):
    """A collective cannot finish; str() names job, slot, chunk and who is missing."""


class Collective(Protocol):
    """A scheme, as the training script sees it."""

    counters: Counters

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x over all workers, in x's shape and dtype; bit-identical on every worker."""
        ...

    def close(self) -> None: ...
