"""Messages that hosts send each other as events have it, and the events, in order of time."""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from inalab.hosts.collective import workers as named
from inalab.testbed.simulator.costs import Known
from inalab.topologies.plan import NetworkPlan

MOST_EVENTS = 3_000_000  # some minutes
Then = Callable[[], None]


def nobody_waits(workers: Sequence[int]) -> None:
    """ValueError where workers still wait although nothing happens any more."""
    if workers:
        raise ValueError(f"the simulation stands still, and {named(list(workers))} wait{'s' * (len(workers) == 1)}")


class Traffic(ABC):
    """On a plan's network; hosts are those of `everyone`, by number. `now` is in seconds."""

    def __init__(self, plan: NetworkPlan, known: Known) -> None:
        self.plan, self.known = plan, known
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._order = itertools.count()

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call it then."""
        event: tuple[float, int, Then] = (self.now + seconds, next(self._order), partial(call, *arguments))
        heapq.heappush(self._events, event)

    @abstractmethod
    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        """A message that is a header alone; the call comes when it does."""

    @abstractmethod
    def send(
        self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any, weight: float = 1.0
    ) -> None:
        """A message of so many bytes, behind those that leave for that host before; the call comes when all of it has.

        What shares a link has shares of it as the weights, where links are shared.
        """

    def run(self) -> None:
        """Until nothing happens any more. ValueError where that takes too long."""
        for _ in range(MOST_EVENTS):
            if self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            elif not self._go_on(self._events[0][0] if self._events else float("inf")):
                return
        raise ValueError(f"a simulation of more than {MOST_EVENTS:,} events of messages: choose fewer workers or steps")

    @abstractmethod
    def _go_on(self, until: float) -> bool:
        """Let time pass until then, or until the first message has come before; whether anything is left to happen."""

    def _came(self, then: Then, links: int) -> None:
        """A message has left its last link, or its source: it is there once it has taken what it takes beside its time on links."""
        self.after(self.known.message + links * self.known.packets.delay, then)
