"""Copies of results that wait in a server's host: nobody is sent another one that is on its way to them."""

from __future__ import annotations

import numpy as np

from inalab.hosts.atp.departures import Departures

SECONDS = 0.5  # of a packet on the link
EVERYBODY, RACK, A, B, C = 0, 1, 2, 3, 4  # peers: the server's switch and another one; a worker beside the server, and two there


def departures() -> Departures:
    return Departures(rows=8, switches=2, racks=np.array([0, 1, 1]), to_all=EVERYBODY)


def lacking(made: Departures, *asked: tuple[int, int], now: float) -> list[tuple[int, int]]:
    rows, peers = made.lacking(*np.array(asked).T, now)
    return list(zip(rows.tolist(), peers.tolist(), strict=True))


def test_who_asks_while_a_copy_for_them_waits_gets_no_other() -> None:
    made = departures()
    made.sent(np.array([3, 4]), EVERYBODY, False, SECONDS, now=10.0)
    assert lacking(made, (3, A), (4, B), now=10.4) == []
    assert lacking(made, (3, A), (4, B), now=10.6) == [(3, A)]  # the first has left, and did not arrive
    assert lacking(made, (3, A), (4, B), (5, C), now=11.0) == [(3, A), (4, B), (5, C)]


def test_a_copy_that_waits_for_others_does_not_count_and_the_next_one_is_for_all_who_asked() -> None:
    made = departures()
    made.sent(np.array([3]), B, True, SECONDS, now=10.0)
    assert lacking(made, (3, B), now=10.1) == []
    assert lacking(made, (3, C), now=10.1) == [(3, RACK)]
    assert lacking(made, (3, A), now=10.1) == [(3, EVERYBODY)]
    made.sent(np.array([3]), RACK, True, SECONDS, now=10.1)
    assert lacking(made, (3, B), (3, C), (3, RACK), now=10.9) == []


def test_those_who_ask_at_once_share_a_copy() -> None:
    assert lacking(departures(), (3, B), (3, B), (5, B), (5, C), (6, C), (6, A), (6, B), now=1.0) == [
        (3, B), (5, RACK), (6, EVERYBODY),
    ]  # fmt: skip


def test_what_is_urgent_leaves_first_and_what_is_not_after_all_that() -> None:
    made = departures()
    made.sent(np.arange(4), EVERYBODY, False, SECONDS, now=0.0)
    made.occupied(10, 0.1, now=0.0)
    made.sent(np.array([5]), B, True, SECONDS, now=0.0)
    assert made.leaves[[0, 1, 2, 3, 5]].tolist() == [0.5, 1.0, 1.5, 2.0, 1.5]
    made.sent(np.array([6]), EVERYBODY, False, SECONDS, now=0.0)
    assert made.leaves[6] == 4 * SECONDS + 10 * 0.1 + SECONDS + SECONDS
    made.sent(np.array([7]), B, True, SECONDS, now=100.0)
    assert made.leaves[7] == 100.0 + SECONDS


def test_a_link_without_a_rate_holds_nothing_back() -> None:
    made = departures()
    made.sent(np.array([3]), EVERYBODY, False, 0.0, now=10.0)
    assert lacking(made, (3, A), now=10.0) == [(3, A)]
