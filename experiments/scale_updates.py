"""Asynchronous training from 2 to 256 workers, simulated: how long an update and the next model take, and how late updates are.

Plain asynchronous SGD and SSP let all share the server's link. MLfabric sends one update after another, adds updates at workers,
and has workers pass the model on. Measured points are drawn in; beyond them is extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.draw.simulated import draw_alike, shade
from inalab.testbed.measures import delays, metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, in_racks, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "simulated"
TAT = metric("tat_median")
WAYS: dict[str, dict[str, Any]] = {
    "async": {}, "ssp": {}, "mlfabric": {}, "mlfabric, one by one": {"mlfabric.aggregate": False, "mlfabric.distribute": False},
}  # fmt: skip
IN_RACK = 32


class Settings(SweepSettings):
    """As in experiment validation, whose measured points are drawn in; racks of 32, whose uplinks carry all that hosts send."""

    sizes: Sizes = Field((2, 4, 8, 16, 32, 64, 128, 256), description="numbers of workers")
    pipeline: str = ASYNCHRONOUS
    seeds: int = 3
    racks: int = 1
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 6
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"sizes": (2, 8), "seeds": 1, "steps": 3}


def _look(way: str) -> Look:
    scheme, _, alone = way.partition(", ")
    look = look_of(scheme)
    return replace(look, label=f"{look.label}, {alone}", line="--") if alone else look


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every way with every number of workers."""
    points = []
    for n in settings.sizes:
        shape = in_racks(n, IN_RACK, settings.host_rate)
        for way, own in WAYS.items():
            points.append(Point(f"{way}, {n} workers", {"way": way, "workers": n}, {"scheme": way.split(",")[0], **shape, **own}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT and delays against the number of workers."""
    figure, (lasts, late) = new_figure(2)
    most, at = 0, levels(run, "workers")
    for way in WAYS:
        curve(lasts, run, "workers", TAT, _look(way), way=way)
        curve(late, run, "workers", delays, _look(way), way=way)
        most = max(most, draw_alike(lasts, run, "workers", 1.0, _look(way).colour, way=way))
    for ax in (lasts, late):
        ax.set_xscale("log", base=2)
        ax.set_xticks(at, [str(n) for n in at])
        ax.minorticks_off()
        if np.isfinite(ax.dataLim.minposy):  # something is there to be drawn
            ax.set_yscale("log")
            readable(ax.yaxis)
        ax.set_xlabel("workers")
    shade(lasts, run, most)
    lasts.set_ylabel("update to next model (s)")
    late.set_ylabel("mean delay (updates)")
    named(figure, (lasts, late))
    caption = (
        "Left: seconds from when a worker has its update until it has the next model. Right: how many updates of others are "
        "applied before it. Simulated: medians with intervals, a point for each seed. Black edges: measured. "
        "Shaded: extrapolation. docs/reference/validation.md tells with which schemes the simulator may be trusted."
    )
    yield "scale_updates", caption, figure


def findings(run: Run) -> list[str]:
    """What order, aggregation and distribution gain with most workers."""
    sentences = not_valid(run)
    if not (sizes := levels(run, "workers")):
        return sentences
    plain = {"way": "async", "workers": sizes[-1]}
    for way in WAYS:
        here = {"way": way, "workers": sizes[-1]}
        gain = f", {words(ratio(run, TAT, plain, here))} times sooner than asynchronous SGD" if way != "async" else ""
        takes, late = words(estimate(run, TAT, **here)), words(estimate(run, delays, **here), ".0f")
        sentences.append(
            f"{sizes[-1]} workers, {_look(way).label}: an update and the next model take {takes} s{gain}; the mean delay is {late} "
            "updates, simulated."
        )
    return sentences
