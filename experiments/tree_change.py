"""Synchronous sums where links' rates change: an aggregation tree that is planned anew, against one that stays, and a ring.

Some workers' links change between the whole and half of their rate (a Markov process). A slow worker inside a tree doubles the time
of a sum. As a leaf it costs nothing, as long as fast workers are left for the inside. Workers that learn measure their links in
each sum, and the next one can have another tree. So the longer a link stays as it is, the more is gained.
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
    levels,
    look_of,
    matching,
    not_valid,
    ratio,
    variant_of,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import metric, update_seconds
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.rates import MARKOV
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

RUNS_ON = "virtual"
TAT = metric("tat_mean")  # s
LEARNS, STAYS, RING = "tree, learnt", "tree", "ring"
LOOKS = {LEARNS: variant_of(look_of("tree"), "tree planned anew", 1), STAYS: look_of("tree"), RING: look_of("ring")}
WAYS: dict[str, dict[str, Any]] = {
    LEARNS: {"scheme": "tree", "tree.learn": True}, STAYS: {"scheme": "tree"}, RING: {"scheme": "ring"},
}  # fmt: skip


class Settings(SweepSettings):
    """One rack of eight. A tensor takes 0.2 s on a link."""

    changes: Numbers = Field((0.0, 4.0, 12.0, 30.0), description="of the rate of each link that changes, in a minute on average")
    share: float = Field(0.25, gt=0, le=1, description="of the workers' links that change, rounded up")
    racks: int = 1
    workers: int = 8
    host_rate: float = 10.0
    workload: str = "tensor-60000"
    steps: int = 60
    compute_ms: float = 100.0


QUICK: dict[str, Any] = {"changes": (0.0, 30.0), "seeds": 1, "steps": 12}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way on links that stay, and that change more and less often."""
    points = []
    for often in settings.changes:
        changes = {"changing": MARKOV, "changing_share": settings.share, "changing_mean": 60 / often} if often else {}
        points += [
            Point(f"{LOOKS[way].label}, {_named(often)}", {"way": way, "changes": often}, its | changes)
            for way, its in WAYS.items()
        ]
    return paired(points, settings, seed)


def _named(often: float) -> str:
    return f"{often:g} changes a minute" if often else "no changes"


def _in_tensors(trial: dict[str, Any]) -> float:
    """The mean TAT, in units of a tensor's time on a link of the whole rate."""
    return TAT(trial) / update_seconds(trial)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The mean TAT over how often links change, with the bounds at the configured rates."""
    figure, (ax,) = new_figure(1)
    often = levels(run, "changes")
    for way, look in LOOKS.items():
        curve(ax, run, "changes", _in_tensors, look, way=way)
        if way != LEARNS and (found := matching(run, way=way)):
            bound_line(ax, often, [bounds.of_trial(found[0]) / update_seconds(found[0])] * len(often), look)
    ax.set_xticks(often)
    ax.set_xlabel("changes of a link's rate in a minute, on average")
    ax.set_ylabel("mean TAT (tensors at the whole rate)")
    ax.set_ylim(bottom=0)
    ax.set_title("dotted: bounds at the configured rates")
    named(figure, (ax,))
    caption = (
        f"Mean tensor aggregation time where {100 * run.record['settings']['share']:g} % of the links change between the whole and "
        "half of their rate, in units of the time that the tensor takes on a link of the whole rate: medians of the seeds with "
        "intervals, a point for each seed."
    )
    yield "tree_change", caption, figure


def findings(run: Run) -> list[str]:
    """What learning gains over a tree that stays, and over a ring."""
    sentences = not_valid(run)
    for often in levels(run, "changes"):
        learns, stays, ring = ({"way": way, "changes": often} for way in (LEARNS, STAYS, RING))
        sentences.append(
            f"{_named(often).capitalize()}: a sum takes {words(estimate(run, _in_tensors, **learns))} tensors' time where the tree "
            f"is planned anew; a tree that stays takes {words(ratio(run, TAT, stays, learns))} times as long, a ring "
            f"{words(ratio(run, TAT, ring, learns))} times."
        )
    return sentences
