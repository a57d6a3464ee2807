"""How a server that all workers have left has every switch free what the job still holds there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import wire

BATCH = 64  # packets that are confirmed before more are sent
WAIT = 0.05  # seconds for the confirmations, at first
PATIENCE = 8.0


class Release:
    """Which aggregators of which racks' switches are not confirmed to be free, until `end`."""

    def __init__(self, racks: Iterable[int], aggregators: NDArray[np.int64], now: float) -> None:
        self.left = {(rack, index) for rack in racks for index in aggregators.tolist()}
        self.asked: list[tuple[int, int]] = []
        self.end, self.due, self.wait = now + PATIENCE, now, WAIT

    def over(self, now: float) -> bool:
        """Whether nothing is left, or the time is."""
        return not self.left or now >= self.end

    def next(self, now: float) -> list[tuple[int, int]]:
        """(rack, aggregator) of the switches to be asked now, if any; the longer nothing is confirmed, the less often."""
        waits = not self.left.isdisjoint(self.asked)
        if not self.left or (waits and now < self.due):
            return []
        self.wait = min(2 * self.wait, 10 * WAIT) if waits else WAIT
        self.asked = sorted(self.left, key=lambda where: where[::-1])[:BATCH]  # all racks in turn: the first closes the job there
        self.due = now + self.wait
        return self.asked

    def confirmed(self, packets: NDArray[np.void], epoch: int) -> None:
        """Take in what switches answer."""
        packets = packets[(packets["kind"] == wire.KIND_RELEASED) & (packets["epoch"] == epoch)]
        self.left -= set(zip(packets["next_index"].tolist(), packets["index"].tolist(), strict=True))
