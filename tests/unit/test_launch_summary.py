"""The sentences at the end of `inalab launch`, and the pace of a script's steps."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict

import pytest
import torch

from inalab.hosts.collective import Counters
from inalab.hosts.tally import Tally
from inalab.hosts.training import pace as paced
from inalab.hosts.training.pace import Pace, pace
from inalab.hosts.training.stragglers import Straggler
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.launch_summary import summary
from tests.fake_network import Clock

CARRIED = [{"up": 3_000_000, "down": 1000}, {"up": 1_000_000, "down": 1000}]


def used(sums: int = 3, gloo: int = 2) -> Tally:
    made = Tally()
    for n in range(sums):
        made.summed(500_000, 0.1 + n / 100)
    for _ in range(gloo):
        made.left_to_gloo([torch.zeros(10), [torch.zeros(5, dtype=torch.float64)]])
    made.count(Counters(sent=1000, retransmissions=7, queries=3))
    return made


def test_calls_and_bytes_are_a_workers_and_packets_are_of_all() -> None:
    assert summary([used(), used()], TrialSettings(), CARRIED, 12.34) == [
        "switchml summed 3 all-reduces of each worker, 1.5 MB in all; median all-reduce 110 ms; "
        "14 of all workers' 2,000 packets were retransmitted",
        "Gloo carried 2 calls of each worker, 0.2 kB in all",
        "a worker's data link carried 2.0 MB up and 1.0 kB down on average, headers included",
        "the script took 12.3 s, its imports included",
    ]


def test_one_call_is_singular_and_nothing_is_not_mentioned() -> None:
    assert summary([used(1, 0)], TrialSettings(), CARRIED, 12.34)[0].startswith(
        "switchml summed 1 all-reduce of each worker, 0.5 MB in all; median all-reduce 100 ms"
    )
    timed = used(0, 1)
    assert summary([timed], TrialSettings(scheme="gloo"), CARRIED, 12.34)[0] == "Gloo carried 1 call of each worker, 0.1 kB in all"
    timed.gloo_seconds += [0.01, 0.02, 0.0345]
    assert summary([timed], TrialSettings(scheme="gloo"), CARRIED, 12.34)[0] == (
        "Gloo carried 1 call of each worker, 0.1 kB in all; median all-reduce 20.0 ms"
    )
    assert summary([], TrialSettings(), CARRIED, 12.34) == []


def test_who_does_not_use_the_scheme_or_the_pace_is_told() -> None:
    _, _, first, second = summary([used(0, 0)], TrialSettings(compute_ms=80, straggler="pareto"), CARRIED, 12.34)
    assert first.startswith("nothing was summed by switchml")
    assert second.startswith("compute_ms and straggler had no effect")
    late = used()
    late.paced, late.late = 9, 2
    assert summary([late], TrialSettings(compute_ms=80), CARRIED, 12.34)[-1] == (
        "2 of 9 steps computed for longer than their virtual time: raise compute_ms"
    )


# --- the pace of a script's steps


class Busy(Clock):
    """A clock, on a machine whose sleep ends late."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds + 0.001)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Busy()
    monkeypatch.setattr("inalab.hosts.training.pace.SOCKETS", made)
    monkeypatch.setattr("inalab.hosts.training.pace.tally", Tally())
    return made


@pytest.mark.parametrize(("rank", "takes"), [(0, 0.021), (1, 0.041)])
def test_a_block_takes_its_virtual_time_in_each_step(clock: Clock, rank: int, takes: float) -> None:
    made = Pace(20, 1, rank, Straggler("slow", rank=1, factor=2))
    begun = clock.now
    for _ in range(3):
        with made.compute():
            clock.now += 0.01
    assert clock.now - begun == pytest.approx(3 * takes)
    assert (paced.tally.paced, paced.tally.late) == (3, 0)


def test_every_step_draws_its_own_slow_down_and_one_that_raises_is_none(clock: Clock) -> None:
    straggler = Straggler("exponential")
    made, took = Pace(20, 4, 1, straggler), []
    for step in range(4):
        begun = clock.now
        with suppress(KeyError), made.compute():
            if step == 1:
                raise KeyError
        took.append(clock.now - begun)
    slow = [0.001 + 0.02 * straggler.slowdown(4, 1, step) for step in range(3)]
    assert took == pytest.approx([slow[0], 0, *slow[1:]])
    assert paced.tally.paced == 3


def test_a_block_that_computes_for_longer_is_late_and_takes_its_own_time(clock: Clock) -> None:
    made, begun = Pace(20, 1, 0, Straggler()), clock.now
    with made.compute():
        clock.now += 0.05
    assert clock.now - begun == pytest.approx(0.05)
    assert (paced.tally.paced, paced.tally.late) == (1, 1)


def test_a_script_has_the_pace_of_its_launcher_or_none(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paced.VARIABLE, raising=False)
    begun = clock.now
    with pace.compute():
        pass
    assert clock.now == begun
    straggler = Straggler("slow", rank=2, factor=5)
    monkeypatch.setenv(paced.VARIABLE, json.dumps({"compute_ms": 10, "seed": 3, "rank": 2, "straggler": asdict(straggler)}))
    paced._pace.cache_clear()
    with pace.compute():
        pass
    paced._pace.cache_clear()
    assert clock.now - begun == pytest.approx(0.051)
