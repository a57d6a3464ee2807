"""When each update is sent, and where to (MLfabric, SoCC '20; our reading of it, for there is no public implementation).

Order       Of the updates that wait, the one goes next that can be at the server first. While it is sent, no other uses a link of
            its path: transfers share the links in time, and not in rate. Of n equal updates the mean is there after (n + 1) S / 2B
            seconds, where sharing in rate has all of them there after n S / B.
Drop        An update whose delay would be more than the bound, in whatever way it is sent, is not sent at all.
Aggregate   A worker that waits for its turn can add what others send to it meanwhile, and send one update for all. So the j-th
            transfer to the server brings up to j updates, and K transfers bring K (K + 1) / 2.

The delay of an update is how many others are in the model when it is added, and were not when the worker fetched the model that it
computed on. The server adds in the planned order, whenever transfers arrive, so delays are what was planned.

Everything here is a function of its arguments: there are no clocks, and nothing is sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Link = Hashable
Path = Sequence[Link]  # the links from one host to another, each in one direction


@dataclass(frozen=True)
class Request:
    """A worker's update that waits to be sent."""

    worker: int  # rank
    number: int  # among the worker's
    version: int  # of the model that it was computed on
    size: float  # bytes on the wire
    norm: float
    ready: float  # seconds: not to be sent before


@dataclass(frozen=True)
class Transfer:
    """An update that is sent from one host to another within a time, and has the links between them to itself."""

    request: Request
    destination: int  # rank
    start: float
    end: float


@dataclass(frozen=True)
class Slot:
    """A transfer to the server, with what is added to it on the sender's host before; all are applied at `version`."""

    transfer: Transfer
    absorbed: tuple[Transfer, ...]
    version: int

    @property
    def members(self) -> tuple[Request, ...]:
        """Whose updates the server gets."""
        return self.transfer.request, *(t.request for t in self.absorbed)


@dataclass(frozen=True)
class Plan:
    """Slots in the order in which the server applies them, and what is not sent."""

    slots: tuple[Slot, ...]
    dropped: tuple[Request, ...]


@dataclass(frozen=True)
class Network:
    """The rate of each link in bytes per second, and from when on it is free; what has no rate takes no time."""

    path: Callable[[int, int], Path]
    rates: Mapping[Link, float]
    free: Mapping[Link, float] = field(default_factory=dict)

    def seconds(self, size: float, path: Path) -> float:
        """That a transfer of so many bytes takes."""
        return max((size / rate for link in path if (rate := self.rates.get(link, 0.0))), default=0.0)


@dataclass(eq=False)
class _Slot:
    """A slot that is being planned."""

    request: Request
    path: Path
    takes: float
    start: float
    filled: float  # until when its worker receives what others send to it
    absorbed: list[Transfer] = field(default_factory=list)


def plan(
    requests: Sequence[Request], server: int, network: Network, version: int, bound: int | None = None, aggregate: bool = True
) -> Plan:
    """All requests, one of a worker at most, in slots or dropped.

    `version` is the model's once everything that is under way has been applied. No update is applied with a delay beyond `bound`;
    None is without one. Raises ValueError for two requests of a worker.
    """
    if len({request.worker for request in requests}) < len(requests):
        raise ValueError("a worker has two updates that wait: it sends one at a time")
    return _Planner(requests, server, network, version, bound, aggregate).plan()


class _Planner:
    def __init__(
        self, requests: Sequence[Request], server: int, network: Network, version: int, bound: int | None, aggregate: bool
    ) -> None:
        self.requests, self.server, self.network = requests, server, network
        self.bound, self.aggregate = bound, aggregate
        self.version, self.total = version, version  # before the first slot, and after the last
        self.free = dict(network.free)
        self.slots: list[_Slot] = []
        self.at = np.zeros(len(requests), np.int64)  # the version that each slot is applied at
        self.slack = np.zeros(len(requests), np.int64)  # by how much each slot's updates may be later
        self.shared: set[Link] = set()  # links to the server, but for each worker's own
        self.absorbing = dict(network.free)  # from when on links are free for what workers absorb
        fastest = max(network.rates.values(), default=0.0)
        self.least = min((r.size for r in requests), default=0.0) / fastest if fastest else 0.0  # seconds that a transfer takes
        self.full = 0  # slots before this one have no room left
        self.dropped: list[Request] = []

    def plan(self) -> Plan:
        """See the function of that name."""
        for request, path, takes in self._shortest_first():
            if self.bound is None or self.total - request.version <= self.bound:
                self._append(request, path, takes)
            elif not self._absorb(request, len(self.slots)):
                self.dropped.append(request)
        for last in reversed(range(len(self.slots))):  # to those before, as long as they are there sooner by it
            if not self.slots[last].absorbed and self._absorb(self.slots[last].request, last):
                self._remove(last)
        return Plan(tuple(self._packed()), tuple(self.dropped))

    # --- order

    def _shortest_first(self) -> Iterator[tuple[Request, Path, float]]:
        """Requests in the order in which they can be at the server, each one's links taken by those before it.

        Of those that can begin when the server's link is free the shortest is there first. One that can begin only later is there
        before them if it ends before. Where several would end at the same time the oldest goes first.
        """
        paths = [self.network.path(request.worker, self.server) for request in self.requests]
        takes = [self.network.seconds(r.size, path) for r, path in zip(self.requests, paths, strict=True)]
        begins = [max(r.ready, self._free_from(path)) for r, path in zip(self.requests, paths, strict=True)]
        later = [(begins[i] + takes[i], r.version, i) for i, r in enumerate(self.requests)]
        heapq.heapify(later)
        next_to_begin = sorted(range(len(begins)), key=begins.__getitem__, reverse=True)
        waiting: list[tuple[float, int, int]] = []
        moved: set[int] = set()  # to `waiting`, or gone
        free = 0.0
        for _ in self.requests:
            while next_to_begin and begins[next_to_begin[-1]] <= free:
                if (i := next_to_begin.pop()) not in moved:
                    moved.add(i)
                    heapq.heappush(waiting, (takes[i], self.requests[i].version, i))
            while later and later[0][2] in moved:
                heapq.heappop(later)
            first = later if later and (not waiting or later[0][0] < free + waiting[0][0]) else waiting
            *_, i = heapq.heappop(first)
            moved.add(i)
            yield self.requests[i], paths[i], takes[i]
            free = self._free_from(paths[i][-1:])

    def _free_from(self, path: Path) -> float:
        return max((self.free.get(link, 0.0) for link in path), default=0.0)

    def _append(self, request: Request, path: Path, takes: float) -> None:
        """In a slot of its own, behind all others."""
        start = max(request.ready, self._free_from(path))
        for link in path:
            self.free[link] = start + takes
        number = len(self.slots)
        self.at[number], self.slack[number] = self.total, (self.bound or 0) - (self.total - request.version)
        self.shared.update(path[1:])
        self.slots.append(_Slot(request, path, takes, start, request.ready))
        self.total += 1

    # --- aggregate

    def _absorb(self, request: Request, before: int) -> bool:
        """Have a worker of a slot before this number add the update to its own: the first one that can, which is there first."""
        for number in range(self.full, before if self.aggregate else 0):
            slot = self.slots[number]
            if slot.filled + self.least > slot.start and number == self.full:
                self.full += 1
                continue
            path = self.network.path(request.worker, slot.request.worker)
            begin = max(request.ready, slot.filled, *(self.absorbing.get(link, 0.0) for link in path))
            end = begin + self.network.seconds(request.size, path)
            if (
                end > slot.start
                or request.size > slot.request.size
                or not self.shared.isdisjoint(path)
                or not self._may_delay(request, number, before)
            ):
                continue
            self.at[number + 1 : before] += 1
            self.slack[number + 1 : before] -= 1
            self.slack[number] = min(self.slack[number], (self.bound or 0) - (self.at[number] - request.version))
            if before == len(self.slots):
                self.total += 1
            self.absorbing.update(dict.fromkeys(path, end))
            slot.filled = end
            slot.absorbed.append(Transfer(request, slot.request.worker, begin, end))
            return True
        return False

    def _may_delay(self, request: Request, number: int, before: int) -> bool:
        """Whether the bound allows an update in this slot, which then comes before those in the slots between."""
        if self.bound is None:
            return True
        between = self.slack[number + 1 : before]
        return bool(self.at[number] - request.version <= self.bound and (not len(between) or between.min() >= 1))

    def _remove(self, number: int) -> None:
        """A slot whose update another has absorbed."""
        del self.slots[number]
        self.at = np.delete(self.at, number)
        self.slack = np.delete(self.slack, number)

    def _packed(self) -> Iterator[Slot]:
        """The slots, each as early as those before it allow."""
        free, version = dict(self.network.free), self.version
        for slot in self.slots:
            start = max(slot.request.ready, slot.filled, *(free.get(link, 0.0) for link in slot.path))
            for link in slot.path:
                free[link] = start + slot.takes
            packed = Slot(Transfer(slot.request, self.server, start, start + slot.takes), tuple(slot.absorbed), version)
            version += len(packed.members)
            yield packed
