"""Messages over TCP, segment by segment (segments.c), as real workers' connections carry them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from inalab.hosts.cores import values
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.schemes.tcp import SEGMENT, TCP_FRAME
from inalab.switches.loss import mix
from inalab.testbed.simulator.costs import Known
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.plans import UNLIMITED, capacities_of, way_of
from inalab.testbed.simulator.traffic import Then, Traffic
from inalab.topologies.buckets import burst
from inalab.topologies.plan import NetworkPlan

WINDOWS = 18, 22  # segments: the least and the greatest, drawn for each connection (docs/reference/validation.md says where from)
MOST_CROSSINGS = 300_000_000  # of links by packets: some minutes
HEADERS = TCP_FRAME + PHYSICAL_BYTES - SEGMENT  # bytes on the wire beside a segment's data; an acknowledgment's have none
NO_MESSAGE = -1
HEADER = 48  # bytes of a message that is a header alone


class TcpTraffic(Traffic):
    """Messages in segments. The windows follow from the seed."""

    def __init__(self, plan: NetworkPlan, known: Known, seed: int) -> None:
        super().__init__(plan, known)
        self.seed = seed
        capacities = capacities_of(plan)
        made = SIMULATOR.c.wires_new(len(capacities))
        self._wires: Any = SIMULATOR.ffi.gc(made, SIMULATOR.c.wires_free)
        lines = values(made.wires, len(capacities))
        lines["rate"] = capacities
        lines["bucket"] = [8 * burst(rate / 1e6) / rate if rate < UNLIMITED else 0.0 for rate in capacities]
        made.delay, made.bits, made.header_bits = known.packets.delay, 8.0 * SEGMENT, 8.0 * HEADERS
        self._connections: dict[tuple[int, int], int] = {}
        self._steps = 0  # of all ways together
        self._messages, self._free = 0, list[int]()  # how many there are, and those that are free
        self._then: dict[int, Then] = {}  # by message

    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        self.send(source, destination, HEADER, call, *arguments)

    def send(
        self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any, weight: float = 1.0
    ) -> None:
        connection = self._connection((source, destination))
        message = self._message(max(1, round(octets)))
        self._then[message] = partial(call, *arguments)
        self._wires.now = self.now
        SIMULATOR.c.wires_send(self._wires, connection, message)

    def _go_on(self, until: float) -> bool:
        message = SIMULATOR.c.wires_go(self._wires, until, MOST_CROSSINGS)
        if self._wires.crossings.order >= MOST_CROSSINGS:
            often = f"a simulation whose segments cross links more than {MOST_CROSSINGS:,} times"
            raise ValueError(f"{often}: choose fewer workers, steps or elements")
        if message == NO_MESSAGE:
            self.now = until
            return until < np.inf
        self.now = float(self._wires.now)
        self._free.append(message)
        self._came(self._then.pop(message), 0)
        return True

    # --- room

    def _message(self, octets: int) -> int:
        if not self._free:
            self._free, self._messages = [self._messages], self._messages + 1
            SIMULATOR.c.wires_room(self._wires, 0, self._messages, 0)
        segments, message = -(-octets // SEGMENT), self._free.pop()
        its = self._wires.messages[message]
        its.sending = its.coming = segments
        its.last, its.following = 8.0 * (octets - (segments - 1) * SEGMENT + HEADERS), NO_MESSAGE
        return message

    def _connection(self, pair: tuple[int, int]) -> int:
        if pair not in self._connections:
            way = [*way_of(self.plan, *pair), *way_of(self.plan, *pair[::-1])]
            number = self._connections[pair] = len(self._connections)
            SIMULATOR.c.wires_room(self._wires, number + 1, 0, self._steps + len(way))
            self._wires.way[self._steps : self._steps + len(way)] = way
            least, greatest = WINDOWS
            its = self._wires.connections[number]
            its.first, its.links, its.flying, its.received = self._steps, len(way) // 2, 0, 0
            its.window = least + mix(self.seed ^ mix(pair[0] << 16 | pair[1])) % (greatest - least + 1)
            its.head = its.tail = NO_MESSAGE
            self._steps += len(way)
        return self._connections[pair]
