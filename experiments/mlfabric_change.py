"""Asynchronous training where links' rates change: updates and time that a model needs, over those on links that stay as they are.

A tenth of the workers' links have half the rate all the time, or change between the whole and half of it (a Markov process).
MLfabric's scheduler learns the rates from transfers, or plans with those that the network began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw.curves import bar, look_of, not_valid, over_base, ratio, values, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import time_to_accuracy, updates_to_accuracy
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.rates import MARKOV
from inalab.testbed.plan.sweep import Point, SweepSettings, paired, slow_links
from inalab.testbed.record.runs import Run

RUNS_ON = "virtual"
UNLEARNT, BOUNDED = "mlfabric, not learnt", "mlfabric, bounded"
LOOKS = {
    "async": look_of("async"), "ssp": look_of("ssp"), "mlfabric": look_of("mlfabric"),
    UNLEARNT: variant_of(look_of("mlfabric"), "MLfabric, rates not learnt", 1),
    BOUNDED: variant_of(look_of("mlfabric"), "MLfabric, bounded delay", 2),
}  # fmt: skip
FIXED, HALF, CHANGING = "as they were", "half the rate", "changing"
REPORTED = 1.35  # iterations, where a tenth of the links have half the rate (reading notes)


class Settings(SweepSettings):
    """One rack of ten. An update takes 57 ms on a link, and a gradient 20 ms."""

    target: float = Field(0.88, gt=0, lt=1, description="target accuracy, to which updates and time are counted")
    share: float = Field(0.1, gt=0, le=1, description="of the workers' links that have half the rate, or change, rounded up")
    bound: int = Field(9, ge=0, description="of the delay, for MLfabric where it is bounded")
    racks: int = 1
    workers: int = 10
    host_rate: float = 10.0
    steps: int = 45
    compute_ms: float = 20.0
    changing_mean: float = 2.0
    evaluate_every: int = 1


QUICK: dict[str, Any] = {"seeds": 1, "steps": 8, "workers": 4, "target": 0.6}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way on links that stay, that are slow, and that change."""
    ways: dict[str, dict[str, Any]] = {way: {"scheme": way} for way in ("async", "ssp", "mlfabric")}
    ways |= {
        UNLEARNT: {"scheme": "mlfabric", "mlfabric.learn": False},
        BOUNDED: {"scheme": "mlfabric", "mlfabric.delay": settings.bound},
    }
    conditions: dict[str, dict[str, Any]] = {
        FIXED: {}, HALF: slow_links(settings, settings.share), CHANGING: {"changing": MARKOV, "changing_share": settings.share},
    }  # fmt: skip
    points = [
        Point(f"{LOOKS[way].label}, {name}", {"way": way, "links": name}, {"pipeline": ASYNCHRONOUS} | changes | condition)
        for name, condition in conditions.items()
        for way, changes in ways.items()
    ]
    return paired(points, settings, seed)


def _share(run: Run) -> str:
    return f"{100 * run.record['settings']['share']:.0f} %"


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Updates and time to the target, over those on links that stay as they are."""
    target = run.record["settings"]["target"]
    figure, axes = new_figure(2)
    for ax, reach, wording in zip(axes, (updates_to_accuracy(target), time_to_accuracy(target)), ("updates", "time"), strict=True):
        for number, way in enumerate(LOOKS):
            measure = over_base(run, reach, way=way, links=FIXED)
            for beside, links in ((-0.2, HALF), (0.2, CHANGING)):
                bar(ax, number + beside, values(run, measure, way=way, links=links), LOOKS[way], light=links == CHANGING)
        ax.axhline(1, color="black", linewidth=1, linestyle=":")
        ax.set_xticks(range(len(LOOKS)), [look.label for look in LOOKS.values()], rotation=30, ha="right")
        ax.set_ylabel(f"{wording} to {100 * target:g} %,\ntimes that on links that stay")
    axes[0].axhline(REPORTED, color="grey", linewidth=1, linestyle="--", label="reported for half the rate")
    named(figure, axes)
    caption = (
        f"Updates and time until the model has {100 * target:g} % test accuracy, over those of the same way and seed on links that "
        f"stay as they are. Dark: {_share(run)} of the links have half the rate. Light: they change between the whole and half of "
        "it. Each seed a point, medians with intervals."
    )
    yield "mlfabric_change", caption, figure


def findings(run: Run) -> list[str]:
    """What slow and changing links cost each way, and what learning their rates gains."""
    sentences, target = not_valid(run), run.record["settings"]["target"]
    updates, time = updates_to_accuracy(target), time_to_accuracy(target)
    for way, look in LOOKS.items():
        parts = []
        for links in (HALF, CHANGING):
            here, base = {"way": way, "links": links}, {"way": way, "links": FIXED}
            found = [ratio(run, measure, here, base) for measure in (updates, time)]
            if all(each.n for each in found):
                parts.append(f"{links} {words(found[0])} times the updates and {words(found[1])} times the time")
        if parts:
            sentences.append(f"{look.label}: with {_share(run)} of the links {'; '.join(parts)}.")
    gained = ratio(run, time, {"way": UNLEARNT, "links": CHANGING}, {"way": "mlfabric", "links": CHANGING})
    if gained.n:
        sentences.append(f"On changing links MLfabric takes {words(gained)} times as long where rates are not learnt.")
    return sentences
