"""Workers note their calls for each other, and find the first in which they differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.hosts import calls as module
from inalab.hosts.calls import QUIET, RECENT, WIDTH, Calls
from tests.fake_network import Clock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def difference(worker: Calls, clock: Clock) -> str | None:
    """What is told once nobody begins a call any more."""
    assert worker.difference() is None
    clock.now += QUIET
    return worker.difference()


def group(folder: Path, size: int = 3) -> list[Calls]:
    return [Calls(folder, 77, rank, tuple(range(size))) for rank in range(size)]


def test_the_first_call_that_differs_is_told_with_the_workers_of_each(tmp_path: Path, clock: Clock) -> None:
    workers = group(tmp_path)
    for worker in workers:
        worker.note("barrier")
    for rank, worker in enumerate(workers):
        worker.note("all_reduce of 10 float64 over Gloo" if rank == 1 else "all_reduce of 10 float32 over switchml")
    workers[0].note("barrier")
    workers[1].note("broadcast")  # the consequences are not told
    for worker in workers:
        assert difference(worker, clock) == (
            "the workers differ in call 2 of the group: all_reduce of 10 float32 over switchml on workers 0, 2; "
            "all_reduce of 10 float64 over Gloo on worker 1"
        )


def test_how_workers_differ_in_one_call_is_told_at_once_by_those_that_have_begun_it(tmp_path: Path) -> None:
    first, second, third = group(tmp_path)
    assert first.note("barrier") == second.note("barrier") == third.note("broadcast of 4 int8") == 1
    assert first.unlike(1) == (
        "the workers differ in call 1 of the group: barrier on workers 0, 1; broadcast of 4 int8 on worker 2"
    )
    assert first.note("barrier") == 2 and first.unlike(2) is second.unlike(2) is None
    second.note("broadcast of 4 int8")
    assert "call 2 of the group: barrier on worker 0; broadcast of 4 int8 on worker 1" in str(first.unlike(2))
    alone = Calls(tmp_path, 78, 0, (0, 1))  # the other one has not come
    assert alone.unlike(alone.note("barrier")) is None


def test_workers_that_are_ahead_or_have_not_begun_do_not_differ(tmp_path: Path, clock: Clock) -> None:
    first = Calls(tmp_path, 77, 0, (0, 1, 2))
    assert difference(first, clock) is None
    second = Calls(tmp_path, 77, 1, (0, 1, 2))  # worker 2 has not joined yet
    for call in ("barrier", "broadcast", "all_gather"):
        first.note(call)
        assert difference(first, clock) is difference(second, clock) is None
    second.note("barrier")
    assert difference(first, clock) is None


def test_calls_that_are_long_past_are_forgotten_and_never_compared_with_new_ones(tmp_path: Path, clock: Clock) -> None:
    slow, fast = group(tmp_path, 2)
    for number in range(3 * RECENT + 5):
        fast.note(f"call {number}")
    for number in range(3 * RECENT):
        slow.note(f"call {number}")
        assert difference(slow, clock) is None
    assert (tmp_path / "calls-77-0").stat().st_size == RECENT * WIDTH
    slow.note("another")
    assert f"in call {3 * RECENT + 1} of the group: another on worker 0; call {3 * RECENT} on worker 1" in str(
        difference(slow, clock)
    )


def test_two_streams_that_take_turns_in_other_ways_do_not_differ_while_anybody_goes_on(tmp_path: Path, clock: Clock) -> None:
    """As with a callback that calls Gloo beside the next bucket's sum: nobody is stuck."""
    first, second = group(tmp_path, 2)
    first.note("all_reduce over switchml")
    second.note("barrier")
    for worker in (first, second, first, second):
        assert first.difference() is second.difference() is None
        clock.now += 0.9 * QUIET
        assert first.difference() is second.difference() is None
        worker.note("all_gather")
    assert first.difference() is None
    clock.now += QUIET
    assert "differ in call 1" in str(first.difference())


def test_groups_have_calls_of_their_own_and_long_ones_are_cut(tmp_path: Path, clock: Clock) -> None:
    here, there = Calls(tmp_path, 77, 0, (0, 1)), Calls(tmp_path, 78, 1, (0, 1))
    here.note("barrier")
    there.note("broadcast")
    assert difference(here, clock) is difference(there, clock) is None
    other = Calls(tmp_path, 77, 1, (0, 1))
    other.note("x" * 200)
    assert f"{'x' * (WIDTH - 2)} on worker 1" in str(difference(here, clock))
    other.close()
