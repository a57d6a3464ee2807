"""Which bits a worker has at a server: bitmap0 within its rack, bitmap1 in the server's rack.

In bitmap1 the workers of the server's own rack count from bit 0 up, the other racks from bit 31 down. So a packet with
bitmap0 = 0 stands for whole racks and single workers of the server's rack; any other for some workers of one other rack.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Membership

BITS = 32


class Tree:
    """The workers of a job as a server in rack `root` sees them; arrays are by rank.

    Raises ValueError where they do not fit into a bitmap.
    """

    def __init__(self, membership: Membership, root: int) -> None:
        racks = membership.racks
        self.root = root
        self.rack = np.zeros(membership.size, np.int64)
        self.number = np.zeros(membership.size, np.int64)  # within its rack
        for r, ranks in enumerate(racks):
            self.rack[ranks] = r
            self.number[ranks] = np.arange(len(ranks))
        self.local = self.rack == root
        own = len(racks[root]) if root < len(racks) else 0
        if racks and max(map(len, racks)) > BITS:
            raise ValueError(f"{max(map(len, racks))} workers below one switch do not fit into {BITS} bits")
        others = [r for r, ranks in enumerate(racks) if ranks and r != root]
        if others and own + max(others) >= BITS:
            raise ValueError(f"{own} workers beside the server and racks up to {max(others)} do not fit into {BITS} bits")
        self.bit1 = np.where(self.local, self.number, BITS - 1 - self.rack)

    def bitmaps(self, rank: int) -> tuple[int, int]:
        """bitmap0 and bitmap1 of a worker's own packet."""
        return (0 if self.local[rank] else 1 << int(self.number[rank])), 1 << int(self.bit1[rank])

    def who(self, bitmap0: NDArray[np.uint32], bitmap1: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which workers are in each of these packets, shape (packets, workers)."""
        zero, one = bitmap0.astype(np.int64)[:, None], bitmap1.astype(np.int64)[:, None]
        inside = self.local | (zero == 0) | (zero >> self.number & 1 > 0)
        found: NDArray[np.bool_] = (one >> self.bit1 & 1 > 0) & inside
        return found
