"""What losses cost SwitchML as its groups grow, simulated: every packet of a chunk has to come, so the more workers, the more wait.

Both ways to recover are compared, at the loss rates of every link and direction. Measured points are drawn in; beyond them is
extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from schemes.scheme import Look
from testbed.draw.curves import curve, estimate, levels, not_valid, over_base, words
from testbed.draw.plots import COLOURS, new_figure, readable
from testbed.draw.simulated import draw_measured_losses, shade
from testbed.measures import metric
from testbed.plan.experiment import Trial
from testbed.plan.settings import SettingsError
from testbed.plan.sweep import Numbers, Point, Sizes, SweepSettings, paired
from testbed.record.runs import Run

RUNS_ON = "simulated"
TAT = metric("tat_mean")
WAYS = {"ask": Look("ask (ours)", COLOURS[0], "o"), "paper": Look("as the paper", COLOURS[1], "s")}
MOST_IN_RACK = 32


class Settings(SweepSettings):
    """As in experiment validation, whose measured points are drawn in; racks of 32."""

    sizes: Sizes = Field((2, 4, 8, 16, 32, 64, 128), description="numbers of workers")
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
        racks = -(-n // MOST_IN_RACK)
        if n % racks:
            raise SettingsError(f"{n} workers do not fill {racks} racks alike: choose sizes that racks of {MOST_IN_RACK} divide")
        for way in WAYS:
            for rate in (0.0, *settings.rates):
                name = f"{n} workers, {100 * rate:g} %, {way}"
                factors = {"workers": n, "loss": rate, "recovery": way}
                points.append(Point(name, factors, {"racks": racks, "workers": n // racks, "loss": rate, "recovery": way}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Inflation against the number of workers, a panel for each rate."""
    rates = run.record["settings"]["rates"]
    figure, axes = new_figure(len(rates), size=(4.2 * len(rates), 4.2), sharey=True)
    for ax, rate in zip(axes, rates, strict=True):
        for way, look in WAYS.items():
            for n in levels(run, "workers"):
                base = over_base(run, TAT, workers=n, loss=0.0, recovery=way)
                for trial in run.finished:
                    if trial["factors"] == {"workers": n, "loss": rate, "recovery": way}:
                        trial["metrics"]["inflation"] = base(trial)
            curve(ax, run, "workers", metric("inflation"), look, loss=rate, recovery=way)
        most = draw_measured_losses(ax, run, rate)
        ax.axhline(1, color="black", linestyle=":", linewidth=1.2)
        ax.set_xscale("log", base=2)
        at = levels(run, "workers")
        ax.set_xticks(at, [str(n) for n in at], fontsize=8)
        ax.minorticks_off()
        ax.set_xlabel("workers")
        ax.set_title(f"{100 * rate:g} % loss", fontsize=10)
        shade(ax, run, most)
    axes[0].set_yscale("log")
    readable(axes[0].yaxis)
    axes[0].set_ylabel("TAT, times that without loss")
    axes[0].legend(frameon=False, fontsize=8)
    caption = (
        "Mean tensor aggregation time of SwitchML under loss over that without, against the number of workers, simulated: medians "
        "with bootstrap 95 % intervals, a point for each seed. Black: measured, asking first. Shaded: extrapolation."
    )
    yield "scale_loss", caption, figure


def findings(run: Run) -> list[str]:
    """What the losses cost the largest group, in each way."""
    said = not_valid(run)
    if not (sizes := levels(run, "workers")):
        return said
    for rate in run.record["settings"]["rates"]:
        for way, look in WAYS.items():
            base = over_base(run, TAT, workers=sizes[-1], loss=0.0, recovery=way)
            longer = estimate(run, base, workers=sizes[-1], loss=rate, recovery=way)
            said.append(
                f"{100 * rate:g} % loss, {sizes[-1]} workers, {look.label}: {words(longer)} times the TAT without, simulated."
            )
    return said
