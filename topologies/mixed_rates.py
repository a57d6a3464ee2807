"""Racks with slow hosts: some workers have links with a rate of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from inalab.topologies.racks import Racks
from inalab.topologies.topology import TopologyError, check_rate


@dataclass(frozen=True)
class MixedRates(Racks):
    """Racks of which a share of the workers, worker 0 and then evenly spread ranks, has links of `slow_rate` Mbit/s."""

    slow_share: float = 0.1
    slow_rate: float = 5.0

    def __post_init__(self) -> None:
        if not 0 < self.slow_share <= 1:
            raise TopologyError(f"slow_share is {self.slow_share:g}: it is more than 0 and at most 1")
        check_rate("slow_rate", self.slow_rate)
        super().__post_init__()

    def rate(self, rank: int) -> float | None:
        return self.slow_rate if self._slow(rank + 1) > self._slow(rank) else self.host_rate

    def _slow(self, workers: int) -> int:
        """Slow ones among the first so many workers."""
        return math.ceil(round(workers * self.slow_share, 9))
