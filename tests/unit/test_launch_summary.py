"""The sentences at the end of `inalab launch`, and the pace of a script's steps."""

from __future__ import annotations

import time

import pytest
import torch

from hosts.collective import Counters
from hosts.tally import Tally
from hosts.training.pace import Pace, pace
from hosts.training.stragglers import Straggler
from testbed.plan.settings import TrialSettings
from testbed.trial.launch import summary

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
    assert summary([used(), used()], TrialSettings(), CARRIED) == [
        "switchml summed 3 all-reduces of each worker, 1.5 MB in all; median TAT 110 ms; "
        "14 of all workers' 2,000 packets were retransmitted",
        "Gloo carried 2 calls of each worker, 0.2 kB in all",
        "a worker's data link carried 2.0 MB up and 1.0 kB down on average, headers included",
    ]


def test_one_call_is_singular_and_nothing_is_not_mentioned() -> None:
    assert summary([used(1, 0)], TrialSettings(), CARRIED)[0].startswith(
        "switchml summed 1 all-reduce of each worker, 0.5 MB in all; median TAT 100 ms"
    )
    assert summary([used(0, 1)], TrialSettings(scheme="gloo"), CARRIED)[:-1] == [
        "Gloo carried 1 call of each worker, 0.1 kB in all"
    ]
    assert summary([], TrialSettings(), CARRIED) == []


def test_who_does_not_use_the_scheme_or_the_pace_is_told() -> None:
    _, first, second = summary([used(0, 0)], TrialSettings(compute_ms=80, straggler="pareto"), CARRIED)
    assert first.startswith("nothing was summed by switchml")
    assert second.startswith("compute_ms and straggler had no effect")
    late = used()
    late.paced, late.late = 9, 2
    assert summary([late], TrialSettings(compute_ms=80), CARRIED)[-1] == (
        "2 of 9 steps computed for longer than their virtual time: raise compute_ms"
    )


@pytest.mark.parametrize(("rank", "least"), [(0, 0.02), (1, 0.04)])
def test_a_block_takes_its_virtual_time(rank: int, least: float) -> None:
    made = Pace(20, 1, rank, Straggler("slow", rank=1, factor=2))
    begun = time.monotonic()
    with made.compute():
        pass
    assert time.monotonic() - begun >= least
    assert made.step == 1


def test_without_a_launcher_nothing_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INALAB_PACE", raising=False)
    begun = time.monotonic()
    with pace.compute():
        pass
    assert time.monotonic() - begun < 0.02
