"""Workers over TCP find each other, whoever else connects, and refuse sums that cannot be right."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError, Membership
from inalab.hosts.tcp.connection import MeetingError
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.meeting import GREETING, await_group, meet
from inalab.hosts.tcp.pairwise import TCP_PORT, Pairwise, Server
from tests.scheduled import SCHEDULES

PEERS = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]
EPOCH = 7


def worker(rank: int, size: int, scheme: str = "ring", epoch: int = EPOCH, servers: int = 0) -> Pairwise:
    membership = Membership(0, rank, size, [list(range(size))])
    return Pairwise(Group(membership, PEERS[: size + servers], epoch, patience=10.0), SCHEDULES[scheme](size, servers))


def together(*works: Callable[[], Any]) -> list[Any]:
    """What each returns or raises; all at once."""
    found: list[Any] = [None] * len(works)

    def run(i: int) -> None:
        try:
            found[i] = works[i]()
        except Exception as error:
            found[i] = error

    threads = [Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert not any(thread.is_alive() for thread in threads)
    return found


def connected(address: str, own: str = "") -> socket.socket:
    while True:
        try:
            return socket.create_connection((address, TCP_PORT), timeout=5, source_address=(own, 0) if own else None)
        except ConnectionRefusedError:
            time.sleep(0.01)


def test_strangers_neither_hold_a_meeting_nor_take_part() -> None:
    """Connections that were given up, say nothing, say too little, or say what is not theirs to say."""
    strangers: list[socket.socket] = []

    def disturb() -> Any:
        words = [(b"", True), (b"\0", True), (b"", False), (b"\0\0", False), (GREETING.pack(9, EPOCH), False)]
        words += [(GREETING.pack(1, EPOCH - 1), False), (GREETING.pack(1, EPOCH + 1), False), (GREETING.pack(0, EPOCH), False)]
        for sentences, gives_up in words:
            made = connected(PEERS[0], PEERS[1])
            made.sendall(sentences)
            made.close() if gives_up else strangers.append(made)
        made = connected(PEERS[0], PEERS[2])  # another address than worker 1's
        made.sendall(GREETING.pack(1, EPOCH))
        strangers.append(made)
        return total(1)

    def total(rank: int) -> Any:
        node = worker(rank, 2)
        found = node.all_reduce(np.arange(5, dtype=np.int32))
        node.close()
        return found

    for found in together(lambda: total(0), disturb):
        np.testing.assert_array_equal(found, 2 * np.arange(5))
    for made in strangers:
        made.close()


def test_who_does_not_come_is_named() -> None:
    with pytest.raises(MeetingError, match="node 1 did not connect"):
        meet(0, [1], 2, PEERS[:2], TCP_PORT, 0.3, EPOCH)
    with pytest.raises(MeetingError, match="node 0 cannot be reached"):
        meet(1, [0], 2, PEERS[:2], TCP_PORT, 0.3, EPOCH)


def test_a_server_follows_the_newest_group_and_ends_when_it_is_over() -> None:
    assert await_group(1, [0], PEERS[:2], TCP_PORT, 5, over=lambda: True) is None
    meeting = together(
        lambda: await_group(2, [0, 1], PEERS[:3], TCP_PORT, 5, over=lambda: False),
        *(lambda rank=rank, epoch=epoch: greet(rank, epoch) for rank, epoch in ((0, 4), (0, 6), (1, 6))),
    )[0]
    assert (meeting.epoch, sorted(meeting.connections)) == (6, [0, 1])
    meeting.close()

    def late() -> Any:
        with pytest.raises(MeetingError, match="node 1 did not connect"):
            await_group(2, [0, 1], PEERS[:3], TCP_PORT, 0.3, over=lambda: False)

    assert together(late, lambda: greet(0, 4))[0] is None


def greet(rank: int, epoch: int) -> None:
    time.sleep(0.1 * (epoch - 4))
    made = connected(PEERS[2], PEERS[rank])
    made.sendall(GREETING.pack(rank, epoch))
    time.sleep(0.6)
    made.close()


@pytest.mark.parametrize("scheme", ["ring", "halving-doubling", "ps-sharded", "tree"])
def test_different_tensors_are_an_error_on_every_worker(scheme: str) -> None:
    tensors = [np.ones(1000, np.float32), np.ones(1000, np.int32), np.ones(1000, np.float32), np.ones(1000, np.float32)]

    def work(rank: int) -> Any:
        node = worker(rank, 4, scheme)
        try:
            return node.all_reduce(tensors[rank])
        finally:
            node.close()

    errors = together(*(lambda rank=rank: work(rank) for rank in range(4)))
    assert all(isinstance(error, AggregationError) for error in errors), errors
    wording = "; ".join(map(str, errors))  # by who has to do with worker 1; the others find a connection closed
    assert "the workers sum different tensors: 1,000 elements of" in wording and "1,000 elements of int32" in wording


def test_a_server_names_who_sums_what() -> None:
    def serve() -> Any:
        group = Group(Membership(0, 2, 2, [[0, 1]]), PEERS[:3], patience=5.0)
        server = Server.of_next_group(group, SCHEDULES["ps"](2, 1), over=lambda: False)
        assert server is not None
        try:
            server.serve()
        finally:
            server.close()

    def work(rank: int) -> Any:
        node = worker(rank, 2, "ps", servers=1)
        try:
            return node.all_reduce(np.ones(10 + rank, np.float32))
        finally:
            node.close()

    wording, *errors = together(serve, lambda: work(0), lambda: work(1))
    assert "10 elements of float32 on worker 0; 11 elements of float32 on worker 1" in str(wording)
    assert all(isinstance(error, AggregationError) for error in errors), errors


def test_after_an_error_every_further_sum_is_refused() -> None:
    def leave() -> Any:
        worker(1, 2).close()

    def stay() -> Any:
        node = worker(0, 2)
        with pytest.raises(AggregationError, match="worker 1 is gone") as first:
            node.all_reduce(np.ones(5, np.float32))
        with pytest.raises(AggregationError) as second:
            node.all_reduce(np.ones(5, np.float32))
        assert str(second.value) == str(first.value)
        node.close()

    for found in together(stay, leave):
        assert found is None
