"""How fast data comes over a node's link, as far as the node sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from inalab.hosts.tcp.connection import Connection

SPAN = 0.005  # seconds at the given rate that data must take at least: links let up to a millisecond's worth of data pass at once
LEAST = 6000  # bytes, likewise: several segments


class Arrivals:
    """Of the data of one sum, when how much has come over which connection, whether it has been read or not."""

    def __init__(self, rate: float, connections: Mapping[int, Connection]) -> None:
        """`rate` is the link's, in bytes of data per second; 0 means no limit."""
        self.least, self.connections = max(LEAST, SPAN * rate), connections
        self.begin(())

    def begin(self, ranks: Iterable[int]) -> None:
        """Begin with another sum, in which data comes from these nodes."""
        self.read = dict.fromkeys(ranks, 0)
        self.times: list[float] = []
        self.octets: dict[int, list[int]] = {rank: [] for rank in self.read}  # that had come at each of these times

    def look(self, now: float) -> None:
        """Note how much has come by now, in seconds."""
        self.times.append(now)
        for rank, read in self.read.items():
            self.octets[rank].append(read + self.connections[rank].unread())

    def take(self, rank: int, size: int) -> None:
        """So many bytes of a connection were read."""
        self.read[rank] += size

    def fastest(self, *ranks: int) -> float:
        """The highest rate at which enough data came from these nodes together, in bytes per second; 0 if it never did."""
        if not (ranks and self.times):
            return 0.0
        times, octets = np.array(self.times), np.sum([self.octets[rank] for rank in ranks], axis=0)
        before = np.searchsorted(octets, octets - self.least, "right") - 1  # the last look with so much less
        seconds = times - times[before]
        enough = (before >= 0) & (seconds > 0)
        return float(((octets - octets[before])[enough] / seconds[enough]).max(initial=0.0))
