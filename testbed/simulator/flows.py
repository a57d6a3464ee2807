"""Messages as flows that share links max–min fairly (Bertsekas and Gallager, Data Networks, section 6.5.2).

A connection's messages go one after another. Acknowledgments take nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.simulator.costs import Known
from inalab.testbed.simulator.plans import capacities_of, way_of
from inalab.testbed.simulator.traffic import Then, Traffic
from inalab.topologies.plan import NetworkPlan

ALIKE = 1e-9  # moments that differ by less are one, as a share of the time until then; a flow of which less is left has ended


@compiled("i8(i8[::1], f8, f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1], i8[::1], b1[::1])")
def fix(
    unfixed: NDArray[np.int64], level: float, weights: NDArray[np.float64], first: NDArray[np.int64], crossed: NDArray[np.int64],
    rates: NDArray[np.float64], left: NDArray[np.float64], loaded: NDArray[np.float64], users: NDArray[np.int64],
    full: NDArray[np.bool_],
) -> int:  # fmt: skip
    """Give the flows that cross a full link their rates; how many are left. `loaded`, zeros, is what these load links with."""
    kept = 0
    for f in unfixed:
        crosses = False
        for j in range(first[f], first[f + 1]):
            crosses |= full[crossed[j]]
        if crosses:
            rates[f] = level * weights[f]
            if not rates[f] > 0.0:
                raise ValueError("a flow has no share of its links")
        else:
            unfixed[kept] = f
            kept += 1
        for j in range(first[f], first[f + 1]):
            if crosses:
                left[crossed[j]] = max(left[crossed[j]] - rates[f], 0.0)
                users[crossed[j]] -= 1
            else:
                loaded[crossed[j]] += weights[f]
    return kept


@compiled("void(f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[::1], i8[::1], b1[::1])")
def share(
    weights: NDArray[np.float64], first: NDArray[np.int64], crossed: NDArray[np.int64], capacities: NDArray[np.float64],
    rates: NDArray[np.float64], left: NDArray[np.float64], loaded: NDArray[np.float64], users: NDArray[np.int64],
    used: NDArray[np.int64], full: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Max–min fair rates of flows, by progressive filling: the links that are full first decide their flows' rates.

    `first` is where each flow's links begin in `crossed`. `left`, `loaded`, `users`, `used` and `full` are room for what is found
    of each link on the way; `users` are zeros.
    """
    n = 0
    for f in range(len(weights)):
        for j in range(first[f], first[f + 1]):
            link = crossed[j]
            if users[link] == 0:
                used[n], left[link], loaded[link] = link, capacities[link], 0.0
                n += 1
            users[link] += 1
            loaded[link] += weights[f]
    unfixed = np.arange(len(weights))
    while len(unfixed):
        level = np.inf
        for link in used[:n]:
            if users[link]:
                level = min(level, left[link] / loaded[link])
        for link in used[:n]:
            full[link] = users[link] > 0 and left[link] <= level * loaded[link] * (1 + ALIKE)
            loaded[link] = 0.0  # summed up anew, because differences are not exact
        kept = fix(unfixed, level, weights, first, crossed, rates, left, loaded, users, full)
        unfixed = unfixed[:kept]


@dataclass(frozen=True)
class Flow:
    """A message under way between two hosts."""

    pair: tuple[int, int]
    bits: float  # with headers
    weight: float
    then: Then


class FairTraffic(Traffic):
    """Messages as flows."""

    def __init__(self, plan: NetworkPlan, known: Known) -> None:
        super().__init__(plan, known)
        self._capacities = capacities_of(plan)
        n = len(self._capacities)
        self._room = np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
        self._ways: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._waiting: defaultdict[tuple[int, int], deque[Flow]] = defaultdict(deque)  # by connection; the first is under way
        self._entering: list[Flow] = []
        self._flows: list[Flow] = []  # under way, and of each, bits that are left, in all, and each second:
        self._left, self._sizes, self._rates = np.zeros(0), np.zeros(0), np.zeros(0)
        self._changed = False

    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        self._came(partial(call, *arguments), len(self._way((source, destination))))

    def send(
        self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any, weight: float = 1.0
    ) -> None:
        pair = source, destination
        flow = Flow(pair, 8 * TCP_OVERHEAD * octets, weight, partial(call, *arguments))
        if not self._waiting[pair]:
            self._entering.append(flow)
        self._waiting[pair].append(flow)

    def _go_on(self, until: float) -> bool:
        if self._entering:
            self._enter()
        if self._changed:
            self._share()
        until = min(until, float(np.min(self.now + self._left / self._rates, initial=np.inf)))
        if until == np.inf:
            return False
        self._left -= (until - self.now) * self._rates
        self.now = until
        over = self._left <= ALIKE * np.maximum(self._sizes, self._rates * until)
        if over.any():
            self._end(over)
        return True

    def _enter(self) -> None:
        bits = [flow.bits for flow in self._entering]
        self._flows += self._entering
        self._left, self._sizes = np.append(self._left, bits), np.append(self._sizes, bits)
        self._entering, self._changed = [], True

    def _end(self, over: NDArray[np.bool_]) -> None:
        """What has left its source comes, and the connection's next flow enters."""
        for number in np.flatnonzero(over):
            flow = self._flows[number]
            self._came(flow.then, len(self._way(flow.pair)))
            waiting = self._waiting[flow.pair]
            waiting.popleft()
            self._entering += list(waiting)[:1]
        self._flows = [flow for flow, gone in zip(self._flows, over, strict=True) if not gone]
        self._left, self._sizes, self._rates = self._left[~over], self._sizes[~over], self._rates[~over]
        self._changed = True

    def _share(self) -> None:
        self._rates, self._changed = np.zeros(len(self._flows)), False
        if self._flows:
            ways = [self._way(flow.pair) for flow in self._flows]
            first = np.concatenate([[0], np.cumsum([len(way) for way in ways])])
            weights = np.array([flow.weight for flow in self._flows])
            share(weights, first, np.concatenate(ways), self._capacities, self._rates, *self._room)

    def _way(self, pair: tuple[int, int]) -> NDArray[np.int64]:
        """The directions of links that a connection crosses."""
        if pair not in self._ways:
            self._ways[pair] = np.array(way_of(self.plan, *pair), np.int64)
        return self._ways[pair]
