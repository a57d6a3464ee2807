"""One to 32 jobs that arrive as a Poisson process has it and share the switches' memory, simulated: ATP against SwitchML.

Every job has a worker in either of two racks, and with ATP a server. ATP's jobs take aggregators as they need them, SwitchML's
pools are equal parts that each job keeps. Measured points are drawn in; more jobs than those are extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.switches.sizes import MAX_WORKERS
from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.draw.simulated import draw_alike, shade
from inalab.testbed.measures import collisions, metric
from inalab.testbed.plan.arrivals import arriving
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "simulated"
TAT = metric("tat_median", 1000)


class Settings(SweepSettings):
    """As in experiment validation, whose measured points are drawn in. Uplinks carry ten jobs at once."""

    numbers: Integers = Field((1, 2, 4, 8, 16, 32), description="of jobs")
    memories: Integers = Field((128, 512), description="aggregators of a switch, for all jobs together")
    schemes: Words = Field(("atp", "switchml"), description="what is compared")
    gap: float = Field(0.2, ge=0, description="seconds between two arrivals, on average")
    uplink_rate: float = 100.0
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 6
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"numbers": (1, 4), "memories": (128,), "seeds": 1}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme with every number of jobs and every memory. Each seed has arrivals of its own."""
    for n, memory in product(settings.numbers, settings.memories):
        if not 1 <= n <= (most := min(memory // 2, MAX_WORKERS)):
            why = "a worker each in a rack" if most == MAX_WORKERS else f"a slot each of {memory} aggregators"
            raise SettingsError(f"numbers has {n}: from 1 to {most} jobs can have {why}")
    once = settings.model_copy(update={"seeds": 1})
    return [trial for s in range(seed, seed + settings.seeds) for trial in paired(_points(settings, s), once, s)]


def _points(settings: Settings, seed: int) -> Iterator[Point]:
    for n, memory, scheme in product(settings.numbers, settings.memories, settings.schemes):
        changes = arriving(scheme, n, settings.gap, seed, memory, settings.slots)
        yield Point(
            f"{scheme}, {n} job{'s' * (n > 1)}, {memory} aggregators", {"scheme": scheme, "jobs": n, "memory": memory}, changes
        )


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT against the number of jobs, a panel for each memory; and how many of ATP's packets found their aggregators taken."""
    memories, at = run.record["settings"]["memories"], levels(run, "jobs")
    figure, (*axes, taken) = new_figure(len(memories) + 1)
    for ax, memory in zip(axes, memories, strict=True):
        most = 0
        for scheme in run.record["settings"]["schemes"]:
            curve(ax, run, "jobs", TAT, look_of(scheme), scheme=scheme, memory=memory)
            most = max(most, draw_alike(ax, run, "jobs", 1000.0, look_of(scheme).colour, scheme=scheme, memory=memory))
            if scheme == "atp":
                look = look_of(scheme)
                curve(taken, run, "jobs", collisions, look, scheme=scheme, memory=memory)
                last = estimate(run, collisions, scheme=scheme, memory=memory, jobs=at[-1])
                taken.annotate(f"{memory}", (at[-1], last.median), xytext=(6, -3), textcoords="offset points")
        ax.set_title(f"{memory} aggregators")
        ax.set_ylabel("median TAT (ms), mean over the jobs")
        shade(ax, run, most, "jobs")
    taken.set_ylabel("ATP's collisions (%)")
    highest = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(0, 1.05 * highest)
    taken.set_ylim(bottom=0)
    for ax in (*axes, taken):
        ax.set_xscale("log", base=2)
        ax.set_xticks(at, [str(n) for n in at])
        ax.minorticks_off()
        ax.set_xlabel("jobs that arrive")
    named(figure, axes)
    caption = (
        f"Aggregation time of jobs that arrive every {run.record['settings']['gap']:g} s on average, and share the switches' "
        "memory: ATP's take aggregators as they need them, SwitchML's have equal parts for their pools. Simulated; medians with "
        "intervals, a point for each seed's arrivals. Black edges: measured. Shaded: extrapolation. SwitchML's "
        "workers agree on exponents a pool ahead of each sum, so the smallest pool that fills the link is the fastest."
    )
    yield "scale_jobs", caption, figure


def findings(run: Run) -> list[str]:
    """What the most jobs cost each scheme, over a job alone."""
    sentences = not_valid(run)
    if not (numbers := levels(run, "jobs")):
        return sentences
    for memory in run.record["settings"]["memories"]:
        for scheme in run.record["settings"]["schemes"]:
            here = {"scheme": scheme, "memory": memory}
            alone, all_of_them = (estimate(run, TAT, jobs=n, **here) for n in (numbers[0], numbers[-1]))
            wording = f", {words(estimate(run, collisions, jobs=numbers[-1], **here), '.1f')} % taken" if scheme == "atp" else ""
            sentences.append(
                f"{memory} aggregators, {look_of(scheme).label}: median TAT {words(all_of_them, '.0f')} ms with "
                f"{numbers[-1]} jobs{wording}, "
                f"{words(alone, '.0f')} ms with {numbers[0]}, simulated."
            )
    return sentences
