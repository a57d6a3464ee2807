"""Who adds others' updates to its own: nobody, the worker that the scheduler plans, or one that it draws at random among the idle.

An aggregator sends when its links are free and all is in that it adds. From the first to the second it waits at a barrier, and the
server's link is idle unless others use it. A worker that is drawn may have a slow link, or others may send to it already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw.curves import curve, estimate, in_order, levels, look_of, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Record, barrier_wait, time_to_server, update_seconds, updates_per_second
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired, slow_links
from inalab.testbed.record.runs import Run

LOOK = look_of("mlfabric")
LOOKS = {
    "none": variant_of(LOOK, "no aggregators", 1),
    "planned": replace(LOOK, label="planned"),
    "random": variant_of(LOOK, "random", 0),
}
MEASURES = {
    "updates per second": updates_per_second,
    "time to the server (s)": time_to_server,
    "wait at the barrier (s)": barrier_wait,
}


class Settings(SweepSettings):
    """One rack of eight. An update takes a third of a second on a link, and a gradient 0.2 s."""

    shares: Numbers = Field((0.0, 0.25, 0.5), description="of the workers' links that have half the rate, rounded up")
    scheme: str = "mlfabric"
    pipeline: str = ASYNCHRONOUS
    racks: int = 1
    workers: int = 8
    host_rate: float = 5.0
    workload: str = "tensor-50000"
    steps: int = 20
    compute_ms: float = 200.0


QUICK: dict[str, Any] = {"seeds": 1, "steps": 5, "workers": 4, "shares": (0.25,)}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each kind of aggregators with every share of slow links."""
    points = []
    for share in settings.shares:
        for kind, look in LOOKS.items():
            change = {"mlfabric.aggregate": False} if kind == "none" else {"mlfabric.aggregator": kind}
            factors = {"aggregator": kind, "share": share}
            points.append(Point(f"{look.label}, {100 * share:g} % slow", factors, slow_links(settings, share) | change))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Updates, their time to the server, and the wait at the barrier, over the share of slow links."""
    figure, axes = new_figure(len(MEASURES))
    shares = levels(run, "share")
    for ax, (label, measure) in zip(axes, MEASURES.items(), strict=True):
        for number, (kind, look) in enumerate(LOOKS.items()):
            if kind != "none" or measure is not barrier_wait:
                curve(ax, run, "share", measure, look, in_order(shares, 0.08 * (number - 1)), aggregator=kind)
        ax.set_xticks(range(len(shares)), [f"{100 * share:g} %" for share in shares])
        ax.set_xlabel("links at half the rate")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    named(figure, axes)
    caption = (
        "Left: updates that the server applies in a second, until it has all. Middle: the mean time from when a worker has an "
        "update until the server applies it. Right: how long an aggregator whose links are free waits for what it adds; the mean. "
        "Medians with intervals."
    )
    yield "mlfabric_random", caption, figure


def _of_update(trial: Record) -> float:
    """The wait at the barrier over the time that an update takes on a whole link."""
    return barrier_wait(trial) / update_seconds(trial)


def findings(run: Run) -> list[str]:
    """What each kind gains over none, and what its aggregators wait for."""
    sentences = not_valid(run)
    for share in levels(run, "share"):
        for kind in ("planned", "random"):
            here, none = ({"aggregator": which, "share": share} for which in (kind, "none"))
            sentences.append(
                f"{100 * share:g} % of the links slow, {kind} aggregators: the server applies "
                f"{words(ratio(run, updates_per_second, here, none))} times as many updates a second as without aggregators, after "
                f"{words(ratio(run, time_to_server, here, none))} times as long; an aggregator waits at the barrier for "
                f"{words(estimate(run, _of_update, **here))} of an update's time on a whole link."
            )
    return sentences
