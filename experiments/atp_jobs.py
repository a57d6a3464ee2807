"""One to four jobs at once on one network: time to accuracy and fairness, ATP against SwitchML with a pool for each job.

Every job trains the same model on hosts of its own; they share the switches' memory and the uplinks between two racks.
Fairness is Jain's index over the jobs' mean throughput: 1 where all have the same, 1/n where one has all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, in_order, levels, look_of, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import fairness, parts
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

TARGET = 0.9  # accuracy


class Settings(SweepSettings):
    """Two racks; each job has a worker in both, and with ATP a server. All jobs share an uplink of 10 Mbit/s."""

    numbers: Integers = Field((1, 2, 3, 4), description="of jobs at once")
    schemes: Words = Field(("atp", "switchml"), description="what is compared")
    memory: int = Field(128, ge=8, description="aggregators of the switch, for all jobs together")
    workers: int = 1
    host_rate: float = 10.0
    uplink_rate: float = 10.0
    slots: int = 32
    steps: int = 50
    evaluate_every: int = 2
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"numbers": (1, 2), "seeds": 1, "steps": 10}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme with every number of jobs. SettingsError where a job would have no slot."""
    points = []
    for n in settings.numbers:
        if not 1 <= n <= settings.memory // 2:
            raise SettingsError(
                f"numbers has {n}: from 1 to {settings.memory // 2} jobs can have a slot of {settings.memory} aggregators"
            )
        for scheme in settings.schemes:
            memory = (
                {"aggregators": settings.memory} if scheme == "atp" else {"slots": min(settings.slots, settings.memory // 2 // n)}
            )
            changes = {"scheme": scheme, "jobs": ({},) * n, **memory}
            points.append(Point(f"{scheme}, {n} job{'s' * (n > 1)}", {"scheme": scheme, "jobs": n}, changes))
    return paired(points, settings, seed)


def _time_to_accuracy(trial: dict[str, Any]) -> float:
    """Seconds until the last of the jobs has reached TARGET; NaN if one never does."""
    reached: dict[int, float] = {}
    for record in trial["steps"]:
        if record.get("accuracy", 0.0) >= TARGET:
            reached.setdefault(record.get("job", 0), record["ended"])
    return max(reached.values()) if len(reached) == len(parts(trial)) else float("nan")


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Time to accuracy and fairness against the number of jobs."""
    figure, (time, fair) = new_figure(2)
    at = levels(run, "jobs")
    for j, scheme in enumerate(run.record["settings"]["schemes"]):
        place = in_order(at, 0.06 * (j - 0.5))
        curve(time, run, "jobs", _time_to_accuracy, look_of(scheme), place, scheme=scheme)
        curve(fair, run, "jobs", fairness, look_of(scheme), place, scheme=scheme)
    time.set_ylabel(f"seconds until all jobs have {100 * TARGET:g} %")
    fair.set_ylabel("Jain's index of the jobs' throughput")
    time.set_ylim(bottom=0)
    fair.set_ylim(0, 1.05)
    for ax in (time, fair):
        ax.set_xticks(range(len(at)), [str(n) for n in at])
        ax.set_xlabel("jobs at once")
    named(figure, (time, fair))
    memory = run.record["settings"]["memory"]
    caption = (
        f"Training time until the last job's model has {100 * TARGET:g} % of the test digits right, and fairness between the jobs, "
        f"against their number. The switches have {memory} aggregators: ATP's jobs share them, SwitchML's pools have equal parts. "
        "Medians with intervals."
    )
    yield "atp_jobs", caption, figure


def findings(run: Run) -> list[str]:
    """What more jobs cost each scheme, and how fair they are to each other."""
    sentences = not_valid(run)
    for n in levels(run, "jobs"):
        for scheme in run.record["settings"]["schemes"]:
            here = {"scheme": scheme, "jobs": n}
            known, valid = estimate(run, _time_to_accuracy, **here), sum(t["valid"] for t in matching(run, **here))
            slower = ratio(run, _time_to_accuracy, here, {"scheme": scheme, "jobs": 1})
            sentences.append(
                f"{look_of(scheme).label}, {n} at once: {100 * TARGET:g} % after {words(known, '.1f')} s (in {known.n} of "
                f"{valid} valid trials), {words(slower)} times a job alone; Jain's index "
                f"{words(estimate(run, fairness, **here), '.3f')}."
            )
    return sentences
