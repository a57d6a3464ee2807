"""What the scheduler knows of the network: which links a transfer crosses, and how fast they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inalab.hosts.mlfabric.planner import Link, Path

LEARNS = 0.3  # how much of a link's rate one transfer can change


def uplinks(path: Path) -> Path:
    """Those links of a path that are no host's."""
    return path[1:-1]


@dataclass
class Fabric:
    """Hosts below their racks' switches, and a root above those.

    `racks` are the hosts' by rank; rates are in bytes per second, 0 means no limit. A transfer slower than its links'
    estimated rates lowers them, where it `learns`. A faster one raises them, at most to the given rates.
    """

    racks: Sequence[int]
    hosts: Sequence[float]
    uplinks: Sequence[float]
    learns: bool = True

    def __post_init__(self) -> None:
        self.given: dict[Link, float] = {}
        for rank, rate in enumerate(self.hosts):
            self.given[rank, "up"] = self.given[rank, "down"] = rate
        for rack, rate in enumerate(self.uplinks):
            self.given[f"rack {rack}", "up"] = self.given[f"rack {rack}", "down"] = rate
        self.rates = dict(self.given)

    def path(self, source: int, destination: int) -> Path:
        """The links from one host to another, by rank."""
        own, other = self.racks[source], self.racks[destination]
        between = ((f"rack {own}", "up"), (f"rack {other}", "down")) if own != other else ()
        return (source, "up"), *between, (destination, "down")

    def learn(self, path: Path, size: float, seconds: float) -> None:
        """Move the estimated rate of a path's slowest links toward the rate of this transfer, at most to the given rate."""
        limited = [link for link in path if self.rates[link]]
        if not (self.learns and limited) or seconds <= 0:
            return
        slowest = min(self.rates[link] for link in limited)
        for link in limited:
            if self.rates[link] == slowest:
                self.rates[link] = min(self.given[link], (1 - LEARNS) * slowest + LEARNS * size / seconds)
