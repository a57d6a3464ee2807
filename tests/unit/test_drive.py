"""A stream over sockets of this machine: the loop in C (batch.c) goes on until there is something for others to do."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError, Membership
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML

K, SLOTS, EPOCH = 32, 8, 9
ALONE = Membership(3, 0, 1, [[0]])
Answer = Callable[[bytes], list[bytes]]


def result(update: bytes) -> bytes:
    """Of a job of one worker."""
    made = bytearray(update)
    made[wire.HEADER.fields["kind"][1]] = wire.KIND_RESULT  # type: ignore[index]
    return bytes(made)


def kind(packet: bytes) -> int:
    return packet[wire.HEADER.fields["kind"][1]]  # type: ignore[index]


@contextmanager
def worker(answer: Answer, patience: float = 30.0) -> Iterator[StreamDriver]:
    """A worker whose switch is a thread."""
    switch = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    switch.bind(("127.0.0.1", 0))
    over = threading.Event()

    def run() -> None:
        while True:
            packet, source = switch.recvfrom(65535)
            if over.is_set():
                return
            for reply in answer(packet):
                switch.sendto(reply, source)

    thread = threading.Thread(target=run)
    thread.start()
    made = StreamDriver(SwitchML(ALONE, EPOCH, SLOTS, K, patience), SOCKETS, ("127.0.0.1", 0), [switch.getsockname()])
    try:
        yield made
    finally:
        over.set()
        made.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", switch.getsockname())
        thread.join()
        switch.close()


@pytest.mark.parametrize("elements", [1, SLOTS * K, 100 * K + 5])
def test_sums_come_out_without_python_in_between(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamDriver, "_receive", lambda self: pytest.fail("a packet went through Python"))
    x = np.linspace(-1, 1, elements, dtype=np.float32)
    with worker(lambda packet: [result(packet)]) as made:
        for _ in range(3):
            np.testing.assert_allclose(made.all_reduce(x), x, atol=1e-6)


def test_what_is_lost_is_sent_again() -> None:
    """The first packet of every third chunk is lost; the switch lacks it, and says so."""
    had: set[bytes] = set()

    def answer(packet: bytes) -> list[bytes]:
        number = packet[12:16]
        if kind(packet) == wire.KIND_QUERY:
            return [packet[:2] + bytes([wire.KIND_STATUS]) + packet[3:7] + b"\0" + packet[8:16] + b"\0" * 4]
        first = number not in had
        had.add(number)
        return [] if first and number[3] % 3 == 0 else [result(packet)]

    x = np.arange(60 * K, dtype=np.int32)
    with worker(answer) as made:
        np.testing.assert_array_equal(made.all_reduce(x), x)
        assert made.counters.retransmissions >= 20 and made.counters.queries > 0


def test_an_interruption_ends_the_wait_and_the_sum_goes_on() -> None:
    held: list[bytes] = []
    open_ = threading.Event()

    def answer(packet: bytes) -> list[bytes]:
        if kind(packet) == wire.KIND_UPDATE:
            held.append(packet)
        if not open_.is_set():
            return []
        given, held[:] = [result(one) for one in held], []
        return given

    signal = SOCKETS.signal()
    x = np.arange(3 * K, dtype=np.int32)
    with worker(answer) as made:
        started = made.start(x)
        signal.set()
        assert not made.advance(started, signal.descriptor) and made.core.inquiry is None
        signal.take()
        open_.set()
        assert made.advance(started)
        np.testing.assert_array_equal(started.total, x)
    signal.close()


def test_a_silent_switch_is_an_error_after_the_workers_patience() -> None:
    with worker(lambda packet: [], patience=0.3) as made, pytest.raises(AggregationError, match=r"nothing arrived for 0\.3 s"):
        made.all_reduce(np.arange(3 * K, dtype=np.int32))


def test_a_signal_is_taken_as_often_as_it_happened() -> None:
    signal = SOCKETS.signal()
    for _ in range(3):
        signal.set()
    for _ in range(3):
        signal.take()
    with pytest.raises(BlockingIOError):
        os.set_blocking(signal.descriptor, False)
        signal.take()
    signal.close()
