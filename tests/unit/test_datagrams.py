"""Batches of datagrams over loopback, cut by the kernel and, where it refuses that, one by one."""

from __future__ import annotations

import ctypes
import errno
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hosts import datagrams, wire
from hosts.datagrams import BatchSocket

RECORD = wire.packet(32)
ROWS = 40


def pair(segments: int) -> tuple[BatchSocket, BatchSocket]:
    """Two sockets connected to each other."""
    ports = iter(range(40_000, 60_000, 2))
    while True:
        a, b = ("127.0.0.1", port := next(ports)), ("127.0.0.1", port + 1)
        try:
            return BatchSocket(a, [b], RECORD, ROWS, ROWS, segments), BatchSocket(b, [a], RECORD, ROWS, ROWS)
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
        packets, lengths = receiver.receive()
        assert (lengths == RECORD.itemsize).all()
        assert (packets["vector"] == packets["chunk"][:, None]).all()
        got += packets["chunk"].tolist()
    assert got == rows.tolist()
    sender.send(rows[:2], wire.HEADER.itemsize)  # shorter ones, as a query is
    assert receiver.wait(2.0)
    assert receiver.receive()[1].tolist() == [wire.HEADER.itemsize] * 2
    sender.close()
    receiver.close()
    return sender


@pytest.mark.parametrize("segments", [1, 2, 7, 64])
def test_all_datagrams_arrive_in_order(segments: int) -> None:
    exchange(segments)


@pytest.mark.parametrize("refusal", [errno.EIO, errno.EINVAL])
def test_falls_back_where_the_kernel_refuses_to_cut(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    """Linux before 6.11 answers EIO on interfaces that compute no checksums."""
    real = datagrams._libc
    refused = []

    def sendmmsg(fd: int, messages: Any, count: int, flags: int) -> int:
        if not refused:
            refused.append(count)
            ctypes.set_errno(refusal)
            return -1
        return int(real.sendmmsg(fd, messages, count, flags))

    monkeypatch.setattr(datagrams, "_libc", SimpleNamespace(sendmmsg=sendmmsg, recvmmsg=real.recvmmsg))
    assert exchange(7).segments == 1
    assert refused == [6]  # 37 datagrams, 7 a message
