"""A clock, and a socket whose other end a test plays: streams are driven packet by packet, in no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.drivers.sockets import SocketDriver
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.stream.datagrams import Datagrams, lead
from inalab.hosts.stream.stream import Stream
from inalab.hosts.switchml import wire
from inalab.hosts.tcp.requests import Requests

SIZES = ((wire.KIND_STATUS, wire.STATUS.itemsize), (atp_wire.KIND_STATUS, atp_wire.HEADER.itemsize))  # of SwitchML's, of ATP's
UPDATES = (wire.KIND_UPDATE, atp_wire.KIND_GRADIENT)
Answer = Callable[[np.ndarray, int], list[tuple[float, np.ndarray]]]  # to a packet for a peer: (seconds, packet) each


def bare(packet: Any) -> Any:
    """A packet of either scheme as one that has a tag, and ATP's an exponent, in place of its vector, whose first bytes they are."""
    record = atp_wire.BARE if packet.dtype.names == atp_wire.packet(1).names else wire.BARE
    return np.frombuffer(packet.tobytes()[: record.itemsize], record)[0].copy()


def is_bare(packet: Any) -> bool:
    return packet.dtype.names in (wire.BARE.names, atp_wire.BARE.names)


def arrived(packets: list[np.ndarray], record: np.dtype) -> Datagrams:
    """Packets as a socket has them, each of its own length."""
    made, start = rows_of(np.zeros(len(packets), record)), lead(record)
    status, size = SIZES[record.names == atp_wire.packet(1).names]
    for row, packet in enumerate(packets):
        made.octets[row, start : start + packet.nbytes] = np.frombuffer(packet.tobytes(), np.uint8)
        made.lengths[row] = size if packet["kind"] == status else packet.nbytes
    return made


def rows_of(packets: np.ndarray) -> Datagrams:
    """Packets of one type, as a socket has them."""
    made = Datagrams(len(packets), packets.dtype.newbyteorder(">"))  # which np.concatenate does not keep
    made.data[:] = packets
    return made


class Clock(SocketDriver):
    """Stands for the module `time`, and for a driver whose time passes as the test has it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


class FakeSocket:
    """A host's end on a network that the test plays (hosts.drivers.driver.Endpoint).

    `sent` is (time, peer, packet) of everything that left, and `urgently` the times at which some of it was urgent.
    """

    def __init__(self, clock: Clock, answer: Answer, sender: Datagrams) -> None:
        self.clock, self.answer, self.sender = clock, answer, sender
        self.sent: list[tuple[float, int, np.ndarray]] = []
        self.coming: list[tuple[float, int, np.ndarray]] = []  # due, order, packet
        self.urgently: list[float] = []
        self.urgent = False
        self.closed = self.interrupted = False

    def send(self, rows: np.ndarray, length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        if self.urgent:
            self.urgently.append(self.clock.now)
        for row in rows:
            packet = self.sender.data[row : row + 1].copy()[0]
            if length != packet.nbytes and "part" in packet.dtype.names:
                plain = wire.packet(len(packet["vector"]))
                packet = np.frombuffer(packet.tobytes()[: plain.itemsize], plain)[0].copy()
            if length in (wire.BARE.itemsize, atp_wire.BARE.itemsize) and packet["kind"] in UPDATES:
                packet = bare(packet)
            self.sent.append((self.clock.now, peer, packet))
            for seconds, reply in self.answer(packet, peer):
                self.coming.append((self.clock.now + seconds, len(self.sent) + len(self.coming), reply))
        return len(rows)

    def wait(self, seconds: float, interrupt: int = -1) -> bool:
        due = min((when for when, _, _ in self.coming), default=float("inf"))
        self.clock.now = max(self.clock.now, min(due, self.clock.now + max(0.0, seconds)))
        return due <= self.clock.now

    def receive(self) -> Datagrams:
        here = sorted((c for c in self.coming if c[0] <= self.clock.now), key=lambda c: c[:2])
        self.coming = [c for c in self.coming if c[0] > self.clock.now]
        return arrived([packet for _, _, packet in here], self.sender.record)

    def drive(self, core: Stream, until: float, interrupt: int = -1) -> bool:
        return False

    def set_urgent(self, urgent: bool) -> None:
        self.urgent = urgent

    def close(self) -> None:
        self.closed = True


class FakeNetwork(Clock):
    """A hosts.drivers.driver.Driver: a network where `answer` decides what comes back. Servers are asked nothing."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def datagrams(self, local: Any, peers: Any, sender: Datagrams, receive_rows: int, *_: Any) -> FakeSocket:
        return FakeSocket(self, self.answer, sender)

    def requests(self, *of: Any) -> Requests:
        return Requests({})


def driven(core: Stream, network: FakeNetwork, pulse: Callable[[], str | None] | None = None) -> tuple[StreamDriver, Any]:
    """A core on this network, and its socket there."""
    made = StreamDriver(core, network, ("", 0), [("", 0)] * len(core.timers), pulse)
    return made, made.endpoint
