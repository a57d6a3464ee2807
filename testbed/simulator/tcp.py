"""Messages over TCP, segment by segment (testbed.simulator.segments), as real workers' connections carry them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.schemes.tcp import SEGMENT
from inalab.testbed.simulator.costs import Known
from inalab.testbed.simulator.losses import mix
from inalab.testbed.simulator.plans import UNLIMITED, capacities_of, way_of
from inalab.testbed.simulator.segments import (
    CONNECTION_FIELDS,
    FREE,
    FULL,
    HEADERS,
    LINE_FIELDS,
    MESSAGE_FIELDS,
    MOST,
    NONE,
    ORDER,
    PACKET_FIELDS,
    STATES,
    UNDER_WAY,
    Wires,
    go,
    pump,
)
from inalab.testbed.simulator.traffic import Then, Traffic
from inalab.topologies.buckets import burst
from inalab.topologies.plan import NetworkPlan

WINDOWS = 18, 22  # segments: the least and the greatest, drawn for each connection (docs/reference/validation.md says where from)
MOST_CROSSINGS = 300_000_000  # of links by packets: some minutes
HEADER = 48  # bytes of a message that is a header alone


class TcpTraffic(Traffic):
    """Messages in segments. The windows follow from the seed."""

    def __init__(self, plan: NetworkPlan, known: Known, seed: int) -> None:
        super().__init__(plan, known)
        self.seed = seed
        capacities = capacities_of(plan)
        lines = np.zeros(len(capacities), LINE_FIELDS)
        lines["rate"] = capacities
        lines["bucket"] = [8 * burst(rate / 1e6) / rate if rate < UNLIMITED else 0.0 for rate in capacities]
        self._wires = Wires(
            np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(STATES, np.int64),
            np.array([0.0, known.packets.delay]), np.zeros(0, PACKET_FIELDS), np.zeros(64, CONNECTION_FIELDS),
            np.zeros(64, MESSAGE_FIELDS), np.zeros(256, np.int64), lines,
        )  # fmt: skip
        self._make_room()
        self._connections: dict[tuple[int, int], int] = {}
        self._steps = 0  # of all ways together
        self._free = list(range(64))  # messages
        self._then: dict[int, Then] = {}  # by message

    def tell(self, source: int, destination: int, call: Callable[..., None], *arguments: Any) -> None:
        self.send(source, destination, HEADER, call, *arguments)

    def send(
        self, source: int, destination: int, octets: float, call: Callable[..., None], *arguments: Any, weight: float = 1.0
    ) -> None:
        connection = self._connection((source, destination))
        message = self._message(max(1, round(octets)))
        self._then[message] = partial(call, *arguments)
        its = self._wires.connections[connection]
        if its["head"] < 0:
            its["head"] = message
        else:
            self._wires.messages[its["tail"]]["following"] = message
        its["tail"] = message
        if self._wires.state[UNDER_WAY] + MOST > len(self._wires.packets):
            self._make_room()
        self._wires.clock[0] = self.now
        pump(self._wires, connection)

    def _go_on(self, until: float) -> bool:
        while (message := go(self._wires, until, MOST_CROSSINGS)) == FULL:
            self._make_room()
        if self._wires.state[ORDER] >= MOST_CROSSINGS:
            often = f"a simulation whose segments cross links more than {MOST_CROSSINGS:,} times"
            raise ValueError(f"{often}: choose fewer workers, steps or elements")
        if message == NONE:
            self.now = until
            return until < np.inf
        self.now = float(self._wires.clock[0])
        self._free.append(message)
        self._came(self._then.pop(message), 0)
        return True

    # --- room

    def _message(self, octets: int) -> int:
        if not self._free:
            before = len(self._wires.messages)
            self._free = list(range(before, 2 * before))
            self._wires = self._wires._replace(messages=_doubled(self._wires.messages))
        segments = -(-octets // SEGMENT)
        last = 8.0 * (octets - (segments - 1) * SEGMENT + HEADERS)
        message = self._free.pop()
        self._wires.messages[message] = segments, segments, last, NONE
        return message

    def _connection(self, pair: tuple[int, int]) -> int:
        if pair not in self._connections:
            way = [*way_of(self.plan, *pair), *way_of(self.plan, *pair[::-1])]
            number = self._connections[pair] = len(self._connections)
            if number == len(self._wires.connections):
                self._wires = self._wires._replace(connections=_doubled(self._wires.connections))
            if self._steps + len(way) > len(self._wires.way):
                self._wires = self._wires._replace(way=_doubled(self._wires.way))
            self._wires.way[self._steps : self._steps + len(way)] = way
            least, greatest = WINDOWS
            window = least + mix(self.seed ^ mix(pair[0] << 16 | pair[1])) % (greatest - least + 1)
            self._wires.connections[number] = self._steps, len(way) // 2, window, 0, NONE, NONE, 0
            self._steps += len(way)
        return self._connections[pair]

    def _make_room(self) -> None:
        """For twice as many packets: those that are new are free."""
        before = len(self._wires.packets)
        more = max(1 << 12, before)
        packets = np.concatenate([self._wires.packets, np.zeros(more, PACKET_FIELDS)])
        packets["connection"][before:] = np.arange(before + 1, before + more + 1)
        packets["connection"][-1] = self._wires.state[FREE]
        self._wires.state[FREE] = before
        times, orders, whats = (np.concatenate([its, np.zeros(more, its.dtype)]) for its in self._wires[:3])
        self._wires = self._wires._replace(times=times, orders=orders, whats=whats, packets=packets)


def _doubled(records: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([records, np.zeros_like(records)])
