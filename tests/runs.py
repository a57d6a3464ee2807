"""Runs that nobody ran: records and trials as an experiment leaves them, with numbers that a test chooses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run, add_trial, create_run


def record(**change: Any) -> dict[str, Any]:
    """The run.json of a finished run."""
    return {
        "experiment": "quickstart", "target": "embedded", "seed": 1, "set": [], "settings": TrialSettings().model_dump(),
        "trials": ["no faults"], "versions": {"python": "3.11.7"}, "machine": {"processor": "a processor", "cores": 2},
        "git": {"commit": "0123456789abcdef0123", "changed": False}, "started": "2026-01-02T03:04:05+0000",
        "target_versions": {"cc": "cc 12"}, "finished": True, "ended": "2026-01-02T03:05:05+0000",
    } | change  # fmt: skip


def trial(name: str = "no faults", seed: int = 1, tat: float = 0.1, spread: float = 0.001, **change: Any) -> dict[str, Any]:
    """A valid trial of twenty steps of two workers, whose TAT lies evenly within `spread` of `tat`; `change` is of its metrics."""
    steps = []
    for n in range(20):
        took = tat + spread * (n - 9.5) / 9.5
        steps += [{"step": n, "rank": r, "tat": took + r, "begun": 2.0 * n - 0.05 * r, "ended": 2.0 * n + took} for r in (0, 1)]
    measured = {
        "duration": 40 * tat, "tat_median": tat, "step_median": tat + 0.05, "period_median": tat + 0.05, "final_accuracy": 0.9, "final_test_loss": 0.25,
        "retransmissions": 0, "queries": 0, "loss_achieved": 0.0, "ate_per_second": 16810 / tat, "cpu_idle": 0.5, "packets_sent": 1234, "handled": 2468,
        "model_digest": f"{seed:064x}",
    } | change  # fmt: skip
    return {
        "name": name, "factors": {"faults": name}, "seed": seed, "settings": TrialSettings().model_dump(),
        "valid": True, "problems": [], "metrics": measured, "steps": steps,
    }  # fmt: skip


def measured(seed: int) -> dict[str, Any]:
    """What a target returns of a trial."""
    return {key: value for key, value in trial(seed=seed).items() if key in ("metrics", "valid", "problems", "steps")}


def invalid(entry: dict[str, Any], *problems: str) -> dict[str, Any]:
    """The trial, as one that is not valid."""
    return entry | {"valid": False, "problems": list(problems)}


def failed(name: str, seed: int, problem: str) -> dict[str, Any]:
    """A trial without measurements."""
    return {
        "name": name, "factors": {"faults": name}, "seed": seed, "settings": TrialSettings().model_dump(),
        "valid": False, "problems": [problem], "failed": True,
    }  # fmt: skip


def make_run(results: Path, entries: Iterable[dict[str, Any]], **change: Any) -> Run:
    """A run's folder below `results`."""
    described = record(**change)
    run = create_run(results, described["experiment"], described)
    for entry in entries:
        add_trial(run, entry)
    return run
