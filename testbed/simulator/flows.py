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

from inalab.hosts.cores import pointer, values
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.simulator.costs import Known
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.plans import capacities_of, way_of
from inalab.testbed.simulator.traffic import Then, Traffic
from inalab.topologies.plan import NetworkPlan

ALIKE = 1e-9  # moments that differ by less are one, as a share of the time until then; a flow of which less is left has ended


def shared_links(capacities: NDArray[np.float64]) -> Any:
    """Links of these capacities, in bits a second."""
    found = SIMULATOR.ffi.new("SharedLink[]", len(capacities))
    values(SIMULATOR.ffi.addressof(found, 0), len(capacities))["capacity"] = capacities
    return found


def max_min(links: Any, weights: NDArray[np.float64], first: NDArray[np.int64], crossed: NDArray[np.int64]) -> NDArray[np.float64]:
    """Max–min fair rates of flows (flows.c). `first` is where each flow's links begin in `crossed`, and the end.

    Raises ValueError where a flow has no share of its links.
    """
    rates = np.zeros(len(weights))
    arrays = [(weights, "double[]"), (first, "int64_t[]"), (crossed, "int64_t[]"), (rates, "double[]")]
    if SIMULATOR.c.flows_share(links, len(links), len(weights), *(pointer(array, kind) for array, kind in arrays)) < 0:
        raise ValueError("a flow has no share of its links")
    return rates


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
        capacities = capacities_of(plan)
        self._links = shared_links(capacities)
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
        self._rates, self._changed = np.zeros(0), False
        if self._flows:
            ways = [self._way(flow.pair) for flow in self._flows]
            first = np.concatenate([[0], np.cumsum([len(way) for way in ways])])
            weights = np.array([flow.weight for flow in self._flows])
            self._rates = max_min(self._links, weights, first, np.concatenate(ways))

    def _way(self, pair: tuple[int, int]) -> NDArray[np.int64]:
        """The directions of links that a connection crosses."""
        if pair not in self._ways:
            self._ways[pair] = np.array(way_of(self.plan, *pair), np.int64)
        return self._ways[pair]
