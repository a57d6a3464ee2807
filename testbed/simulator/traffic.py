"""Transfers that hosts begin as events have it, over links that they share max–min fairly; and the events, in order of time.

testbed.simulator.flows carries what is known from the start; here, what is sent depends on what has come.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from testbed.simulator.costs import Known
from testbed.simulator.flows import ALIKE, UNLIMITED, Route, share
from testbed.simulator.plans import capacities_of, route_of
from topologies.plan import NetworkPlan

MOST_EVENTS = 1_000_000  # some minutes
Then = Callable[[], None]


class Traffic:
    """On a plan's network; hosts are those of `everyone`, by number. `now` is in seconds."""

    def __init__(self, plan: NetworkPlan, known: Known) -> None:
        self.plan, self.known = plan, known
        self.now = 0.0
        self._events: list[tuple[float, int, Then]] = []
        self._order = itertools.count()
        self._routes: dict[tuple[int, int], Route] = {}
        capacities = capacities_of(plan)
        self._capacities = np.where(capacities > 0, capacities, UNLIMITED)
        n = len(capacities)
        self._room = np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
        self._under_way: list[tuple[Route, Then]] = []
        self._bits, self._sizes, self._rates = np.zeros(0), np.zeros(0), np.zeros(0)  # of those: left, in all, and each second
        self._shared = True  # whether the rates are those of what is under way

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call it then."""
        event: tuple[float, int, Then] = (self.now + seconds, next(self._order), partial(call, *arguments))
        heapq.heappush(self._events, event)

    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        """A message without a body: it takes no time on the links."""
        self.after(self._way(self._route(source, destination)), call, *arguments)

    def send(self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any) -> None:
        """A transfer of so many bytes, headers included, begins now; and the call comes when all of it has."""
        self._under_way.append((self._route(source, destination), partial(call, *arguments)))
        self._bits, self._sizes = np.append(self._bits, 8 * octets), np.append(self._sizes, 8 * octets)
        self._shared = False

    def run(self) -> None:
        """Until nothing happens any more. ValueError where that takes too long."""
        for _ in range(MOST_EVENTS):
            if self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
                continue
            if not self._shared:
                self._share()
            over = float(np.min(self.now + self._bits / self._rates, initial=np.inf))
            until = min(over, self._events[0][0] if self._events else np.inf)
            if until == np.inf:
                return
            self._bits -= (until - self.now) * self._rates
            self.now = until
            self._end()
        raise ValueError(f"a simulation of more than {MOST_EVENTS:,} events: choose fewer workers or steps")

    def _end(self) -> None:
        """What has left its source has come after its way."""
        over = self._bits <= ALIKE * np.maximum(self._sizes, self._rates * self.now)
        if not over.any():
            return
        for number in np.flatnonzero(over):
            route, then = self._under_way[number]
            self.after(self._way(route), then)
        self._under_way = [its for its, gone in zip(self._under_way, over, strict=True) if not gone]
        self._bits, self._sizes = self._bits[~over], self._sizes[~over]
        self._rates, self._shared = self._rates[~over], False

    def _share(self) -> None:
        routes = [route for route, _ in self._under_way]
        count = len(routes)
        self._rates, self._shared = np.zeros(count), True
        if count:
            first = np.concatenate([[0], np.cumsum([len(route.crossed) for route in routes])])
            crossed, loads = (np.concatenate(its) for its in zip(*((r.crossed, r.loads) for r in routes), strict=True))
            share(np.arange(count), count, np.ones(count), first, crossed, loads, self._capacities, self._rates, *self._room)

    def _route(self, source: int, destination: int) -> Route:
        if (pair := (source, destination)) not in self._routes:
            self._routes[pair] = route_of(self.plan, source, destination, self.known.acknowledged)
        return self._routes[pair]

    def _way(self, route: Route) -> float:
        """Seconds that a message takes, beside its time on the links."""
        return self.known.message + self.known.packets.delay * route.links
