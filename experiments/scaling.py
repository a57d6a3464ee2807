"""Accuracy against a fixed scaling factor, with block floating point beside it (SwitchML's plateau that collapses at both ends).

And beside that, training in as many steps without quantization: over a ring, whose sums are float32's. A factor that is too small
rounds gradients to nothing; one that is too large overflows the switch's 32 bits. Block exponents choose a factor for each chunk
and step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import Tolerance, curve, estimate, look_of, matching, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Measure, metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.metrics import number
from inalab.testbed.record.runs import Run

FIXED, ADAPTIVE = variant_of(look_of("switchml"), "fixed factor", 1), replace(look_of("switchml"), label="block exponents")
CNN, LANGUAGE = "digits-cnn", "characters"
SIZES = {CNN: 40.0, LANGUAGE: 60.0}  # workloads, and a step's virtual compute time in ms
OTHERS = {"adaptive": ADAPTIVE, "none": replace(look_of("ring"), label="not quantized")}  # in place of a power
ALIKE = Tolerance(0.97, 1.03)  # accuracy, or loss, with block exponents over that without quantization
ACCURACY, LOSS = metric("final_accuracy", 100), metric("final_test_loss")
NO_ERROR = 2e-9  # below float32's own rounding; a relative error of 0 has no logarithm


class Settings(SweepSettings):
    """One rack of four at a rate at which communication is a small part, for it is the arithmetic that is looked at."""

    powers: Numbers = Field(tuple(range(13)), description="fixed factors, as powers of ten")
    racks: int = 1
    host_rate: float = 100.0
    steps: int = 100
    evaluate_every: int = 5
    measure_error: bool = True


QUICK: dict[str, Any] = {"powers": (0, 4, 8, 12), "seeds": 1, "steps": 40}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each factor, the adaptive exponents, and sums of floats, for a classifier and a language model."""
    points = []
    for workload, compute in SIZES.items():
        common = {"workload": workload, "compute_ms": compute}
        points.append(Point(f"{workload}, block exponents", {"workload": workload, "power": "adaptive"}, common))
        points.append(Point(f"{workload}, not quantized", {"workload": workload, "power": "none"}, {**common, "scheme": "ring"}))
        points += [
            Point(f"{workload}, 10^{power:g}", {"workload": workload, "power": power}, {**common, "scaling": 10**power})
            for power in settings.powers
        ]
    return paired(points, settings, seed)


def _error(trial: dict[str, Any]) -> float:
    return max(float(trial["metrics"]["error_median"]), NO_ERROR)


def _powers(run: Run) -> list[float]:
    return sorted(p for p in {t["factors"]["power"] for t in run.finished} if p not in OTHERS)


def _draw(ax: Axes, run: Run, measure: Measure, workload: str) -> None:
    shown = Run(run.folder, run.record, [t for t in run.trials if t["factors"]["power"] not in OTHERS])
    curve(ax, shown, "power", measure, FIXED, workload=workload)
    for power, look in OTHERS.items():
        beside = estimate(run, measure, workload=workload, power=power)
        if beside.n:
            ax.axhline(beside.median, color=look.colour, linewidth=1.4, label=look.label)
            if beside.known:
                ax.axhspan(beside.low, beside.high, color=look.colour, alpha=0.15)
    powers = _powers(run)
    ax.set_xticks(powers, [f"$10^{{{p:g}}}$" if i % 3 == 0 else "" for i, p in enumerate(powers)])
    ax.set_xlabel("scaling factor")


def _learning(ax: Axes, run: Run, workload: str, name: str, factor: float) -> None:
    """What is evaluated in the course of training, of every seed."""
    for power, look in OTHERS.items():
        for i, trial in enumerate(t for t in matching(run, workload=workload, power=power) if t["valid"]):
            found = [(record["step"] + 1, factor * number(record[name])) for record in trial["steps"] if name in record]
            style = {"linestyle": "-" if power == "adaptive" else "--", "linewidth": 2.4 if power == "adaptive" else 1.2}
            ax.plot(*zip(*found, strict=True), color=look.colour, label=look.label if i == 0 else None, **style)  # type: ignore[arg-type]
    ax.set_xlabel("steps")


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Accuracy, the language model's loss, and the gradient's relative error."""
    figure, (accuracy, learned, loss, fallen, error, unused) = new_figure(2, 3)
    _draw(accuracy, run, ACCURACY, CNN)
    accuracy.set_ylabel("CNN: accuracy (%)")
    accuracy.axhline(10, color="black", linestyle=":", linewidth=1.2, label="guessing")
    _learning(learned, run, CNN, "accuracy", 100)
    learned.set_ylabel("CNN: accuracy (%)")
    _draw(loss, run, LOSS, LANGUAGE)
    loss.set_ylabel("characters: loss (nats each)")
    loss.axhline(math.log(128), color="black", linestyle=":", linewidth=1.2, label="knowing nothing: ln 128")
    _learning(fallen, run, LANGUAGE, "test_loss", 1)
    fallen.set_ylabel("characters: loss (nats each)")
    _draw(error, run, _error, CNN)
    error.set_yscale("log")
    error.set_ylabel("relative error of the sum (CNN)")
    unused.remove()
    named(figure, (accuracy, learned, loss, fallen, error))
    caption = (
        "Final accuracy, language-model loss, and the distance of the summed gradient from the sum in float64, relative to that "
        "sum's norm, against a fixed scaling factor: medians with intervals, and those of block exponents and of sums of floats "
        "(bands). Right: the same models in the course of training, a line for each seed. What is not finite is not drawn; errors "
        f"below {NO_ERROR:g} are drawn there."
    )
    yield "scaling", caption, figure


def findings(run: Run) -> list[str]:
    """How wide the plateau is, where the adaptive exponents lie, and what quantization costs."""
    sentences = not_valid(run)
    best = estimate(run, ACCURACY, workload=CNN, power="adaptive")
    if not best.n:
        return sentences
    powers = _powers(run)
    near = [p for p in powers if (e := estimate(run, ACCURACY, workload=CNN, power=p)).n and e.median >= best.median - 1]
    loss = estimate(run, LOSS, workload=LANGUAGE, power="adaptive")
    sentences.append(f"Block exponents: accuracy {words(best, '.1f')} %, language model's loss {words(loss)} nats.")
    for workload, measure, what in ((CNN, ACCURACY, "accuracy"), (LANGUAGE, LOSS, "loss")):
        over = ratio(run, measure, {"workload": workload, "power": "adaptive"}, {"workload": workload, "power": "none"})
        sentences.append(f"{workload}: {ALIKE.words(over, f'of the {what} without quantization after as many steps')}.")
    within = ", ".join(f"10^{p:g}" for p in near) or "none"
    sentences.append(f"Fixed factors within a point of that accuracy: {within}, of 10^{powers[0]:g} to 10^{powers[-1]:g}.")
    for workload in SIZES:
        error = estimate(run, _error, workload=workload, power="adaptive")
        sentences.append(f"{workload}: relative error of the sum with block exponents {words(error, '.1e')}.")
    return sentences
