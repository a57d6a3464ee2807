"""How late updates are, and how many a model needs: asynchronous SGD, SSP, and MLfabric with several bounds of the delay.

Some of the workers have links of half the rate. Their updates are computed on older models than the others', and they hold up
whoever has to wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import (
    curve,
    estimate,
    in_order,
    levels,
    look_of,
    matching,
    not_valid,
    ratio,
    values,
    variant_of,
    words,
)
from inalab.testbed.draw.plots import new_figure
from inalab.testbed.measures import delays, each_delay, share_dropped, time_to_accuracy, updates_to_accuracy
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Integers, Numbers, Point, SweepSettings, paired, slow_links
from inalab.testbed.record.runs import Run


class Settings(SweepSettings):
    """One rack of eight. An update takes 57 ms on a link, and a gradient 20 ms."""

    shares: Numbers = Field((0.0, 0.1, 0.25), description="of the workers' links that have half the rate, rounded up")
    bounds: Integers = Field((8, 4), description="bounds on MLfabric's delay; it also runs without one")
    target: float = Field(0.9, gt=0, lt=1, description="target accuracy")
    pipeline: str = ASYNCHRONOUS
    racks: int = 1
    workers: int = 8
    host_rate: float = 10.0
    k: int = 256
    slots: int = 32
    steps: int = 50
    compute_ms: float = 20.0
    evaluate_every: int = 2


QUICK: dict[str, Any] = {"seeds": 1, "steps": 12, "workers": 4, "shares": (0.25,), "bounds": (4,)}


def _looks(bounds: Iterable[int]) -> dict[str, Look]:
    """By way of training: a scheme, and for MLfabric its bound."""
    looks = {scheme: look_of(scheme) for scheme in ("async", "ssp", "mlfabric")}
    for number, bound in enumerate(sorted(bounds, reverse=True)):
        looks[f"mlfabric, {bound}"] = variant_of(look_of("mlfabric"), f"MLfabric, bound {bound}", number)
    return looks


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way with every share of slow links."""
    points = []
    for share in settings.shares:
        slow = slow_links(settings, share)
        for way, look in _looks(settings.bounds).items():
            scheme, _, bound = way.partition(", ")
            change: dict[str, Any] = {"scheme": scheme} | ({"mlfabric.delay": int(bound)} if bound else {})
            points.append(Point(f"{look.label}, {100 * share:g} % slow", {"way": way, "share": share}, slow | change))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The distribution of delays at each share of slow links, and the updates and the time that a model needs."""
    shares, looks = levels(run, "share"), _looks(run.record["settings"]["bounds"])
    target = run.record["settings"]["target"]
    columns = max(len(shares), 2)
    figure, axes = new_figure(columns, 2)
    for unused in (*axes[len(shares) : columns], *axes[columns + 2 :]):
        unused.remove()
    for ax, share in zip(axes, shares, strict=False):
        for way, look in looks.items():
            found = sorted(d for t in matching(run, way=way, share=share) if t["valid"] for d in each_delay(t))
            if found:
                ax.step(found, np.arange(1, len(found) + 1) / len(found), color=look.colour, linewidth=1.5, where="post")
        ax.set_title(f"{100 * share:g} % of links slow")
        ax.set_xlabel("delay (updates)")
        ax.set_ylim(0, 1.02)
        ax.set_xlim(left=0)
    axes[0].set_ylabel("share of updates")
    needed = {"updates a worker": updates_to_accuracy(target), "seconds": time_to_accuracy(target)}
    for ax, (unit, measure) in zip(axes[columns:], needed.items(), strict=False):
        for number, (way, look) in enumerate(looks.items()):
            curve(ax, run, "share", measure, look, in_order(shares, 0.06 * (number - len(looks) / 2)), way=way)
        ax.set_xticks(range(len(shares)), [f"{100 * share:g} %" for share in shares])
        ax.set_xlabel("links at half the rate")
        ax.set_ylabel(f"{unit} to {100 * target:g} %")
        ax.set_ylim(bottom=0)
    handles = {look.label: axes[columns].plot([], [], color=look.colour)[0] for look in looks.values()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    caption = (
        "Left: the share of updates with at most this delay, by how many of the links have half the rate. The delay is how many "
        "updates of others the server had added since the version of the model that an update was computed on; all updates that "
        "were applied, of all seeds. Right: updates in the model that first reaches the target, over the number of workers, and "
        "when that is; medians with intervals."
    )
    yield "mlfabric_delay", caption, figure


def findings(run: Run) -> list[str]:
    """Delays, what was dropped, and how many updates a model needs against plain asynchronous SGD."""
    sentences, settings = not_valid(run), run.record["settings"]
    needed, looks = updates_to_accuracy(settings["target"]), _looks(settings["bounds"])
    for share in levels(run, "share"):
        for way, look in looks.items():
            here: dict[str, Any] = {"way": way, "share": share}
            largest = [max(each_delay(t)) for t in matching(run, **here) if t["valid"] and each_delay(t)]
            if not largest:
                continue
            late = f"the mean delay is {words(estimate(run, delays, **here), '.1f')} updates, the largest {max(largest):g}"
            dropped = fmean(values(run, share_dropped, **here))
            gone = f"; {100 * dropped:.0f} % are dropped" if dropped else ""
            fewer = ratio(run, needed, {"way": "async", "share": share}, here)
            sooner = ratio(run, time_to_accuracy(settings["target"]), {"way": "async", "share": share}, here)
            gain = f"; plain asynchronous SGD needs {words(fewer)} times as many updates" if way != "async" and fewer.n else ""
            gain += f" and {words(sooner)} times the time" if gain and sooner.n else ""
            sentences.append(f"{100 * share:g} % of the links slow, {look.label}: {late}{gone}{gain}.")
    return sentences
