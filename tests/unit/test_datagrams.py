"""Batches of datagrams over loopback, cut by the kernel and, where it refuses that, one by one."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.drivers import sockets
from inalab.hosts.drivers.sockets import BatchSocket
from inalab.hosts.stream.datagrams import Datagrams, lead
from inalab.hosts.switchml import wire

RECORD = wire.packet(32)
ROWS = 40
BATCH = [name for name in dir(sockets.library()) if name.startswith("batch_")]


def pair(segments: int) -> tuple[BatchSocket, BatchSocket]:
    """Two sockets connected to each other."""
    ports = iter(range(40_000, 60_000, 2))
    while True:
        a, b = ("127.0.0.1", port := next(ports)), ("127.0.0.1", port + 1)
        try:
            return BatchSocket(a, [b], Datagrams(ROWS, RECORD), ROWS, segments), BatchSocket(b, [a], Datagrams(ROWS, RECORD), ROWS)
        except OSError as error:
            assert error.errno == errno.EADDRINUSE


def exchange(segments: int) -> BatchSocket:
    """Send rows in a mixed order, and check that all arrive whole; the sending socket."""
    sender, receiver = pair(segments)
    sender.sender.data["chunk"] = np.arange(ROWS)
    sender.sender.data["vector"] = np.arange(ROWS)[:, None]
    rows = np.random.default_rng(1).permutation(ROWS)[:-3]
    assert sender.send(rows) == len(rows)
    got: list[int] = []
    while len(got) < len(rows):
        assert receiver.wait(2.0)
        packets = receiver.receive()
        assert (packets.lengths == RECORD.itemsize).all()
        assert (packets.data["vector"] == packets.data["chunk"][:, None]).all()
        got += packets.data["chunk"].tolist()
    assert got == rows.tolist()
    sender.send(rows[:2], wire.HEADER.itemsize)  # shorter ones, as a query is
    assert receiver.wait(2.0)
    assert receiver.receive().lengths.tolist() == [wire.HEADER.itemsize] * 2
    sender.close()
    receiver.close()
    return sender


@pytest.mark.parametrize("segments", [1, 2, 7, 64])
def test_all_datagrams_arrive_in_order(segments: int) -> None:
    exchange(segments)


@pytest.mark.parametrize("refusal", [errno.EIO, errno.EINVAL])
def test_falls_back_where_the_kernel_refuses_to_cut(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    """Linux before 6.11 answers EIO on interfaces that compute no checksums."""
    real = sockets.library()
    together = []

    def batch_send(batch: Any, rows: Any, count: int, length: int, segments: int, peer: int) -> int:
        together.append(segments)
        return -refusal if segments > 1 else int(real.batch_send(batch, rows, count, length, segments, peer))

    changed = SimpleNamespace(batch_send=batch_send, **{name: getattr(real, name) for name in BATCH if name != "batch_send"})
    monkeypatch.setattr(sockets, "library", lambda: changed)
    assert exchange(7).segments == 1
    assert together[:2] == [7, 1]


def test_only_peers_are_heard() -> None:
    """With several peers, too, of whom the kernel knows nothing; the same address with another port is a stranger."""
    ports = iter(range(41_000, 60_000, 4))
    while True:
        first = next(ports)
        addresses = [("127.0.0.1", first + i) for i in range(4)]
        try:
            receiver = BatchSocket(addresses[0], addresses[1:3], Datagrams(ROWS, RECORD), ROWS)
            senders = [BatchSocket(address, [addresses[0]], Datagrams(ROWS, RECORD), ROWS) for address in addresses[1:]]
            break
        except OSError as error:
            assert error.errno == errno.EADDRINUSE
    got = []
    for turn in range(3):
        for i, sender in enumerate(senders):
            sender.sender.data["chunk"] = 10 * turn + i
            assert sender.send(np.arange(2)) == 2
        assert receiver.wait(2.0)
        packets = receiver.receive()
        assert (packets.lengths == RECORD.itemsize).all()
        got += packets.data["chunk"].tolist()
    assert got == [0, 0, 1, 1, 10, 10, 11, 11, 20, 20, 21, 21]
    for made in [receiver, *senders]:
        made.close()


def test_what_came_before_a_socket_is_connected_is_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes it in between, from whomever it is."""

    class Surprised(socket.socket):
        def connect(self, address: Any) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(3):
                    stranger.sendto(bytes(RECORD.itemsize), self.getsockname())
            assert select.select([self], [], [], 2.0)[0]
            super().connect(address)

    monkeypatch.setattr(sockets.socket, "socket", Surprised)
    made = BatchSocket(("127.0.0.1", 0), [("127.0.0.1", 9)], Datagrams(ROWS, RECORD), ROWS)
    try:
        assert not made.wait(0.0)
        assert not len(made.receive())
    finally:
        made.close()


def test_only_the_descriptor_that_is_given_ends_a_wait() -> None:
    made = BatchSocket(("127.0.0.1", 0), [("127.0.0.1", 9)], Datagrams(ROWS, RECORD), ROWS)
    event = os.eventfd(1)
    try:
        assert not made.wait(600, event) and made.interrupted
        begun = time.monotonic()
        assert not made.wait(0.1) and not made.interrupted and time.monotonic() - begun > 0.09
        os.eventfd_read(event)
        assert not made.wait(0.01, event) and not made.interrupted
    finally:
        os.close(event)
        made.close()


@pytest.mark.parametrize("row", [-1, ROWS])
def test_only_rows_that_are_there_are_sent(row: int) -> None:
    sender, _ = pair(1)
    with pytest.raises(IndexError, match=f"there are {ROWS}"):
        sender.send(np.array([0, row]))


@pytest.mark.parametrize("record", [wire.packet(8), atp_wire.packet(8)], ids=["SwitchML", "ATP"])
def test_integers_are_whole_words_whatever_the_header(record: np.dtype) -> None:
    made = Datagrams(3, record)
    made.data["vector"] = np.arange(24).reshape(3, 8)
    assert made.data["vector"].__array_interface__["data"][0] % 4 == made.stride % 4 == 0
    assert made.octets[1, lead(record) :].tobytes() == made.data[1].tobytes()
    assert made.base + made.stride == made.data[1:].__array_interface__["data"][0]


def test_an_atp_worker_hears_its_servers_alone() -> None:
    """Several peers: what others send is left out, wherever it is among the rest."""
    record = atp_wire.packet(8)
    ends = [BatchSocket(("127.0.0.1", 0), [("127.0.0.1", 9)], Datagrams(4, record), 4) for _ in range(3)]
    addresses = [made.socket.getsockname() for made in ends]
    receiver = BatchSocket(("127.0.0.1", 0), addresses[:2], Datagrams(8, record), 16)
    to = receiver.socket.getsockname()
    for turn in range(3):
        for i, made in enumerate(ends):
            made.sender.data["owner"], made.sender.data["vector"] = 10 * turn + i, i
            made.socket.sendto(made.sender.data[0].tobytes(), to)
    while not receiver.wait(0.1):
        pass
    time.sleep(0.1)
    came = receiver.receive()
    assert came.data["owner"].tolist() == [0, 1, 10, 11, 20, 21]
    assert came.data["vector"][:, 7].tolist() == [0, 1] * 3 and came.lengths.tolist() == [record.itemsize] * 6
    for made in [receiver, *ends]:
        made.close()


def test_what_is_longer_than_a_packet_is_none() -> None:
    sender, receiver = pair(1)
    sender.socket.send(b"\0" * RECORD.itemsize)
    sender.socket.send(b"\0" * (RECORD.itemsize + 1))
    sender.socket.send(b"\0" * RECORD.itemsize)
    time.sleep(0.1)
    assert receiver.receive().lengths.tolist() == [RECORD.itemsize, 0, RECORD.itemsize]
    sender.close()
    receiver.close()
