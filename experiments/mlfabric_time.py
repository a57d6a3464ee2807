"""Accuracy against time where communication is most of a step: asynchronous training in several ways, and synchronous training.

Two conditions: some of the workers have links of half the rate, or the workers' compute times are drawn from a distribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS, BLOCKING
from inalab.testbed.draw.curves import bar, estimate, look_of, matching, not_valid, ratio, values, variant_of, words
from inalab.testbed.draw.plots import new_figure
from inalab.testbed.measures import delays, time_to_accuracy
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, SweepSettings, paired, slow_links
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval

BOUND = "mlfabric, bounded"
LOOKS = {
    "async": look_of("async"), "ssp": look_of("ssp"), "mlfabric": look_of("mlfabric"),
    BOUND: variant_of(look_of("mlfabric"), "MLfabric, bounded delay", 1),
    "byteps": replace(look_of("byteps"), label="BytePS, asynchronous"),
    "switchml": replace(look_of("switchml"), line="--"), "ring": replace(look_of("ring"), line="--"),
}  # fmt: skip
CONDITIONS = {"links": "slow links", "compute": "compute stragglers"}


class Settings(SweepSettings):
    """One rack of eight. An update takes 57 ms on a link, and a gradient 20 ms."""

    target: float = Field(0.9, gt=0, lt=1, description="target accuracy, to which the time is measured")
    share: float = Field(0.1, gt=0, le=1, description="of the workers' links that have half the rate, rounded up")
    bound: int = Field(7, ge=0, description="of the delay, for MLfabric where it is bounded")
    racks: int = 1
    workers: int = 8
    host_rate: float = 10.0
    k: int = 256
    slots: int = 32
    steps: int = 60
    compute_ms: float = 20.0


QUICK: dict[str, Any] = {"seeds": 1, "steps": 12, "workers": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way under both conditions."""
    ways: dict[str, dict[str, Any]] = {way: {"scheme": way, "pipeline": ASYNCHRONOUS} for way in ("async", "ssp", "mlfabric")}
    ways[BOUND] = ways["mlfabric"] | {"mlfabric.delay": settings.bound}
    ways["byteps"] = {"scheme": "byteps", "pipeline": ASYNCHRONOUS, "byteps.servers": 1}
    ways |= {way: {"scheme": way, "pipeline": BLOCKING} for way in ("switchml", "ring")}
    slow = slow_links(settings, settings.share)
    conditions: dict[str, dict[str, Any]] = {"links": slow, "compute": {"straggler": "exponential", "straggler_mean": 1.0}}
    points = [
        Point(f"{LOOKS[way].label}, {CONDITIONS[name]}", {"way": way, "condition": name}, changes | condition)
        for name, condition in conditions.items()
        for way, changes in ways.items()
    ]
    return paired(points, settings, seed)


def _accuracy(trial: dict[str, Any], at: NDArray[np.float64]) -> Any:
    """In percent at these times: what it was last before each; NaN before the first and after the last."""
    found = sorted((r["ended"], r["accuracy"]) for r in trial["steps"] if "accuracy" in r)
    times, heights = np.array([0.0, *(when for when, _ in found)]), np.array([np.nan, *(100 * height for _, height in found)])
    return np.where(at <= times[-1], heights[np.searchsorted(times, at, side="right") - 1], np.nan)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Accuracy over time under each condition, and times to the target."""
    figure, axes = new_figure(3)
    target = run.record["settings"]["target"]
    for ax, (condition, wording) in zip(axes, CONDITIONS.items(), strict=False):
        ends = [max(r["ended"] for r in t["steps"]) for t in matching(run, condition=condition)]
        at = np.linspace(0, float(np.median(ends)) if ends else 1.0, 200)
        for way, look in LOOKS.items():
            seeds = [_accuracy(t, at) for t in matching(run, way=way, condition=condition) if t["valid"]]
            if seeds:
                ax.plot(at, np.median(seeds, axis=0), look.line, color=look.colour, linewidth=1.6, label=look.label)
        ax.axhline(100 * target, color="grey", linewidth=1, linestyle=":")
        ax.set_xlabel("seconds")
        ax.set_ylabel("test accuracy (%)")
        ax.set_title(wording)
    _times(axes[2], run, target)
    handles = {look.label: axes[0].plot([], [], look.line, color=look.colour)[0] for look in LOOKS.values()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    caption = (
        "Left and middle: test accuracy over time, medians over the seeds; a line ends where its first seed does. "
        "Right: the time to the target; each seed a point, "
        "medians with intervals."
    )
    yield "mlfabric_time", caption, figure


def _times(ax: Any, run: Run, target: float) -> None:
    """Times to the target, a pair of bars a way."""
    for number, (way, look) in enumerate(LOOKS.items()):
        for beside, condition in ((-0.2, "links"), (0.2, "compute")):
            found = values(run, time_to_accuracy(target), way=way, condition=condition)
            bar(ax, number + beside, found, look, light=condition == "compute")
    ax.set_xticks(range(len(LOOKS)), [look.label for look in LOOKS.values()], rotation=30, ha="right")
    ax.set_ylabel(f"seconds to {100 * target:g} %")
    ax.set_title("left: slow links; right: stragglers", loc="right")


def findings(run: Run) -> list[str]:
    """Times to the target, delays, and how many times faster than plain asynchronous SGD each way is."""
    sentences, target = not_valid(run), run.record["settings"]["target"]
    reaching = time_to_accuracy(target)
    for condition, named in CONDITIONS.items():
        for way, look in LOOKS.items():
            here: dict[str, Any] = {"way": way, "condition": condition}
            found, behind = values(run, reaching, **here), estimate(run, delays, **here)
            took = f" after {words(median_interval(found), '.1f')} s" if found else ""
            late = f"; gradients are {words(behind, '.1f')} updates behind" if behind.n else ""
            faster = ratio(run, reaching, {"way": "async", "condition": condition}, here)
            gain = f"; {words(faster)} times as fast as plain asynchronous SGD" if way != "async" and faster.n else ""
            reached = f"{len(found)} of {len(matching(run, **here))} seeds reach {100 * target:g} %"
            sentences.append(f"{named.capitalize()}, {look.label}: {reached}{took}{late}{gain}.")
    return sentences
