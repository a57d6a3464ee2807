"""What testbed.simulator.switchml does, in plain Python: objects and a list of events, without its arrays and its heap."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Line:
    """What does one thing after another: a link, a host, a switch."""

    takes: float
    free: float = 0.0

    def after(self, now: float) -> float:
        """When it is done with what comes now."""
        self.free = max(now, self.free) + self.takes
        return self.free


@dataclass
class Worker:
    """`slot_next` is the number of the packet that a slot carries next."""

    rack: int
    host: Line
    up: Line
    down: Line
    left: int
    slot_next: dict[int, int] = field(default_factory=dict)
    ended: float = 0.0


class Twin:
    """The same network, the same sum; `trace` is what happened: (time, kind, who, slot)."""

    def __init__(
        self, racks: Sequence[int], links: Sequence[float], uplinks: Sequence[float], packets: int, slots: int,
        begun: Sequence[float], host: float, switch: float, delay: float,
    ) -> None:  # fmt: skip
        self.packets, self.slots, self.delay = packets, min(slots, packets), delay
        self.workers = [
            Worker(rack, Line(host, start), Line(link), Line(link), packets)
            for rack, link, start in zip(racks, links, begun, strict=True)
        ]
        self.racks = sorted(set(racks))
        self.switches = {rack: Line(switch) for rack in self.racks} | {"root": Line(switch)}
        self.trunks = {rack: (Line(uplinks[rack]), Line(uplinks[rack])) for rack in self.racks} if len(self.racks) > 1 else {}
        self.seen: dict[tuple[Any, int], set[int]] = {}
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.order = 0
        self.trace: list[tuple[float, str, int, int]] = []

    def run(self) -> list[float]:
        for number, worker in enumerate(self.workers):
            for slot in range(self.slots):
                worker.slot_next[slot] = slot + self.slots
                self.send(number, slot)
        while self.events:
            now, _, what, given = heapq.heappop(self.events)
            self.trace.append((now, what.__name__, *given))
            what(now, *given)
        return [worker.ended for worker in self.workers]

    def at(self, time: float, what: Callable[..., None], *given: int) -> None:
        heapq.heappush(self.events, (time + self.delay, self.order, what, given))
        self.order += 1

    def send(self, number: int, slot: int, now: float = 0.0) -> None:
        worker = self.workers[number]
        self.at(worker.up.after(worker.host.after(now)), self.at_rack, number, slot)

    def complete(self, place: Any, slot: int, child: int, children: int) -> bool:
        seen = self.seen.setdefault((place, slot), set())
        assert child not in seen
        seen.add(child)
        if len(seen) < children:
            return False
        seen.clear()
        return True

    def at_rack(self, now: float, number: int, slot: int) -> None:
        rack = self.workers[number].rack
        done = self.switches[rack].after(now)
        if self.complete(rack, slot, number, sum(worker.rack == rack for worker in self.workers)):
            if self.trunks:
                self.at(self.trunks[rack][0].after(done), self.at_root, rack, slot)
            else:
                self.multicast(rack, slot)

    def at_root(self, now: float, rack: int, slot: int) -> None:
        done = self.switches["root"].after(now)
        if self.complete("root", slot, rack, len(self.racks)):
            for child in self.racks:
                self.at(self.trunks[child][1].after(done), self.down_at_rack, child, slot)

    def down_at_rack(self, now: float, rack: int, slot: int) -> None:
        self.switches[rack].after(now)
        self.multicast(rack, slot)

    def multicast(self, rack: int, slot: int) -> None:
        for number, worker in enumerate(self.workers):
            if worker.rack == rack:
                self.at(worker.down.after(self.switches[rack].free), self.at_worker, number, slot)

    def at_worker(self, now: float, number: int, slot: int) -> None:
        worker = self.workers[number]
        when = worker.host.after(now)
        worker.left -= 1
        if not worker.left:
            worker.ended = when
        if worker.slot_next[slot] < self.packets:
            worker.slot_next[slot] += self.slots
            self.send(number, slot, now)
