"""What becomes of a stream's rows, one by one: streams that a test sets up as it likes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp.worker import AtpWorker
from inalab.hosts.collective import Membership
from inalab.hosts.cores import ffi
from tests.inside import INSIDE

NOW = 5.0
ALONE = Membership(0, 0, 1, [[0]])


class Rows:
    """A stream of ATP of so many rows, all of which wait: row i has chunk i, and goes to server i mod 2."""

    def __init__(self, count: int, timeouts: list[float], servers: int = 1, recovery: str = "ask") -> None:
        self.worker = AtpWorker(ALONE, 1, [0] * servers, count, 1, 64, congestion="none", recovery=recovery)
        self.stream: Any = ffi.addressof(self.worker.core, "stream")
        self.rows = self.worker.rows
        self.rows["chunk"], self.rows["path"] = np.arange(count), np.arange(count) % servers
        for timer in self.worker.timers:
            timer.timeouts[:] = timeouts
        INSIDE.stream_send(self.stream, list(range(count)), count, NOW, False)
        self.sent()

    def sent(self) -> list[int]:
        """Rows of packets that are to be sent, which are taken out."""
        outbox = self.stream.outbox
        found = [outbox.leaving[i] for i in range(outbox.rows)]
        outbox.rows = outbox.count = 0
        return found

    def settled(self, rows: list[int], now: float, once: bool = True) -> None:
        INSIDE.stream_settled(self.stream, rows, [once] * len(rows), len(rows), now)

    def __getitem__(self, name: str) -> Any:
        return self.rows[name].tolist()


def test_a_round_trip_tells_where_everybody_sent_once_and_nothing_timed_out_since() -> None:
    made = Rows(5, [1.0, 2.0, 4.0])
    made.rows["sent_at"][:], made.stream.timed_out_at = [9.0, 8.0, 7.0, 4.0, 5.0], 4.0
    made.rows["tries"][1] = 1
    INSIDE.stream_settled(made.stream, [0, 1, 2, 3], [True, True, False, True], 4, 10.0)
    assert made.worker.stream.counters.waited == 1 + 2 + 3 + 6
    assert made.worker.timers[0].srtt == 1.0  # the first one alone
    assert made["chunk"] == [-1, -1, -1, -1, 4]


def test_a_result_overtakes_what_was_sent_before_it_on_its_path() -> None:
    made = Rows(6, [1.0, 2.0, 4.0], 2, "paper")
    made.settled([4], NOW)
    assert made["overtaken"][:4] == [1, 0, 1, 0]
    made.settled([5], NOW)
    assert made["overtaken"][:4] == [1, 1, 1, 1]
    made.settled([2], NOW, once=False)  # somebody sent it again: it proves nothing
    assert made["overtaken"][:4] == [1, 1, 1, 1]


def test_what_was_sent_again_overtakes_nothing() -> None:
    """One chunk is sent again and comes back while all others are stuck in a queue: they are not asked about."""
    made = Rows(9, [1.0, 2.0, 4.0], recovery="paper")
    INSIDE.stream_retransmit(made.stream, [0], 1, NOW, False)
    made.settled([0], NOW, once=False)
    made.settled([8], NOW, once=False)  # another worker's packet was sent again, or this answers a query
    assert not any(made["overtaken"])
    made.settled([3], NOW)
    assert made["overtaken"] == [0, 1, 1, 0, 0, 0, 0, 0, 0]


def test_what_moves_waits_for_one_timeout_more_and_what_is_held_keeps_its_deadline() -> None:
    made = Rows(4, [1.0, 2.0, 4.0])
    made.rows["deadline"][:], made.stream.latest = [99.0, 99.0, 5.5, 99.0], 99.0
    made.rows["pressed"][1] = 1
    made.settled([3], NOW, once=False)
    assert made["deadline"] == [6.0, 99.0, 5.5, np.inf]


def test_backing_off_ends_with_the_last_timeout() -> None:
    made = Rows(3, [1.0, 2.0, 4.0])
    made.rows["tries"][:] = [0, 1, 9]
    made.rows["overtaken"][:] = 1
    for row in (1, 2):  # which wait already, as what has been sent again does
        made.rows["tries"][row] -= 1
        INSIDE.stream_retransmit(made.stream, [row], 1, NOW, False)
    assert made["deadline"] == [6.0, 7.0, 9.0]
    assert (made["order"], made["overtaken"]) == ([0, 3, 4], [1, 0, 0])
    assert made.sent() == [1, 2]


@pytest.mark.parametrize(("asked", "informed", "wait"), [(0, 0, 0.125), (2, 0, 0.5), (9, 0, 1.0), (6, 6, 0.25)])
def test_a_query_waits_twice_as_long_for_each_before_it_that_nobody_answered(asked: int, informed: int, wait: float) -> None:
    """Urgent ones up to the first timeout. The last one's sixth query was its first after a status."""
    made = Rows(1, [1.0, 2.0, 4.0])
    made.stream.by_status.srtt = 0.1
    made.stream.by_status.timeouts[0] = 0.125
    made.rows["asked"], made.rows["informed"] = asked, informed
    INSIDE.recovery_lost(made.stream, [0], 1, NOW)
    assert made["deadline"] == [NOW + wait]
    assert made.sent() == [1]  # the query, behind the packet


def test_what_has_been_overtaken_is_asked_about_soon_whatever_the_silence() -> None:
    made = Rows(4, [1.0, 2.0, 4.0])
    made.stream.silence, made.stream.by_status.srtt = 3, 0.1
    made.stream.by_status.timeouts[0] = 0.125
    made.rows["asked"][:], made.rows["pressed"][:] = [2, 1, 3, 9], [1, 0, 1, 0]
    INSIDE.recovery_answered(made.stream, [0, 1, 2, 3], [False] * 4, 4, NOW, True)
    assert made["deadline"] == [5.5, 6.0, 6.0, 6.0]  # a third wait is no longer that; none is longer than a second


def test_rows_stay_in_the_order_in_which_they_were_sent() -> None:
    made = Rows(4, [1.0, 2.0, 4.0])
    INSIDE.stream_retransmit(made.stream, [1, 0], 2, NOW, False)
    made.settled([3], NOW)
    order, row = [], made.stream.first
    while row >= 0:
        order.append(row)
        row = made.rows["after"][row]
    assert order == [2, 1, 0] and made.stream.outstanding == 3 and made.stream.last == 0


def owned(count: int, recovery: str = "ask", way: int = 0x02000000) -> Rows:
    """Each row's chunk is one of three workers', in turn (hosts/switchml/worker.c): who gives it, or who gets its sum."""
    made = Rows(count, [1.0, 2.0, 4.0], recovery=recovery)
    made.rows["part"] = (way + np.arange(count) % 3).astype(">u4").view("<u4")
    return made


def test_a_result_overtakes_what_its_owner_gave_before_and_passes_what_others_did() -> None:
    made = owned(6, "paper")
    made.settled([5], NOW)
    assert (made["overtaken"], made["passed"]) == ([0, 0, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0])
    made = owned(6, "paper", way=0x01000000)  # sums that workers get come in the order of all
    made.settled([5], NOW)
    assert (made["overtaken"], made["passed"]) == ([1] * 5 + [0], [0] * 6)


def test_a_chunk_is_late_when_its_owners_next_one_comes_or_half_a_window_of_others() -> None:
    made = owned(16)
    made.settled([2, 3], NOW)  # row 0 is overtaken once, and four more of its owner's are under way
    assert made["asked"] == [0] * 16
    made.settled([1, 4, 5], NOW)
    assert made["asked"] == [0] * 16
    made.settled([15, 12, 9], NOW)  # three of that owner's have overtaken rows 0 and 6, and no row was passed by eight
    assert [row for row, asked in enumerate(made["asked"]) if asked] == [0, 6]
    made = owned(16)
    made.settled([1, 2, 4, 5, 7, 8, 10], NOW)
    assert made["asked"] == [0] * 16
    made.settled([11], NOW)
    assert [row for row, asked in enumerate(made["asked"]) if asked] == [0]


def test_sums_and_what_owners_give_keep_no_order_between_them() -> None:
    made = owned(16)
    made.rows["part"][:8] = 0  # sums of all workers
    made.settled([8, 11, 14], NOW)  # one owner's, and few more sums are under way
    assert (made["overtaken"][:8], made["passed"][:8]) == ([0] * 8, [3] * 8)
    assert made["asked"] == [0] * 16
    made.settled([7], NOW)
    assert made["overtaken"][:7] == [1] * 5 + [0] * 2 and [row for row, asked in enumerate(made["asked"]) if asked] == [5, 6]
