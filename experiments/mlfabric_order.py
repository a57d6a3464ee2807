"""When updates that are there at once reach the server: all share its link, or one goes after another.

If n updates of S bytes share a link of rate B, all arrive after nS/B. If they go one after another at full rate, the last is
as late, but they arrive after (n + 1)S/2B on average. Order is all that differs: nothing is dropped, and no worker adds updates on
the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw.curves import Tolerance, bound_line, curve, estimate, levels, look_of, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import completions, mean_completion, update_seconds
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, paired
from inalab.testbed.record.runs import Run

WAYS = {"async": "fair", "mlfabric": "ordered"}
OF_CLOSED_FORM = Tolerance(0.9, 1.1)


class Settings(SweepSettings):
    """One rack; each worker has one update, all at the same time."""

    sizes: Sizes = (2, 4, 8)
    pipeline: str = ASYNCHRONOUS
    racks: int = 1
    workload: str = "tensor-100000"
    steps: int = 1
    compute_ms: float = 100.0


QUICK: dict[str, Any] = {"sizes": (2, 4), "seeds": 1, "workload": "tensor-50000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Both ways with every number of workers."""
    alone: dict[str, Any] = {"mlfabric.aggregate": False}
    points = [
        Point(f"{wording}, {n} workers", {"way": scheme, "n": n}, {"scheme": scheme, "workers": n} | own)
        for n in settings.sizes
        for (scheme, wording), own in zip(WAYS.items(), ({}, alone), strict=True)
    ]
    return paired(points, settings, seed)


def closed_form(way: str, n: int) -> float:
    """The mean completion, in updates on a link."""
    return n if way == "async" else (n + 1) / 2


def _mean(trial: dict[str, Any]) -> float:
    """The mean completion in updates on a link."""
    return mean_completion(trial) / update_seconds(trial)


def of_closed_form(trial: dict[str, Any]) -> float:
    return _mean(trial) / closed_form(trial["factors"]["way"], trial["factors"]["n"])


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Mean completion over the number of workers; and when each update of the most workers is there."""
    figure, (means, each) = new_figure(2)
    sizes = levels(run, "n")
    for way in WAYS:
        look = look_of(way)
        curve(means, run, "n", _mean, look, way=way)
        bound_line(means, sizes, [closed_form(way, n) for n in sizes], look)
        for trial in (t for t in matching(run, way=way, n=max(sizes, default=0)) if t["valid"]):
            at = np.array(completions(trial)) / update_seconds(trial)
            each.step([0, *at], range(len(at) + 1), where="post", color=look.colour, linewidth=1, alpha=0.5)
    means.set_xticks(sizes)
    means.set_xlabel("workers with an update each")
    means.set_ylabel("mean time (updates on a link)")
    means.set_title("dotted: n, and (n + 1) / 2")
    each.set_xlabel("time (updates on a link)")
    each.set_ylabel(f"updates applied, of {max(sizes, default=0)}")
    means.set_ylim(bottom=0)
    named(figure, (means,))
    caption = (
        "Every worker has an update at the same time. Left: the mean time until one is applied, in units of the time that it takes "
        "on a link by itself; medians with intervals. Right: how many are applied, each seed a line."
    )
    yield "mlfabric_order", caption, figure


def findings(run: Run) -> list[str]:
    """Mean completions over the closed forms, and how much order gains."""
    sentences = not_valid(run)
    for n in levels(run, "n"):
        for way, wording in WAYS.items():
            near = OF_CLOSED_FORM.words(estimate(run, of_closed_form, way=way, n=n), "times the closed form")
            sentences.append(f"{n} workers, {wording}: the mean completion is {near}.")
        gain = ratio(run, mean_completion, {"way": "async", "n": n}, {"way": "mlfabric", "n": n})
        sentences.append(f"{n} workers: the mean completion is {words(gain)} times as long where updates share the link.")
    return sentences
