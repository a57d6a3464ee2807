"""An aggregation tree that is planned anew when the rates of links change (MLfabric, SoCC '20; our reading of it).

Every worker measures its link in each sum. What it has measured goes behind the tensor's last elements: each worker gives its
own numbers, and zeros for the others', so that the total has them all. After the sum all workers plan with the same numbers. A
worker has one sum under way at a time, and all have them in the same order, so that none begins a sum before it has the total of
the one before. Its data waits in a connection while the receiver is still in that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Membership
from inalab.hosts.tcp.arrivals import Arrivals
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.pairwise import Pairwise
from inalab.hosts.tcp.schedules import Move, Schedule
from inalab.hosts.tcp.trees import along, busiest, neighbours

LEARNS = 0.5  # how much of the way to a measured rate a sum takes an estimate
GAIN = 0.1  # of a sum's time that another tree has to save
MOST_PIECES = 2  # that a rate is of: more come at the pace of the whole tree, which is not the link's
UNIT = 1000  # bytes per second, of rates among a tensor's elements: float32 and int32 hold those of any link


class Replanning:
    """The tree of the next sum, a function of the rates measured in those before: all workers compute the same.

    `given` are the links' rates at first, by rank, in bytes of data per second; 0 means no limit, which stays. A measured rate
    is a lower bound: others may have limited it. Half of the way to it is the new estimate, at most the given rate.
    """

    def __init__(self, given: Sequence[float], racks: Sequence[int]) -> None:
        self.given, self.racks = list(given), list(racks)
        self.rates = list(given)
        self.beside = neighbours(self.rates, self.racks)

    def schedule(self) -> Schedule:
        """Of the next sum."""
        return along(self.beside)

    def learn(self, measured: Sequence[float]) -> bool:
        """Take in what all have measured, 0 where one has not; whether the tree is another now."""
        for rank, (now, given) in enumerate(zip(measured, self.given, strict=True)):
            if now > 0 and given:
                self.rates[rank] += LEARNS * (min(given, now) - self.rates[rank])
        planned = neighbours(self.rates, self.racks)
        if busiest(planned, self.rates) >= (1 - GAIN) * busiest(self.beside, self.rates):
            return False
        self.beside = planned
        return True


class Replanned(Pairwise):
    """A worker whose tree is planned anew between sums. It has connections to all others."""

    def __init__(self, group: Group, replanning: Replanning) -> None:
        super().__init__(group, replanning.schedule())
        self.replanning = replanning
        self.arrivals: Arrivals = Arrivals(replanning.given[self.membership.rank], self.connections)
        self.behind = 0  # elements of the tensor, where rates begin
        self.due: int | None = None  # the step before which this worker gives what it has measured; None if it has not

    @staticmethod
    def partners(membership: Membership, schedule: Schedule) -> set[int]:
        return set(range(membership.size)) - {membership.rank}

    def _sum(self, flat: NDArray[Any], empties: int, behind: int = 0) -> NDArray[Any]:
        size, me = self.membership.size, self.membership.rank
        self.arrivals.begin(self.replanning.beside[me])
        self.behind, self.due = flat.size, None
        piece = -(-(flat.size + 2 * size) // self.blocks)
        if MOST_PIECES * piece * flat.itemsize >= self.arrivals.least:
            moves = ((n, m) for n, step in enumerate(self.schedule) for m in step if me in (m.source, m.destination))
            self.due = next((n for n, m in moves if m.block >= flat.size // piece), None)
        total = super()._sum(flat, empties, 2 * size)
        measured = self._rates(total).max(axis=0).astype(np.float64)
        if self.replanning.learn((UNIT * measured).tolist()):
            self.schedule = self.replanning.schedule()
        return total

    def _rates(self, room: NDArray[Any]) -> NDArray[Any]:
        """The place behind a tensor for what was measured, by rank: of a worker by itself, and by the one above it."""
        size = self.membership.size
        return room.reshape(-1)[self.behind : self.behind + 2 * size].reshape(2, size)

    def _step(self, number: int, step: list[Move], blocks: NDArray[Any], announcement: bytes, unannounced: set[int]) -> None:
        if number == self.due:
            self._measure(self._rates(blocks))
        super()._step(number, step, blocks, announcement, unannounced)

    def _measure(self, rates: NDArray[Any]) -> None:
        """What came over this worker's link, and what each one below sent: leaves send their first pieces without a wait."""
        me, given = self.membership.rank, self.replanning.given
        rates[0, me] = min(given[me], self.arrivals.fastest(*self.replanning.beside[me])) // UNIT
        for child in {move.source for step in self.schedule for move in step if move.destination == me and move.add}:
            rates[1, child] = min(given[child], self.arrivals.fastest(child)) // UNIT
