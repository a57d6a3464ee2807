"""Copies of results that wait in a server's host: nobody is sent another one that is on its way to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from inalab.hosts.cores import ffi, library, values

SECONDS = 0.5  # of a packet on the link
EVERYBODY, RACK, A, B, C = 0, 1, 2, 3, 4  # peers: the server's switch and another one; a worker beside the server, and two there


class Departures:
    """Of the results of 8 rows, at a server with two racks (departures.c)."""

    def __init__(self) -> None:
        self.members = ffi.new("Member[]", [{"rack": rack} for rack in (0, 1, 1)])
        self.c: Any = ffi.gc(ffi.new("Departures *"), library().departures_free)
        library().departures_init(self.c, 8, 2, EVERYBODY, self.members)

    def sent(self, rows: list[int], peer: int, urgent: bool, seconds: float, now: float) -> None:
        for row in rows:
            library().departures_sent(self.c, row, peer, urgent, seconds, now)

    @property
    def leaves(self) -> np.ndarray:
        return values(self.c.leaves, 8)


def departures() -> Departures:
    return Departures()


def lacking(made: Departures, *asked: tuple[int, int], now: float) -> list[tuple[int, int]]:
    found = ffi.new("Asked[]", 8)
    count = library().departures_lacking(made.c, ffi.new("Asked[]", list(asked)), len(asked), now, found)
    return [(found[i].row, found[i].worker) for i in range(count)]


def test_who_asks_while_a_copy_for_them_waits_gets_no_other() -> None:
    made = departures()
    made.sent([3, 4], EVERYBODY, False, SECONDS, now=10.0)
    assert lacking(made, (3, A), (4, B), now=10.4) == []
    assert lacking(made, (3, A), (4, B), now=10.6) == [(3, A)]  # the first has left, and did not arrive
    assert lacking(made, (3, A), (4, B), (5, C), now=11.0) == [(3, A), (4, B), (5, C)]


def test_a_copy_that_waits_for_others_does_not_count_and_the_next_one_is_for_all_who_asked() -> None:
    made = departures()
    made.sent([3], B, True, SECONDS, now=10.0)
    assert lacking(made, (3, B), now=10.1) == []
    assert lacking(made, (3, C), now=10.1) == [(3, RACK)]
    assert lacking(made, (3, A), now=10.1) == [(3, EVERYBODY)]
    made.sent([3], RACK, True, SECONDS, now=10.1)
    assert lacking(made, (3, B), (3, C), (3, RACK), now=10.9) == []


def test_those_who_ask_at_once_share_a_copy() -> None:
    assert lacking(departures(), (3, B), (3, B), (5, B), (5, C), (6, C), (6, A), (6, B), now=1.0) == [
        (3, B), (5, RACK), (6, EVERYBODY),
    ]  # fmt: skip


def test_what_is_urgent_leaves_first_and_what_is_not_after_all_that() -> None:
    made = departures()
    made.sent([0, 1, 2, 3], EVERYBODY, False, SECONDS, now=0.0)
    library().departures_occupied(made.c, 10, True, 0.1, 0.0)
    made.sent([5], B, True, SECONDS, now=0.0)
    assert made.leaves[[0, 1, 2, 3, 5]].tolist() == [0.5, 1.0, 1.5, 2.0, 1.5]
    made.sent([6], EVERYBODY, False, SECONDS, now=0.0)
    assert made.leaves[6] == 4 * SECONDS + 10 * 0.1 + SECONDS + SECONDS
    made.sent([7], B, True, SECONDS, now=100.0)
    assert made.leaves[7] == 100.0 + SECONDS


def test_a_link_without_a_rate_holds_nothing_back() -> None:
    made = departures()
    made.sent([3], EVERYBODY, False, 0.0, now=10.0)
    assert lacking(made, (3, A), now=10.0) == [(3, A)]
