"""The steps of a trial, from what each worker recorded of them: how long the sum took, and where the time went.

A sum begins when the last worker comes to it and ends when the last one has it. Workers of a schedule over messages may end
at different times; who is late then is late for the next sum too, where the others wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Group = list[dict[str, Any]]  # the records of all workers for one step


def groups(steps: Iterable[dict[str, Any]]) -> list[Group]:
    """The records by step, in order."""
    found: dict[int, Group] = {}
    for record in steps:
        found.setdefault(record["step"], []).append(record)
    return [found[step] for step in sorted(found)]


def begun(group: Group) -> float:
    """When the last worker came to the sum."""
    return float(max(r["ended"] - r["tat"] for r in group))


def aggregation_time(group: Group) -> float:
    """TAT in seconds: from when the last worker came to the sum until the last one had it."""
    return float(max(r["ended"] for r in group) - begun(group))


def duration(group: Group) -> float:
    """Seconds from when the first worker began the step until the last one ended it."""
    return float(max(r["ended"] for r in group) - min(r["begun"] for r in group))


def shares(steps: list[Group]) -> dict[str, float]:
    """Where a step's time goes, in seconds, as means over workers and steps: compute, waiting for the last, communication."""
    spent = {"compute_mean": 0.0, "waiting_mean": 0.0, "communication_mean": 0.0}
    for group in steps:
        start, weight = begun(group), 1 / len(group) / len(steps)
        for r in group:
            spent["compute_mean"] += weight * (r["compute"] + max(r["padding"], 0.0))
            spent["waiting_mean"] += weight * (start - (r["ended"] - r["tat"]))
            spent["communication_mean"] += weight * (r["ended"] - start)
    return spent
