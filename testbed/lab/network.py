"""A lab's network in virtual time: hosts and switches joined by links, one event after the other, the same each time.

A link sends one packet after the other at its rate, and each arrives after its delay. A switch takes no time, and its
queues do not overflow: what costs time is the wire. So results do not depend on the machine that runs the check.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from inalab.testbed.lab.lab import Failure

OVERHEAD = 24  # bytes of preamble, check sequence and gap that a frame takes beside its own
SHORTEST = 60  # bytes of a frame without its check sequence
LONGEST = 1514
RECENT = 16  # packets that are kept to be shown
MOST_TIMERS = 200_000  # that may be set in a run


class Device(Protocol):
    """A switch: what leaves because of a packet that arrives, at once."""

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]: ...


class HostOn(Protocol):
    """A host: the calls (kind, value) that it makes because of something; see testbed.lab.host."""

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]: ...
    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]: ...
    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]: ...


Loss = Callable[["Packet"], bool]
Watch = Callable[["Packet"], None]


@dataclass(frozen=True)
class Link:
    """`rate` in Mbit/s, `delay` in microseconds, for each direction."""

    rate: float = 100.0
    delay: float = 5.0


@dataclass(frozen=True)
class Packet:
    """A packet on a link, in one direction: `number` counts those of the direction, from 0."""

    time: float
    source: str
    target: str
    number: int
    data: bytes
    lost: bool = False


@dataclass
class Direction:
    """One direction of a link: where it leads, when it is free, and what it has carried."""

    target: str
    port: int
    link: Link
    free: float = 0.0
    packets: int = 0
    bytes: int = 0


@dataclass
class Network:
    """Nodes by name. `loss` decides of each packet on a link whether it is lost; `watch` sees all of them.

    An event of a node is handled before the next: its packets queue on its links.
    """

    loss: Loss | None = None
    watch: Watch | None = None
    switches: dict[str, Device] = field(default_factory=dict)
    hosts: dict[str, HostOn] = field(default_factory=dict)
    directions: dict[tuple[str, int], Direction] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, int] = field(default_factory=dict)  # bytes at each host until it finishes
    now: float = 0.0
    packets: int = 0
    lost: int = 0
    recent: deque[Packet] = field(default_factory=lambda: deque(maxlen=RECENT))
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: int = 0
    _timers_set: int = 0
    _timers: dict[tuple[str, str], int] = field(default_factory=dict)

    def join(self, first: str, first_port: int, second: str, second_port: int, link: Link = Link()) -> None:
        """A link between two nodes; a host's only port is 0."""
        for source, port, target, target_port in (
            (first, first_port, second, second_port),
            (second, second_port, first, first_port),
        ):
            self.directions[source, port] = Direction(target, target_port, link)

    def star(self, switch: str, device: Device, hosts: Mapping[str, HostOn], link: Link = Link(), first_port: int = 1) -> None:
        """A switch with one host at each port, from `first_port` on, in order."""
        self.switches[switch] = device
        for port, (name, host) in enumerate(hosts.items(), first_port):
            self.hosts[name] = host
            self.join(name, 0, switch, port, link)

    def run(
        self, given: Mapping[str, Mapping[str, Any]], until: float = 60e6, most_packets: int = 100_000, quiet: bool = False
    ) -> None:
        """Start every host with what is `given` to it, and go on until all have finished.

        With `quiet`, hosts need not finish: the run ends when nothing happens any more.

        Failure after `until` microseconds, `most_packets` packets on links, or MOST_TIMERS timers: something goes round, or nothing
        goes on.
        """
        for name in self.hosts:
            self._at(0.0, lambda name=name: self._take(name, self.hosts[name].start(self.now, **given.get(name, {}))))  # type: ignore[misc]
        while self._events and (quiet or len(self.finished) < len(self.hosts)):
            time, _, event = heapq.heappop(self._events)
            if time > until:
                raise Failure(f"after {until / 1e6:g} s of the network's time {self.unfinished()} not finished")
            self.now = time
            event()
            if self.packets > most_packets:
                why = "do packets go round, or are they sent again and again?"
                raise Failure(f"after {most_packets} packets {self.unfinished()} not finished: {why}")
        if len(self.finished) < len(self.hosts) and not quiet:
            raise Failure(f"nothing happens any more, no packet and no timer, and {self.unfinished()} not finished")

    def unfinished(self) -> str:
        """Which hosts have not finished, with their verb."""
        missing = [name for name in self.hosts if name not in self.finished]
        return f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'}"

    def bytes_between(self, source: str, target: str) -> int:
        """What links from one node to another have carried, without what a frame takes beside its bytes."""
        return sum(d.bytes for (name, _), d in self.directions.items() if name == source and d.target == target)

    def _at(self, time: float, event: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, event))

    def _send(self, source: str, port: int, data: bytes) -> None:
        direction = self.directions.get((source, port))
        if direction is None:
            return  # nothing is plugged in there
        if len(data) > LONGEST:
            raise Failure(f"{source} sends a packet of {len(data)} bytes; a link takes at most {LONGEST}")
        begin = max(self.now, direction.free)
        direction.free = begin + 8 * (max(len(data), SHORTEST) + OVERHEAD) / direction.link.rate
        packet = Packet(begin, source, direction.target, direction.packets, data)
        direction.packets += 1
        direction.bytes += len(data)
        self.packets += 1
        lost = self.loss is not None and self.loss(packet)
        packet = replace(packet, lost=lost)
        self.recent.append(packet)
        if self.watch is not None:
            self.watch(packet)
        if lost:
            self.lost += 1
            return
        self._at(direction.free + direction.link.delay, lambda: self._arrive(direction, data))

    def _arrive(self, direction: Direction, data: bytes) -> None:
        if direction.target in self.switches:
            for port, packet in self.switches[direction.target].send(direction.port, data):
                self._send(direction.target, port, packet)
        else:
            if direction.target not in self.finished:
                self.arrived[direction.target] = self.arrived.get(direction.target, 0) + len(data)
            self._take(direction.target, self.hosts[direction.target].receive(self.now, data))

    def _take(self, name: str, calls: Sequence[tuple[str, Any]]) -> None:
        """Carry out what a host has called."""
        for kind, value in calls:
            if kind == "send" and isinstance(value, bytes):
                self._send(name, 0, value)
            elif kind == "timer" and isinstance(value, list | tuple) and len(value) == 2:
                self._set_timer(name, float(value[0]), str(value[1]))
            elif kind == "cancel":
                self._timers.pop((name, str(value)), None)
            elif kind == "finish":
                self.results.setdefault(name, value)
                self.finished.setdefault(name, self.now)
            else:
                raise Failure(f"{name} calls {kind} with something that it does not take")

    def _set_timer(self, name: str, wait: float, timer: str) -> None:
        if not 0 <= wait < 1e9:
            raise Failure(f"{name} sets a timer of {wait} microseconds; it takes 0 to 1e9")
        self._timers_set += 1
        if self._timers_set > MOST_TIMERS:
            raise Failure(f"after {MOST_TIMERS} timers {self.unfinished()} not finished: are they set again and again?")
        self._order += 1
        armed = self._timers[name, timer] = self._order

        def expire() -> None:
            if self._timers.get((name, timer)) == armed:
                del self._timers[name, timer]
                self._take(name, self.hosts[name].expire(self.now, timer))

        self._at(self.now + wait, expire)


def losing(share: float, seed: int) -> Loss:
    """Lose that share of all packets on all links, by a seeded draw of each."""
    draw = random.Random(seed)
    return lambda packet: draw.random() < share


def losing_these(*lost: tuple[str, str, int]) -> Loss:
    """Lose the packets (source, target, number), and no other."""
    return lambda packet: (packet.source, packet.target, packet.number) in lost
