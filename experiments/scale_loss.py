"""What losses cost SwitchML and ATP as groups grow, simulated: a chunk needs all its packets, so more workers lose more chunks.

Both ways to recover are compared, at the loss rates of every link and direction. Measured points are drawn in; beyond them is
extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, levels, look_of, matching, not_valid, over_base, variant_of, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.draw.simulated import draw_measured_losses, shade
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, Sizes, SweepSettings, in_racks, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "simulated"
TAT = metric("tat_mean")
WAYS = {
    ("switchml", "ask"): replace(look_of("switchml"), label="SwitchML, query"),
    ("switchml", "paper"): variant_of(look_of("switchml"), "SwitchML, paper", 1),
    ("atp", "ask"): replace(look_of("atp"), label="ATP, query"),
    ("atp", "paper"): variant_of(look_of("atp"), "ATP, paper", 1),
}
MOST_IN_RACK = 16


class Settings(SweepSettings):
    """As in experiment validation, whose measured points are drawn in; racks of 16, whose uplinks carry all that hosts send."""

    sizes: Sizes = Field((2, 4, 8, 16, 32, 64, 128), description="numbers of workers")
    most_of_atp: int = Field(64, ge=2, description="workers of ATP, whose queries take over beyond, and take minutes to simulate")
    rates: Numbers = Field((0.001, 0.01), description="loss rates")
    seeds: int = 5
    racks: int = 1
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 6
    compute_ms: float = 40.0
    patience: float = 600.0


QUICK: dict[str, Any] = {"sizes": (2, 8), "rates": (0.01,), "seeds": 1}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every number of workers at every rate, and without losses."""
    points = []
    for n in settings.sizes:
        shape = in_racks(n, MOST_IN_RACK, settings.host_rate)
        for scheme, way in WAYS:
            if scheme == "atp" and n > settings.most_of_atp:
                continue
            for rate in (0.0, *settings.rates):
                name = f"{scheme}, {n} workers, {100 * rate:g} %, {way}"
                factors = {"scheme": scheme, "workers": n, "loss": rate, "recovery": way}
                points.append(Point(name, factors, {"scheme": scheme, "recovery": way, "loss": rate, **shape}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Inflation against the number of workers, a panel for each rate."""
    rates = run.record["settings"]["rates"]
    figure, axes = new_figure(len(rates), sharey=True)
    for ax, rate in zip(axes, rates, strict=True):
        for (scheme, way), look in WAYS.items():
            here: dict[str, Any] = {"scheme": scheme, "recovery": way}
            for n in levels(run, "workers"):
                base = over_base(run, TAT, workers=n, loss=0.0, **here)
                for trial in matching(run, workers=n, loss=rate, **here):
                    trial["metrics"]["inflation"] = base(trial)
            curve(ax, run, "workers", metric("inflation"), look, loss=rate, **here)
        most = max(draw_measured_losses(ax, run, rate, scheme, WAYS[scheme, "ask"].colour) for scheme in ("switchml", "atp"))
        ax.axhline(1, color="black", linestyle=":", linewidth=1.2)
        ax.set_xscale("log", base=2)
        at = levels(run, "workers")
        ax.set_xticks(at, [str(n) for n in at])
        ax.minorticks_off()
        ax.set_xlabel("workers")
        ax.set_title(f"{100 * rate:g} % loss")
        shade(ax, run, most)
    axes[0].set_yscale("log")
    readable(axes[0].yaxis)
    axes[0].set_ylabel("mean TAT, times that without loss")
    named(figure, axes)
    caption = (
        "Mean aggregation time of a tensor under loss over that without, against the number of workers, simulated: medians with "
        "intervals, a point for each seed. Black edges: measured, with queries; these few points "
        "are all that the lines rest on. Shaded: extrapolation."
    )
    yield "scale_loss", caption, figure


def findings(run: Run) -> list[str]:
    """What the losses cost the largest group, in each way."""
    sentences = not_valid(run)
    for rate in run.record["settings"]["rates"]:
        for (scheme, way), look in WAYS.items():
            if not (sizes := levels(run, "workers", scheme=scheme)):
                continue
            here = {"scheme": scheme, "workers": sizes[-1], "recovery": way}
            longer = estimate(run, over_base(run, TAT, loss=0.0, **here), loss=rate, **here)
            sentences.append(
                f"{100 * rate:g} % loss, {sizes[-1]} workers, {look.label}: {words(longer)} times the mean TAT without, simulated."
            )
    return sentences
