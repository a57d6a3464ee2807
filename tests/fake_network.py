"""A clock, and a socket whose other end a test plays: streams are driven packet by packet, in no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.switchml import wire

SIZES = ((wire.KIND_STATUS, wire.STATUS.itemsize), (atp_wire.KIND_STATUS, atp_wire.HEADER.itemsize))  # of SwitchML's, of ATP's
Answer = Callable[[np.ndarray, int], list[tuple[float, np.ndarray]]]  # to a packet for a peer: (seconds, packet) each


def rows_of(packets: np.ndarray) -> Datagrams:
    """Packets of one type, as a socket has them."""
    made = Datagrams(len(packets), packets.dtype.newbyteorder(">"))  # which np.concatenate does not keep
    made.data[:] = packets
    return made


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


class FakeSocket:
    """A BatchSocket on a network that the test plays.

    `sent` is (time, peer, packet) of everything that left, and `urgently` the times at which some of it was urgent.
    """

    def __init__(self, clock: Clock, answer: Answer, record: np.dtype, send_rows: int, receive_rows: int) -> None:
        self.clock, self.answer, self.record = clock, answer, record
        self.sender, self.receiver = Datagrams(send_rows, record), Datagrams(receive_rows, record)
        self.sent: list[tuple[float, int, np.ndarray]] = []
        self.coming: list[tuple[float, int, np.ndarray]] = []  # due, order, packet
        self.urgently: list[float] = []
        self.urgent = False
        self.closed = self.interrupted = False

    def send(self, rows: np.ndarray, length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        if self.urgent:
            self.urgently.append(self.clock.now)
        for row in rows:
            packet = self.sender.data[row : row + 1].copy()
            self.sent.append((self.clock.now, peer, packet[0]))
            for seconds, reply in self.answer(packet[0], peer):
                self.coming.append((self.clock.now + seconds, len(self.sent) + len(self.coming), reply))
        return len(rows)

    def wait(self, seconds: float, interrupt: int = -1) -> bool:
        due = min((when for when, _, _ in self.coming), default=float("inf"))
        self.clock.now = max(self.clock.now, min(due, self.clock.now + max(0.0, seconds)))
        return due <= self.clock.now

    def receive(self) -> Datagrams:
        here = sorted((c for c in self.coming if c[0] <= self.clock.now), key=lambda c: c[:2])
        self.coming = [c for c in self.coming if c[0] > self.clock.now]
        packets = rows_of(np.array([packet for _, _, packet in here], self.record))
        status, size = SIZES[self.record.names == atp_wire.packet(1).names]
        packets.lengths[packets.data["kind"] == status] = size
        return packets

    def set_urgent(self, urgent: bool) -> None:
        self.urgent = urgent

    def close(self) -> None:
        self.closed = True


def play(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> Clock:
    """Let streams that are made from now on live on a network where `answer` decides what comes back."""
    clock = Clock()

    def made(local: Any, peers: Any, record: np.dtype, send_rows: int, receive_rows: int, segments: int = 1) -> FakeSocket:
        return FakeSocket(clock, answer, record, send_rows, receive_rows)

    monkeypatch.setattr("inalab.hosts.stream.stream.BatchSocket", made)
    for module in ("inalab.hosts.stream.stream", "inalab.hosts.switchml.worker", "inalab.hosts.atp.worker"):
        monkeypatch.setattr(f"{module}.time", clock)
    return clock
