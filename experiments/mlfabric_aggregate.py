"""How many transfers to the server a number of updates takes, if workers that wait for their turn add others' updates to theirs.

While the first update is sent, the sender of the second can take in one more, that of the third two, and so on: K transfers bring
K(K + 1)/2 updates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw.curves import bound_line, curve, estimate, levels, look_of, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import mean_completion, tensors_into_server, transfers_to_server
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, paired
from inalab.testbed.record.runs import Run

LOOK = look_of("mlfabric")
LOOKS = {False: variant_of(LOOK, "one by one", 1), True: replace(LOOK, label="aggregated")}


class Settings(SweepSettings):
    """One rack; each worker has one update, all at the same time."""

    sizes: Sizes = (3, 6, 8, 10, 16)
    scheme: str = "mlfabric"
    pipeline: str = ASYNCHRONOUS
    racks: int = 1
    workload: str = "tensor-100000"
    steps: int = 1
    compute_ms: float = 100.0


QUICK: dict[str, Any] = {"sizes": (3, 6), "seeds": 1, "workload": "tensor-50000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every number of workers, with and without aggregation."""
    points = [
        Point(
            f"{look.label}, {n} workers",
            {"aggregate": aggregate, "n": n},
            {"mlfabric.aggregate": aggregate, "workers": n},
        )
        for n in settings.sizes
        for aggregate, look in LOOKS.items()
    ]
    return paired(points, settings, seed)


def slots(updates: int) -> int:
    """The least K for which K(K + 1)/2 is at least so many."""
    return next(k for k in range(updates + 1) if k * (k + 1) // 2 >= updates)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Transfers and bytes to the server over the number of updates."""
    figure, axes = new_figure(2)
    sizes = levels(run, "n")
    for ax, measure in zip(axes, (transfers_to_server, tensors_into_server), strict=True):
        for aggregate, look in LOOKS.items():
            curve(ax, run, "n", measure, look, aggregate=aggregate)
            bound_line(ax, sizes, [slots(n) if aggregate else n for n in sizes], look)
        ax.set_xticks(sizes)
        ax.set_xlabel("workers with an update each")
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("transfers to the server")
    axes[1].set_ylabel("bytes into the server (tensors)")
    axes[0].set_title("dotted: n, and K with K(K + 1)/2 ≥ n")
    named(figure, axes)
    caption = (
        "Every worker has an update at the same time. Left: transfers to the server. Right: what they carry over its link, "
        "headers and acknowledgments included. Medians with intervals."
    )
    yield "mlfabric_aggregate", caption, figure


def findings(run: Run) -> list[str]:
    """Transfers beside K, bytes, and the mean completion."""
    sentences = not_valid(run)
    for n in levels(run, "n"):
        here: dict[str, Any] = {"aggregate": True, "n": n}
        used, carried = estimate(run, transfers_to_server, **here), estimate(run, tensors_into_server, **here)
        sooner = ratio(run, mean_completion, {"aggregate": False, "n": n}, here)
        sentences.append(
            f"{n} updates at once take {words(used, '.0f')} transfers, where {slots(n)} are enough, and {words(carried)} tensors "
            f"into the server; one by one the mean completion is {words(sooner)} times as long."
        )
    return sentences
