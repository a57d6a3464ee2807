"""The twin of testbed.simulator.tcp in plain Python: objects in place of arrays, queues in place of times until which links are busy."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from inalab.switches.loss import mix
from inalab.testbed.simulator.costs import Known
from inalab.testbed.simulator.tcp import HEADER, WINDOWS
from inalab.testbed.simulator.traffic import Then, Traffic
from inalab.topologies.buckets import burst
from inalab.topologies.plan import NetworkPlan

DATA, HEADERS = 1448, 90  # bytes of a full segment, and on the wire beside its data


@dataclass(eq=False)
class Message:
    sizes: deque[int]  # of the segments that have not been sent
    missing: int  # segments that have not come
    then: Then


@dataclass(eq=False)
class Connection:
    there: list[int]
    back: list[int]
    window: int
    flying: int = 0
    unacknowledged: int = 0
    messages: deque[Message] = field(default_factory=deque)


@dataclass
class Bucket:
    """A link in one direction: its tokens are bits, and what finds too few waits until there are as many as it takes."""

    rate: float
    size: float
    tokens: float = 0.0
    counted: float = 0.0  # when

    def __post_init__(self) -> None:
        self.tokens = self.size

    def leaves(self, now: float, bits: float) -> float:
        """When a packet that comes now has left: everything before it has been counted already."""
        if not self.rate:
            return now
        self.tokens = min(self.size, self.tokens + (now - self.counted) * self.rate) - bits
        self.counted = now
        return now + max(0.0, -self.tokens / self.rate)


class TcpTwin(Traffic):
    """Messages in segments."""

    def __init__(self, plan: NetworkPlan, known: Known, seed: int) -> None:
        super().__init__(plan, known)
        self.seed = seed
        rates = [link.rate or 0.0 for link in plan.links for _ in range(2)]
        self.lines = [Bucket(rate * 1e6, 8.0 * burst(rate) if rate else 0.0) for rate in rates]
        self.connections: dict[tuple[int, int], Connection] = {}
        self.packets: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.came_now = False

    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        self.send(source, destination, HEADER, call, *arguments)

    def send(
        self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any, weight: float = 1.0
    ) -> None:
        if (source, destination) not in self.connections:
            there, back = (
                [2 * link + (not up) for link, up in self.plan.path(self.plan.everyone[a], self.plan.everyone[b])]
                for a, b in ((source, destination), (destination, source))
            )
            drawn = mix(self.seed ^ mix(source << 16 | destination)) % (WINDOWS[1] - WINDOWS[0] + 1)
            self.connections[source, destination] = Connection(there, back, WINDOWS[0] + drawn)
        whole, rest = divmod(max(1, round(octets)), DATA)
        sizes = deque([DATA] * whole + [rest] * bool(rest))
        connection = self.connections[source, destination]
        connection.messages.append(Message(sizes, len(sizes), partial(call, *arguments)))
        self._pump(connection)

    def _go_on(self, until: float) -> bool:
        self.came_now = False
        while self.packets and self.packets[0][0] <= until:
            self.now, _, arrive = heapq.heappop(self.packets)
            arrive()
            if self.came_now:
                return True
        self.now = until
        return until < float("inf")

    def _cross(self, way: list[int], bits: float, then: Callable[[], None]) -> None:
        """Over all links of a way, one after another."""
        if not way:
            then()
            return
        over = self.lines[way[0]].leaves(self.now, bits) + self.known.packets.delay
        heapq.heappush(self.packets, (over, next(self.numbers), partial(self._cross, way[1:], bits, then)))

    def _pump(self, connection: Connection) -> None:
        while connection.messages and connection.flying < connection.window:
            message = connection.messages[0]
            bits = 8.0 * (message.sizes.popleft() + HEADERS)
            connection.flying += 1
            if not message.sizes:
                connection.messages.popleft()
            self._cross(connection.there, bits, partial(self._receive, connection, message))

    def _receive(self, connection: Connection, message: Message) -> None:
        message.missing -= 1
        connection.unacknowledged += 1
        if connection.unacknowledged == 2 or not message.missing:
            self._cross(connection.back, 8.0 * HEADERS, partial(self._acknowledged, connection, connection.unacknowledged))
            connection.unacknowledged = 0
        if not message.missing:
            self.came_now = True
            self._came(message.then, 0)

    def _acknowledged(self, connection: Connection, segments: int) -> None:
        connection.flying -= segments
        self._pump(connection)
