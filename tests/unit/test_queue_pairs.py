"""Queue pairs over this machine's sockets: what a program hands over arrives, and ends are told apart from deaths."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from inalab.hosts.drivers.queue_pairs import QueuePair
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.tcp.connection import Meeting

PEERS = ["127.0.0.2", "127.0.0.3"]
PORT, PATIENCE = 47211, 60.0
KINDS = [QueuePairs((0.0, 0.0)), QueuePairs((0.0, 0.0), selective=True)]


def meet(me: int, pairs: QueuePairs) -> QueuePair:
    meeting: Meeting = SOCKETS.meet(me, [1 - me], 2, PEERS, PORT, PATIENCE, 7)
    made = SOCKETS.carry(meeting, me, PEERS, pairs, PATIENCE).connections[1 - me]
    assert isinstance(made, QueuePair)
    return made


@pytest.fixture(params=KINDS, ids=["go-back-n", "selective"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[QueuePair, QueuePair]]:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(meet, (0, 1), (request.param, request.param))
    yield one, other
    one.close()
    other.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "rdma"]


def say(end: QueuePair, words: bytes) -> None:
    left = memoryview(words)
    while left:
        try:
            left = left[end.send([left]) :]
        except BlockingIOError:
            time.sleep(0.001)


def hear(end: QueuePair) -> bytes:
    """Until the other end says no more."""
    found, into = bytearray(), memoryview(bytearray(1 << 16))
    while True:
        try:
            size = end.receive(into)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        if not size:
            return bytes(found)
        found += into[:size]


def text(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_all_arrives_in_both_directions(ends: tuple[QueuePair, QueuePair]) -> None:
    words = text(700_001), text(300_007)

    def talk(end: QueuePair, own: bytes) -> None:
        say(end, own)
        end.finish()

    talking = [threading.Thread(target=talk, args=each) for each in zip(ends, words, strict=True)]
    for thread in talking:
        thread.start()
    with ThreadPoolExecutor(2) as pool:
        assert tuple(pool.map(hear, ends)) == words[::-1]
    for thread in talking:
        thread.join()
    assert all(end.segments().handled > 60 for end in ends)


@pytest.mark.parametrize("closes", [False, True])
def test_who_says_no_more_still_hears(ends: tuple[QueuePair, QueuePair], closes: bool) -> None:
    one, other = ends
    say(one, b"first")
    one.finish()
    assert hear(other) == b"first"
    say(other, text(200_000))
    closing = threading.Thread(target=other.close if closes else other.finish)
    closing.start()
    assert hear(one) == text(200_000)
    closing.join()


def test_what_was_said_before_a_close_arrives(ends: tuple[QueuePair, QueuePair]) -> None:
    one, other = ends
    say(one, text(100_000))
    closing = threading.Thread(target=one.close)
    closing.start()
    assert hear(other) == text(100_000)
    closing.join()


def test_an_end_that_dies_has_not_said_that_it_ends(ends: tuple[QueuePair, QueuePair]) -> None:
    """Its kernel closes the connection by which both met, and nobody says goodbye."""
    one, other = ends
    say(other, b"is anybody there?")
    one.manager.shutdown(socket.SHUT_RDWR)
    with pytest.raises(OSError):
        for _ in range(10_000):
            say(other, text(1000))
            time.sleep(0.001)
