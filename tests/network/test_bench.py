"""`make bench` measures a switch that aggregates: what its generator sends comes back summed, and nothing is missing."""

from __future__ import annotations

import pytest

from inalab.switches.target import Target
from inalab.testbed.command import bench


def test_the_generators_packets_are_aggregated(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.5)
    measured = bench.throughput(64, 4, target)
    assert measured["missing"] == 0
    assert measured["pps"] > 0
