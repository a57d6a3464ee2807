"""Training throughput with SwitchML over each baseline, for models of different compute and communication (SwitchML's speedups).

The model that predicts it: a step takes its compute and its scheme's bound, one after the other. Where communication is a
small share to begin with, no scheme can gain much.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import Tolerance, estimate, look_of, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import WIDTH, named, new_figure
from inalab.testbed.measures import Measure, predicted_throughput, throughput
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import reported

MODELS = {"digits-cnn": 40.0, "digits-mlp": 20.0, "characters": 60.0, "digits-mlp-large": 60.0}  # and compute in ms
OF_PREDICTED = Tolerance(0.8, 1.05)  # of the throughput that compute and bounds allow


class Settings(SweepSettings):
    """One rack of four."""

    schemes: Words = Field(("switchml", "ring", "gloo", "ps"), description="switchml, and what it is compared with")
    racks: int = 1
    host_rate: float = 25.0
    k: int = 256
    slots: int = 16
    steps: int = 12


QUICK: dict[str, Any] = {"schemes": ("switchml", "gloo"), "seeds": 1, "steps": 6}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every model over every scheme."""
    points = [
        Point(f"{model}, {s}", {"model": model, "scheme": s}, {"scheme": s, "workload": model, "compute_ms": compute})
        for model, compute in MODELS.items()
        for s in settings.schemes
    ]
    return paired(points, settings, seed)


def _over(run: Run, measure: Measure, model: str, scheme: str) -> Any:
    return ratio(run, measure, {"model": model, "scheme": "switchml"}, {"model": model, "scheme": scheme})


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Speedups over each baseline, in groups by model, each with its prediction."""
    figure, (ax,) = new_figure(1, size=(WIDTH, 3.6))
    baselines = [s for s in run.record["settings"]["schemes"] if s != "switchml"]
    width = 0.8 / max(len(baselines), 1)
    for j, scheme in enumerate(baselines):
        look = look_of(scheme)
        for i, model in enumerate(MODELS):
            at = i + (j - (len(baselines) - 1) / 2) * width
            label = f"over {look.label}" if i == 0 else None
            gain, predicted = _over(run, throughput, model, scheme), _over(run, predicted_throughput, model, scheme)
            ax.bar(at, gain.median if gain.n else 0, 0.9 * width, color=look.colour, alpha=0.85, label=label)
            if gain.known:
                ax.errorbar(at, gain.median, [[gain.median - gain.low], [gain.high - gain.median]], color="black", capsize=3)
            if not gain.n:
                ax.annotate("no valid trial", (at, 0.05), rotation=90, ha="center")
            ax.plot([at - 0.45 * width, at + 0.45 * width], [predicted.median] * 2, "k:", linewidth=1.6)
    ax.plot([], [], "k:", linewidth=1.6, label="predicted")
    ax.axhline(1, color="black", linewidth=0.8)
    at_most = f"paper: up to {reported.SPEEDUP}× over the best (slides)"
    ax.axhline(reported.SPEEDUP, color="grey", linestyle="--", linewidth=1, label=at_most)
    ax.set_xticks(range(len(MODELS)), [f"{model}\n{_share(run, model)}" for model in MODELS])
    ax.set_ylabel("training throughput,\nSwitchML over baseline")
    named(figure, (ax,))
    caption = (
        "Steps per second with SwitchML over those with each baseline: medians of the ratio, seed by seed, with "
        "intervals. Dotted: compute plus the schemes' bounds."
    )
    yield "speedup", caption, figure


def _share(run: Run, model: str) -> str:
    """What part of a step with SwitchML is communication."""
    here = [t["metrics"] for t in matching(run, model=model, scheme="switchml") if t["valid"]]
    shares = [m["communication_mean"] / (m["communication_mean"] + m["compute_mean"]) for m in here]
    return f"{here[0]['elements']:,} parameters,\n{100 * np.median(shares):.0f} % communication" if here else ""


def findings(run: Run) -> list[str]:
    """Each speedup beside its prediction."""
    sentences = not_valid(run)
    for model in MODELS:
        for scheme in (s for s in run.record["settings"]["schemes"] if s != "switchml"):
            gain, predicted = _over(run, throughput, model, scheme), _over(run, predicted_throughput, model, scheme)
            sentences.append(
                f"{model}: {words(gain)} times the throughput of {look_of(scheme).label} (predicted {words(predicted)})."
            )
        for scheme in run.record["settings"]["schemes"]:
            near = estimate(run, lambda t: throughput(t) / predicted_throughput(t), model=model, scheme=scheme)
            sentences.append(f"{model}, {look_of(scheme).label}: {OF_PREDICTED.words(near, 'of the predicted throughput')}.")
    return sentences
