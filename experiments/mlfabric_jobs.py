"""Jobs on racks whose uplinks they share: each with a scheduler of its own, or one scheduler for all.

A scheduler of one job alone has a transfer begin when the job's own transfers have left the links. On an uplink it then shares the
rate with another job's. One scheduler has the transfers of all jobs take turns there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import time_to_server, updates_per_second
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

LOOKS = {
    False: variant_of(look_of("mlfabric"), "a scheduler each", 1),
    True: variant_of(look_of("mlfabric"), "one scheduler", 0),
}


class Settings(SweepSettings):
    """Two racks, and two workers of each job in each rack. An uplink has half the rate of a host's link."""

    numbers: Integers = Field((1, 2, 3), description="numbers of jobs")
    scheme: str = "mlfabric"
    pipeline: str = ASYNCHRONOUS
    racks: int = 2
    workers: int = 2
    host_rate: float = 5.0
    uplink_rate: float = 2.5
    workload: str = "tensor-50000"
    steps: int = 12
    compute_ms: float = 200.0
    straggler: str = "exponential"
    straggler_mean: float = 1.5


QUICK: dict[str, Any] = {"numbers": (1, 2), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every number of jobs with schedulers of their own, and with one."""
    points = [
        Point(
            f"{look.label}, {n} job{'s' * (n > 1)}", {"shared": shared, "jobs": n}, {"mlfabric.shared": shared, "jobs": ({},) * n}
        )
        for n in settings.numbers
        for shared, look in LOOKS.items()
    ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The time to the server and updates per second, over the number of jobs."""
    figure, axes = new_figure(2)
    numbers = levels(run, "jobs")
    for ax, (label, measure) in zip(
        axes, {"time to the server (s)": time_to_server, "updates per second": updates_per_second}.items(), strict=True
    ):
        for shared, look in LOOKS.items():
            curve(ax, run, "jobs", measure, look, shared=shared)
        ax.set_xticks(numbers)
        ax.set_xlabel("jobs")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    named(figure, axes)
    caption = (
        "Left: the mean time from when a worker has an update until its job's server applies it. Right: updates that all servers "
        "together apply in a second. Medians with intervals."
    )
    yield "mlfabric_jobs", caption, figure


def findings(run: Run) -> list[str]:
    """How much longer an update takes, and how many there are, where each job has a scheduler of its own."""
    sentences = not_valid(run)
    for n in levels(run, "jobs"):
        each, one = ({"shared": shared, "jobs": n} for shared in (False, True))
        sentences.append(
            f"{n} job{'s' * (n > 1)}: an update is at its server after {words(estimate(run, time_to_server, **one))} s with one "
            f"scheduler; with a scheduler each it takes {words(ratio(run, time_to_server, each, one))} times as long, and the "
            f"servers apply {words(ratio(run, updates_per_second, each, one))} times as many updates in a second."
        )
    return sentences
