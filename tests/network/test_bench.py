"""`make bench` measures a switch that aggregates: what its generator sends comes back summed, and nothing is missing."""

from __future__ import annotations

from functools import partial

import pytest

from inalab.switches.target import Target
from inalab.testbed.command import bench_switches


def test_the_generators_packets_are_aggregated(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_switches, "SECONDS", 0.5)
    measured = bench_switches.throughput(64, 4, 64, bench_switches.of_target(target, 4))
    assert measured["missing"] == 0
    assert measured["pps"] > 0


def test_the_switch_that_is_written_by_hand_aggregates_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_switches, "SECONDS", 0.5)
    measured = bench_switches.throughput(64, 8, 64, partial(bench_switches.by_hand, "C", 64, 8))
    assert measured["missing"] == 0
    assert measured["pps"] > 0
