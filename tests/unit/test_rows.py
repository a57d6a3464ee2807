"""Loops over a stream's rows, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.hosts.stream import compiled_rows


def test_a_round_trip_tells_where_everybody_sent_once_and_nothing_timed_out_since() -> None:
    chunk, deadline = np.arange(5), np.ones(5)
    waited, telling, paths = compiled_rows.settle(
        np.array([0, 1, 2, 3]), np.array([True, True, False, True]), 10.0, 4.0, path=np.array([1, 0, 0, 0, 0]),
        tries=np.array([0, 1, 0, 0, 0]), sent_at=np.array([9.0, 8.0, 7.0, 4.0, 5.0]), chunk=chunk, deadline=deadline,
    )  # fmt: skip
    assert waited == 1 + 2 + 3 + 6
    assert (telling.tolist(), paths.tolist()) == ([1.0], [1])
    assert chunk.tolist() == [-1, -1, -1, -1, 4]
    assert deadline.tolist() == [np.inf] * 4 + [1.0]


def test_a_result_overtakes_what_was_sent_before_it_on_its_path() -> None:
    overtaken = np.zeros(6, np.int64)
    chunk, order = np.array([7, -1, 7, 7, -1, -1]), np.array([0, 1, 2, 3, 4, 5])
    path = np.array([0, 0, 0, 1, 0, 1])
    compiled_rows.overtake(np.array([1]), 2, path, order, chunk, overtaken)
    assert overtaken.tolist() == [1, 0, 0, 0, 0, 0]
    compiled_rows.overtake(np.array([5]), 2, path, order, chunk, overtaken)
    assert overtaken.tolist() == [1, 0, 0, 1, 0, 0]


def test_what_is_held_keeps_its_deadline() -> None:
    deadline = np.array([9.0, 9.0, 5.5, np.inf])
    chunk, timeouts = np.array([1, 2, 3, -1]), np.array([[1.0, 2.0]])
    paths = np.zeros(4, np.int64)
    gaps = compiled_rows.pull(5.0, timeouts, paths, chunk, np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1]), deadline)
    assert not gaps  # the row that was overtaken waits no more
    assert deadline.tolist() == [6.0, 9.0, 5.5, np.inf]
    assert compiled_rows.pull(5.0, timeouts, paths, chunk, np.zeros(4, np.int64), np.array([0, 1, 0, 0]), deadline)


def test_backing_off_ends_with_the_last_timeout() -> None:
    deadline, tries = np.full(3, np.inf), np.array([0, 1, 9])
    order, overtaken, sent_at = np.zeros(3, np.int64), np.ones(3, np.int64), np.zeros(3)
    compiled_rows.sent(
        np.array([2, 0, 1]), 5.0, 40, np.array([[1.0, 2.0, 4.0]]), np.zeros(3, np.int64), tries, sent_at, order, deadline, overtaken
    )
    assert deadline.tolist() == [6.0, 7.0, 9.0]
    assert (order.tolist(), overtaken.tolist(), sent_at.tolist()) == ([41, 42, 40], [0, 0, 0], [5.0] * 3)
    assert compiled_rows.watch(np.array([-1, 3, 4]), deadline) == (6.0, 2, 3)


@pytest.mark.parametrize(("urgent", "waits"), [(True, [0.125, 0.5, 1.0, 0.25]), (False, [1.0, 4.0, 4.0, 2.0])])
def test_a_query_waits_twice_as_long_for_each_before_it_that_nobody_answered(urgent: bool, waits: list[float]) -> None:
    """Urgent ones up to the first timeout, others up to the last one. The last row's sixth query was its first after a status."""
    asked, informed, zero = np.array([0, 2, 9, 6]), np.array([0, 0, 0, 6]), np.zeros(4, np.int64)
    asked_at, deadline = np.zeros(4), np.zeros(4)
    again = compiled_rows.query(
        np.arange(4), 5.0, urgent, np.array([[1.0, 2.0, 4.0]]), 0.125, zero, asked, informed, asked_at, deadline
    )  # fmt: skip
    assert (deadline - 5.0).tolist() == waits
    assert again.tolist() == [False, True, True, True]


def test_what_has_been_overtaken_is_asked_about_soon_whatever_the_silence() -> None:
    deadline, zero = np.zeros(4), np.zeros(4, np.int64)
    asked, pressed = np.array([2, 1, 3, 9]), np.array([1, 0, 1, 0])
    compiled_rows.pause(np.arange(4), 5.0, 3, 3, 6.0, np.array([[1.0, 2.0]]), 0.25, zero, asked, pressed, deadline)
    assert deadline.tolist() == [5.5, 9.0, 9.0, 11.0]  # a third wait is no longer that
