"""A trial beside a program that computes on every processor: the trial is not valid, and its reason names whose time it was."""

from __future__ import annotations

import multiprocessing
import os
import time

import pytest

from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from tests.network.running import run_trial

SETTINGS = TrialSettings(racks=1, workers=2, steps=6, compute_ms=30, host_rate=5)


def _burn(until: float) -> None:
    while time.monotonic() < until:
        pass


@pytest.mark.quiet
def test_other_processes_are_blamed_for_their_time(target: Target) -> None:
    context = multiprocessing.get_context("fork")
    burners = [context.Process(target=_burn, args=(time.monotonic() + 60,), daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        result = run_trial(SETTINGS, 1, target, lambda message: None)
    finally:
        for burner in burners:
            burner.kill()
            burner.join()
    metrics = result["metrics"]
    assert metrics["saturated"] > 0.5 and metrics["saturated_by"] == "the processors"
    assert metrics["cpu_others"] > metrics["cpu_switches"] + metrics["cpu_hosts"]
    wording = [problem for problem in result["problems"] if "the processors were saturated" in problem]
    assert wording and "other processes took" in wording[0] and "close them and run again" in wording[0]
    assert not [problem for problem in result["problems"] if "lower host_rate" in problem]
