"""Workers over TCP find each other, whoever else connects."""

from __future__ import annotations

import socket
import time
from threading import Thread

import numpy as np

from hosts.collective import Membership
from hosts.meeting import GREETING
from hosts.pairwise import TCP_PORT, Pairwise
from hosts.schedules import SCHEDULES


def test_a_connection_that_was_given_up_does_not_end_a_job() -> None:
    """Where the answer to a connect is lost, its maker may give up a connection that the listener already holds."""
    peers, found = ["127.0.0.1", "127.0.0.2"], {}

    def be(rank: int) -> None:
        node = Pairwise(Membership(0, rank, 2, [[0, 1]]), SCHEDULES["ring"](2, 0), peers, patience=10.0)
        found[rank] = node.all_reduce(np.arange(5, dtype=np.int32))
        node.close()

    first = Thread(target=be, args=(0,))
    first.start()
    for words in (b"", b"\0", GREETING.pack(7)):
        while True:
            try:
                stranger = socket.create_connection((peers[0], TCP_PORT), timeout=5)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        stranger.sendall(words)
        stranger.close()
    be(1)
    first.join()
    np.testing.assert_array_equal(found[0], 2 * np.arange(5))
    np.testing.assert_array_equal(found[1], 2 * np.arange(5))
