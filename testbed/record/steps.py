"""The steps of a trial, from what each worker recorded of them: how long the sum took, and where the time went.

A sum begins when the last worker comes to it and ends when the last one has it. Workers of a schedule over messages may end
at different times; who is late then is late for the next sum too, where the others wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

Group = list[dict[str, Any]]  # the records of all workers for one step


def groups(steps: Iterable[dict[str, Any]]) -> list[Group]:
    """The records by step, in order."""
    found: dict[int, Group] = {}
    for record in steps:
        found.setdefault(record["step"], []).append(record)
    return [found[step] for step in sorted(found)]


def exchanges(steps: list[dict[str, Any]]) -> list[Group]:
    """The records of workers that exchange with each other: those of a step. Where none waits, each is alone."""
    return [[record] for record in steps] if _asynchronous(steps) else groups(steps)


def _asynchronous(steps: list[dict[str, Any]]) -> bool:
    return any("version" in record for record in steps[:1])


def begun(group: Group) -> float:
    """When the last worker came to the sum."""
    return float(max(r["ended"] - r["tat"] for r in group))


def aggregation_time(group: Group) -> float:
    """TAT in seconds: from when the last worker came to the sum until the last one had it."""
    return float(max(r["ended"] for r in group) - begun(group))


def duration(group: Group) -> float:
    """Seconds from when the first worker began the step until the last one ended it."""
    return float(max(r["ended"] for r in group) - min(r["begun"] for r in group))


def periods(steps: list[dict[str, Any]]) -> list[float]:
    """Seconds from when the first worker began a step until it, or another, began the next; the last step's until its end.

    Where steps overlap (pipeline cross-barrier) a step takes longer than this. Where no worker waits for the others, each worker's.
    """
    if _asynchronous(steps):
        ranks = sorted({r["rank"] for r in steps})
        common = [[[r] for r in steps if r["rank"] == rank] for rank in ranks]
    else:
        common = [groups(steps)]
    found: list[float] = []
    for series in common:
        begun = [min(r["begun"] for r in group) for group in series] + [max(r["ended"] for r in series[-1])]
        found += [after - before for before, after in pairwise(begun)]
    return found


def busy(record: dict[str, Any]) -> float:
    """Seconds that a worker computed in a step, in virtual time."""
    return float(record.get("busy", record["compute"] + max(record["padding"], 0.0)))  # the latter in records before 0.5


def by_job(records: Iterable[dict[str, Any]]) -> list[Group]:
    """The records of each job, in order."""
    found: dict[int, Group] = {}
    for record in records:
        found.setdefault(record.get("job", 0), []).append(record)
    return list(found.values())


def exposed(steps: list[dict[str, Any]]) -> list[float]:
    """Seconds of each step in which a worker did not compute, because it waited for sums, from all its records in order."""
    begun = [r["begun"] for r in steps] + [steps[-1]["ended"]]
    return [after - before - busy(r) for r, (before, after) in zip(steps, pairwise(begun), strict=True)]


def shares(steps: list[Group]) -> dict[str, float]:
    """Where a step's time goes, in seconds, as means over workers and steps: compute, waiting for the last, communication.

    Communication is from the first gradient that is there until all sums are over; in a pipeline some of it is beside compute.
    """
    spent = {"compute_mean": 0.0, "waiting_mean": 0.0, "communication_mean": 0.0}
    for group in steps:
        start, weight = begun(group), 1 / len(group) / len(steps)
        for r in group:
            spent["compute_mean"] += weight * busy(r)
            spent["waiting_mean"] += weight * (start - (r["ended"] - r["tat"]))
            spent["communication_mean"] += weight * (r["ended"] - start)
    return spent
