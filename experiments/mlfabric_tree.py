"""Synchronous sums where some links have half the rate: an aggregation tree that follows the rates, against schemes that do not.

With S bytes and links of rate B a ring takes 2(n - 1)/n S/B, and twice as long as soon as one link has half the rate. In a tree a
worker has to carry a tensor each way for each of its neighbours. Slow workers are leaves, with one neighbour, so that up to two of
them cost nothing: equal workers form a chain, which has two leaves anyhow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    bound_line,
    curve,
    estimate,
    in_order,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    ratio,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import metric, of_bound, update_seconds
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired, slow_links
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

TAT = metric("tat_median")  # s


class Settings(SweepSettings):
    """One rack of eight."""

    shares: Numbers = Field((0.0, 0.1, 0.25, 0.5), description="of the workers' links that have half the rate, rounded up")
    schemes: Words = Field(("tree", "ring", "halving-doubling"), description="what is compared")
    racks: int = 1
    workers: int = 8
    host_rate: float = 10.0
    workload: str = "tensor-200000"
    steps: int = 4
    compute_ms: float = 100.0


QUICK: dict[str, Any] = {"shares": (0.0, 0.25), "workers": 4, "workload": "tensor-50000", "seeds": 1, "steps": 3}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme with every share of slow links."""
    points = []
    for share in settings.shares:
        slow = slow_links(settings, share)
        points += [
            Point(f"{look_of(s).label}, {100 * share:g} % slow", {"scheme": s, "share": share}, {"scheme": s} | slow)
            for s in settings.schemes
        ]
    return paired(points, settings, seed)


def _in_tensors(trial: dict[str, Any]) -> float:
    """The TAT, in units of a tensor's time on a link of the full rate."""
    return TAT(trial) / update_seconds(trial)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT over the share of slow links, with each scheme's bound."""
    figure, (ax,) = new_figure(1)
    shares = levels(run, "share")
    place = in_order(shares, 0.0)
    for scheme in run.record["settings"]["schemes"]:
        curve(ax, run, "share", _in_tensors, look_of(scheme), place, scheme=scheme)
        found = {share: matching(run, scheme=scheme, share=share)[0] for share in levels(run, "share", scheme=scheme)}
        heights = [bounds.of_trial(trial) / update_seconds(trial) for trial in found.values()]
        bound_line(ax, map(place, found), heights, look_of(scheme))
    ax.set_xticks(range(len(shares)), [f"{100 * share:g} %" for share in shares])
    ax.set_xlabel("workers' links at half the rate")
    ax.set_ylabel("median TAT (tensors at the full rate)")
    ax.set_ylim(bottom=0)
    ax.set_title("dotted: bounds")
    named(figure, (ax,))
    caption = (
        "Tensor aggregation time against the share of links that have half the rate, in units of the time that "
        "the tensor takes on a link of the full rate: medians with intervals, a point for each seed."
    )
    yield "mlfabric_tree", caption, figure


def findings(run: Run) -> list[str]:
    """How near each is to its bound, and what the tree gains."""
    sentences = not_valid(run)
    for share in levels(run, "share"):
        for scheme in run.record["settings"]["schemes"]:
            here: dict[str, Any] = {"scheme": scheme, "share": share}
            took, near = (
                estimate(run, _in_tensors, **here),
                near_bound(scheme).words(estimate(run, of_bound, **here), "of its bound's rate"),
            )
            longer = ratio(run, TAT, here, {"scheme": "tree", "share": share})
            wording = f"; {words(longer)} times as long as the tree" if scheme != "tree" and longer.n else ""
            named = f"{100 * share:g} % of the links slow, {look_of(scheme).label}"
            sentences.append(f"{named}: a sum takes {words(took)} tensors' time, {near}{wording}.")
    return sentences
