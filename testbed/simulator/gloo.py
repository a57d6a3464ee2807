"""Gloo's ring all-reduce, as its allreduce.cc has it: segments go round the ring, two at a time, once to be added and once more.

A worker sends a segment once its neighbour has said that it waits for it. That notice queues behind the neighbour's own data. In
each of the two phases two operations are under way: the third is begun when the first is over.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inalab.testbed.simulator.steps import Steps
from inalab.testbed.simulator.sums import Spans
from inalab.testbed.simulator.traffic import Traffic, nobody_waits

PHASES = 2  # reduce-scatter, all-gather
SEGMENTS = 2  # for each rank, at least; and as many are under way
LONGEST = 1 << 20  # bytes of a segment
COMPUTED, CAME, SENT = "computed", "came", "sent"
Event = tuple[str, int]  # and the number of the sum, or of the segment


class GlooRing:
    """One sum after another; see testbed.simulator.sums.Sums. A tensor has so many bytes."""

    def __init__(self, traffic: Traffic, octets: int, steps: Steps) -> None:
        self.traffic, self.steps, self.size = traffic, steps, steps.workers
        per_rank = max(SEGMENTS, -(-octets // (LONGEST * self.size)))
        self.turns = (self.size - 1) * per_rank  # of a phase
        self.segment = octets / (self.size * per_rank)
        self.begun = np.zeros_like(steps.ended)
        self.ranks = [Rank(self, rank) for rank in range(self.size)]

    def run(self) -> Spans:
        """ValueError where that would take too long."""
        for rank in self.ranks:
            rank.go_on()
        self.traffic.run()
        nobody_waits([rank.rank for rank in self.ranks if rank.waits_for])
        return self.begun, self.steps.ended


class Rank:
    """A worker. Segments are numbered over all its sums, in the order in which it sends them, or receives them."""

    def __init__(self, ring: GlooRing, rank: int) -> None:
        self.ring, self.rank = ring, rank
        self.left, self.right = (rank - 1) % ring.size, (rank + 1) % ring.size
        self.wanted: set[int] = set()  # segments that the right neighbour waits for,
        self.ready: set[int] = set()  # and that this worker is to send
        self.happened: set[Event] = set()
        self.waits_for: Event | None = None
        self.life = self._live()

    def go_on(self) -> None:
        """As far as it need not wait."""
        self.waits_for = next(self.life, None)

    def _live(self) -> Iterator[Event]:
        """Sum after sum; yields what it waits for."""
        ring, first = self.ring, 0
        for number in range(ring.steps.sums):
            (when,) = ring.steps.begin(self.rank)
            ring.traffic.after(when - ring.traffic.now, self._note, COMPUTED, number)
            yield COMPUTED, number
            ring.begun[self.rank, number] = ring.traffic.now
            for _ in range(PHASES):
                for segment in range(first, first + ring.turns + SEGMENTS):
                    for what in (CAME, SENT) if (before := segment - SEGMENTS) >= first else ():
                        if (what, before) not in self.happened:
                            yield what, before
                        self.happened.remove((what, before))
                    if segment < first + ring.turns:
                        self._begin(segment)
                first += ring.turns
            ring.steps.ended[self.rank, number] = ring.traffic.now

    def _begin(self, segment: int) -> None:
        """Tell the left neighbour that this worker waits for its segment, and send the right one another if it waits."""
        self.ring.traffic.tell(self.rank, self.left, self.ring.ranks[self.left]._is_wanted, segment)
        self.ready.add(segment)
        self._send(segment)

    def _is_wanted(self, segment: int) -> None:
        self.wanted.add(segment)
        self._send(segment)

    def _send(self, segment: int) -> None:
        if segment in self.ready and segment in self.wanted:
            self.ready.remove(segment)
            self.wanted.remove(segment)
            self.ring.traffic.send(self.rank, self.right, self.ring.segment, self.ring.ranks[self.right]._note, CAME, segment)
            self._note(SENT, segment)

    def _note(self, what: str, number: int) -> None:
        """Something has happened that it may wait for."""
        self.happened.add((what, number))
        if self.waits_for == (what, number):
            self.go_on()
