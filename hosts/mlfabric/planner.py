"""When each update is sent, and where to (MLfabric, SoCC '20; our reading of it, for there is no public implementation).

Order       Of the updates that wait, the one goes next that can be at the server first. While it is sent, no other uses a link of
            its path: transfers share the links in time, and not in rate. n updates of S bytes on a link of rate B arrive after
            (n + 1) S / 2B on average. If they share its rate, all arrive after n S / B.
Drop        An update whose delay would be more than the bound, in whatever way it is sent, is not sent at all.
Aggregate   A worker that waits for its turn can add what others send to it meanwhile, and send one update for all. So the j-th
            transfer to the server brings up to j updates, and K transfers bring K (K + 1) / 2. The aggregator of an update is the
            first that has it in time, or it is drawn at random among those that wait. It sends once all are in (the barrier).

The delay of an update is how many other updates the server has added since the version of the model that it was computed on.
The server adds updates in the planned order, no matter when they arrive, so delays are as planned.

Everything here is a function of its arguments: there are no clocks, and nothing is sent.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

GUARD = 0.1  # share of its own duration by which a transfer may be delayed to absorb another update
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
class Standing:
    """A slot of an earlier plan whose transfer to the server has not begun, and can absorb more."""

    first: Request  # its sender's
    oldest: int  # version that one of its updates was computed on
    members: int  # updates in it
    start: float


@dataclass(frozen=True)
class Plan:
    """New slots, in the order in which the server applies them after the standing ones; what standing slots absorb, by number;
    and what is not sent."""

    slots: tuple[Slot, ...]
    joining: tuple[tuple[int, Transfer], ...]
    dropped: tuple[Request, ...]


@dataclass(frozen=True)
class Network:
    """The rate of each link in bytes per second, and from when on it is free; what has no rate takes no time."""

    path: Callable[[int, int], Path]
    rates: Mapping[Link, float]
    free: Mapping[Link, float] = field(default_factory=dict)
    rack: Callable[[int], Hashable] = lambda host: 0  # absorption stays within a rack, so it takes no uplink

    def seconds(self, size: float, path: Path) -> float:
        """See the function of that name."""
        return seconds(self.rates, size, path)


def seconds(rates: Mapping[Link, float], size: float, path: Path) -> float:
    """How long a transfer of so many bytes takes."""
    return max((size / rate for link in path if (rate := rates.get(link, 0.0))), default=0.0)


@dataclass(eq=False)
class _Slot:
    """A slot that is being planned, or stands."""

    request: Request
    path: Path
    takes: float
    start: float
    due: float  # when it would start if it waited for nothing
    filled: float  # until when its worker receives what others send to it
    members: int = 1
    stands: bool = False
    absorbed: list[Transfer] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether its worker is idle until its turn to send."""
        return self.start > self.request.ready


def plan(
    requests: Sequence[Request], server: int, network: Network, version: int, bound: int | None = None, aggregate: bool = True,
    standing: Sequence[Standing] = (), draw: random.Random | None = None,
) -> Plan:  # fmt: skip
    """All requests, one of a worker at most, in slots or dropped.

    `version` is the model's once everything before those that stand has been applied. No update is applied with a delay beyond
    `bound`; None is without one. Aggregators are planned, or with a generator to `draw` from they are random. Raises ValueError for
    two requests of a worker.
    """
    if len({request.worker for request in requests}) < len(requests):
        raise ValueError("a worker has two updates that wait: it sends one at a time")
    planner = _Planner(requests, server, network, version, bound, aggregate, draw)
    for slot in standing:
        planner.stand(slot)
    return planner.plan()


class _Planner:
    def __init__(
        self, requests: Sequence[Request], server: int, network: Network, version: int, bound: int | None, aggregate: bool,
        draw: random.Random | None,
    ) -> None:  # fmt: skip
        self.requests, self.server, self.network = requests, server, network
        self.bound, self.aggregate, self.draw = bound, aggregate, draw
        self.version, self.total = version, version  # before the first slot, and after the last
        self.free = dict(network.free)
        self.slots: list[_Slot] = []
        self.at = np.zeros(0, np.int64)  # the version that each slot is applied at
        self.slack = np.zeros(0, np.int64)  # by how much each slot's updates may be later
        self.room: dict[Hashable, list[int]] = {}  # by rack: numbers of slots that may have room
        self.absorbing = dict(network.free)  # from when on links are free for what workers absorb
        fastest = max(network.rates.values(), default=0.0)
        self.least = min((r.size for r in requests), default=0.0) / fastest if fastest else 0.0  # seconds that a transfer takes
        self.dropped: list[Request] = []

    def stand(self, slot: Standing) -> None:
        """Let a slot be there before all others."""
        path = self.network.path(slot.first.worker, self.server)
        filled = self.network.free.get(self.network.path(self.server, slot.first.worker)[-1], 0.0)
        takes = self.network.seconds(slot.first.size, path)
        self._open(_Slot(slot.first, path, takes, slot.start, slot.start, filled, slot.members, stands=True))
        self.at = np.append(self.at, self.total)
        self.slack = np.append(self.slack, (self.bound or 0) - (self.total - slot.oldest))
        self.total += slot.members

    def plan(self) -> Plan:
        """See the function of that name."""
        stand = len(self.slots)
        room = np.zeros(len(self.requests), np.int64)
        self.at, self.slack = np.append(self.at, room), np.append(self.slack, room)
        for request, path, takes in self._shortest_first():
            if self.bound is None or self.total - request.version <= self.bound:
                self._append(request, path, takes)
            elif not self._absorb(request, len(self.slots)):
                self.dropped.append(request)
        for last in reversed(range(len(self.slots))):  # join earlier slots, as long as that makes the mean arrival earlier
            slot = self.slots[last]
            if not slot.stands and not slot.absorbed and self._absorb(slot.request, last):
                self._remove(last)
        joining = tuple((number, transfer) for number in range(stand) for transfer in self.slots[number].absorbed)
        return Plan(tuple(self._packed()), joining, tuple(self.dropped))

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
        self._open(_Slot(request, path, takes, start, start, request.ready))
        self.total += 1

    def _open(self, slot: _Slot) -> None:
        self._rack(slot.request).append(len(self.slots))
        self.slots.append(slot)

    def _rack(self, request: Request) -> list[int]:
        """Numbers of slots in the rack of the request's worker."""
        return self.room.setdefault(self.network.rack(request.worker), [])

    # --- aggregate

    def _absorb(self, request: Request, before: int) -> bool:
        """Assign the update to a slot below `before` that can take it: the slot's worker adds it to its own update.

        The slot may start later for it, if the total time lost is less than the time gained. A planned one starts a little later at
        most. One that is drawn at random has to receive the update from its turn on at the latest: else its links could be reserved
        for what waits for the slot.
        """
        if not self.aggregate:
            return False
        for number in self._aggregators(request, before):
            slot = self.slots[number]
            latest = slot.due + GUARD * slot.takes if self.draw is None else math.inf  # to have received it
            if slot.filled + self.least > latest:
                self._rack(slot.request).remove(number)  # it is full
                continue
            path = self.network.path(request.worker, slot.request.worker)
            begin = max(request.ready, slot.filled, *(self.absorbing.get(link, 0.0) for link in path))
            end = begin + self.network.seconds(request.size, path)
            late = max(0.0, end - slot.start)
            if end > latest or (self.draw and begin > slot.start) or (late and not self._worth(late, number, before)):
                continue
            self._join(number, before, late, Transfer(request, slot.request.worker, begin, end))
            self.absorbing.update(dict.fromkeys(path, end))
            return True
        return False

    def _aggregators(self, request: Request, before: int) -> Iterable[int]:
        """Slots below `before` whose workers may add the update: all in the order of their turns, or one that is drawn at random
        among the idle."""
        room, allowed = self._rack(request), self._allowed(request, before)
        below = room[: bisect_left(room, before)]
        fit = (number for number in below if request.size <= self.slots[number].request.size and allowed(number))
        if self.draw is None:
            return fit
        idle = [number for number in fit if self.slots[number].waits]
        return [self.draw.choice(idle)] if idle else []

    def _join(self, number: int, before: int, late: float, transfer: Transfer) -> None:
        """Put an update into a slot, which then starts `late` seconds later. It comes from slot `before`, or had none."""
        slot, request = self.slots[number], transfer.request
        slot.start += late
        for other in self.slots[number + 1 :] if late else ():
            other.start += late
            other.due += late
        self.at[number + 1 : before] += 1
        self.slack[number + 1 : before] -= 1
        self.slack[number] = min(self.slack[number], (self.bound or 0) - (self.at[number] - request.version))
        self.total += before == len(self.slots)
        slot.filled = transfer.end
        slot.absorbed.append(transfer)

    def _allowed(self, request: Request, before: int) -> Callable[[int], bool]:
        """Which slots below `before` an update may join, so that neither it nor the updates it overtakes exceed the bound."""
        if self.bound is None:
            return lambda number: True
        behind = np.append(np.minimum.accumulate(self.slack[1:before][::-1])[::-1], 1)  # of those behind each slot, the least
        fits = (self.at[:before] - request.version <= self.bound) & (behind >= 1)
        return lambda number: bool(fits[number])

    def _worth(self, late: float, number: int, before: int) -> bool:
        """Whether the mean arrival is earlier if the update of slot `before` joins this slot and starts it `late` s later."""
        if before == len(self.slots):
            return True  # it would be dropped
        slot, last = self.slots[number], self.slots[before]
        waiting = sum(other.members + len(other.absorbed) for other in self.slots[number:before])
        return late * waiting < (last.start + last.takes) - (slot.start + slot.takes + late)

    def _remove(self, number: int) -> None:
        """A slot whose update another has absorbed."""
        del self.slots[number]
        self.at = np.delete(self.at, number)
        self.slack = np.delete(self.slack, number)

    def _packed(self) -> Iterator[Slot]:
        """The slots, each as early as those before it allow."""
        free, version = dict(self.network.free), self.version
        for slot in self.slots:
            if slot.stands:
                version += slot.members + len(slot.absorbed)
                continue
            start = max(slot.request.ready, slot.filled, *(free.get(link, 0.0) for link in slot.path))
            for link in slot.path:
                free[link] = start + slot.takes
            packed = Slot(Transfer(slot.request, self.server, start, start + slot.takes), tuple(slot.absorbed), version)
            version += len(packed.members)
            yield packed
