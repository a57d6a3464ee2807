"""Accuracy against a fixed scaling factor, with block floating point beside it (SwitchML's plateau that collapses at both ends).

A factor that is too small rounds gradients to nothing; one that is too large overflows the switch's 32 bits. Block exponents
choose a factor for each chunk and step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, look_of, not_valid, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Measure, metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

FIXED, ADAPTIVE = variant_of(look_of("switchml"), "fixed factor", 1), replace(look_of("switchml"), label="block exponents")
SIZES = {"digits-mlp": 20.0, "characters": 45.0}  # workloads, and a step's virtual compute time in ms
ACCURACY, LOSS = metric("final_accuracy", 100), metric("final_test_loss")
NO_ERROR = 2e-9  # below float32's own rounding; a relative error of 0 has no logarithm


class Settings(SweepSettings):
    """One rack of four at a rate at which communication is a small part, for it is the arithmetic that is looked at."""

    powers: Numbers = Field(tuple(range(13)), description="fixed factors, as powers of ten")
    racks: int = 1
    host_rate: float = 100.0
    steps: int = 50
    evaluate_every: int = 25
    measure_error: bool = True


QUICK: dict[str, Any] = {"powers": (0, 4, 8, 12), "seeds": 1, "steps": 20}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each factor, and the adaptive exponents, for a classifier and a language model."""
    points = []
    for workload, compute in SIZES.items():
        common = {"workload": workload, "compute_ms": compute}
        points.append(Point(f"{workload}, block exponents", {"workload": workload, "power": "adaptive"}, common))
        points += [
            Point(f"{workload}, 10^{power:g}", {"workload": workload, "power": power}, {**common, "scaling": 10**power})
            for power in settings.powers
        ]
    return paired(points, settings, seed)


def _error(trial: dict[str, Any]) -> float:
    return max(float(trial["metrics"]["error_median"]), NO_ERROR)


def _draw(ax: Axes, run: Run, measure: Measure, workload: str) -> None:
    powers = [p for p in {t["factors"]["power"] for t in run.finished} if p != "adaptive"]
    shown = Run(run.folder, run.record, [t for t in run.trials if t["factors"]["power"] != "adaptive"])
    curve(ax, shown, "power", measure, FIXED, workload=workload)
    adaptive = estimate(run, measure, workload=workload, power="adaptive")
    if adaptive.n:
        ax.axhline(adaptive.median, color=ADAPTIVE.colour, linewidth=1.4, label=ADAPTIVE.label)
        if adaptive.known:
            ax.axhspan(adaptive.low, adaptive.high, color=ADAPTIVE.colour, alpha=0.15)
    ax.set_xticks(sorted(powers), [f"$10^{{{p:g}}}$" if i % 3 == 0 else "" for i, p in enumerate(sorted(powers))])
    ax.set_xlabel("scaling factor")


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Accuracy, the language model's loss, and the gradient's relative error."""
    figure, (accuracy, loss, error) = new_figure(3)
    _draw(accuracy, run, ACCURACY, "digits-mlp")
    accuracy.set_ylabel("digits: accuracy (%)")
    accuracy.axhline(10, color="black", linestyle=":", linewidth=1.2, label="guessing")
    _draw(loss, run, LOSS, "characters")
    loss.set_ylabel("characters: loss (nats each)")
    loss.axhline(math.log(128), color="black", linestyle=":", linewidth=1.2, label="knowing nothing: ln 128")
    _draw(error, run, _error, "digits-mlp")
    error.set_yscale("log")
    error.set_ylabel("relative error of the sum (digits)")
    named(figure, (accuracy, loss, error))
    caption = (
        "Final accuracy, language-model loss, and the distance of the summed gradient from the sum in float64, relative to that "
        "sum's norm, against a fixed scaling factor: medians with intervals, and the adaptive exponents' (band). "
        f"What is not finite is not drawn; errors below {NO_ERROR:g} are drawn there."
    )
    yield "scaling", caption, figure


def findings(run: Run) -> list[str]:
    """How wide the plateau is, and where the adaptive exponents lie."""
    sentences = not_valid(run)
    best = estimate(run, ACCURACY, workload="digits-mlp", power="adaptive")
    if not best.n:
        return sentences
    powers = sorted(p for p in {t["factors"]["power"] for t in run.finished} if p != "adaptive")
    near = [p for p in powers if (e := estimate(run, ACCURACY, workload="digits-mlp", power=p)).n and e.median >= best.median - 1]
    loss = estimate(run, LOSS, workload="characters", power="adaptive")
    sentences.append(f"Block exponents: accuracy {words(best, '.1f')} %, language model's loss {words(loss)} nats.")
    within = ", ".join(f"10^{p:g}" for p in near) or "none"
    sentences.append(f"Fixed factors within a point of that accuracy: {within}, of 10^{powers[0]:g} to 10^{powers[-1]:g}.")
    for workload in SIZES:
        error = estimate(run, _error, workload=workload, power="adaptive")
        sentences.append(f"{workload}: relative error of the sum with block exponents {words(error, '.1e')}.")
    return sentences
