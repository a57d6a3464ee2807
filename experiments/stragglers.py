"""What slow workers cost a synchronous step: a fixed slow-down, and distributions of it.

All wait for the last: a step should take the slowest worker's compute, which the seed gives, and the all-reduce.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import BLOCKING
from inalab.testbed.draw.curves import Tolerance, bound_line, by_name, curve, levels, look_of, matching, not_valid, words
from inalab.testbed.draw.plots import COLOURS, named, new_figure
from inalab.testbed.measures import Measure, metric, time_to_accuracy
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.theory import bounds

TARGET = 0.9  # accuracy that the time is taken to
MEASURED = replace(look_of("switchml"), label="SwitchML, measured")
OF_EXPECTED = Tolerance(0.98, 1.1)
SHARES = {"compute": COLOURS[0], "waiting": COLOURS[5], "communication": COLOURS[1]}
DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "none": {"straggler": "none"},
    "one worker ×3": {"straggler": "slow", "straggler_factor": 3.0},
    "exponential, mean 0.5": {"straggler": "exponential", "straggler_mean": 0.5},
    "Pareto, shape 2.5": {"straggler": "pareto", "straggler_shape": 2.5},
    "×3 in 10 % of steps": {"straggler": "bimodal", "straggler_factor": 3.0, "straggler_probability": 0.1},
    "log-normal, σ = 0.5": {"straggler": "lognormal", "straggler_sigma": 0.5},
}


class Settings(SweepSettings):
    """Two racks of two, so that compute and communication are of a size."""

    factors: Numbers = Field((1.0, 2.0, 3.0, 5.0), description="of the one slow worker")
    workers: int = 2
    steps: int = 80
    compute_ms: float = 40.0
    host_rate: float = 25.0
    uplink_rate: float = 25.0


QUICK: dict[str, Any] = {"factors": (1.0, 3.0), "seeds": 1, "steps": 30}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """One slow worker at each factor, and each distribution; what is both is measured once. SettingsError for factors below 1."""
    if min(settings.factors) < 1:
        raise SettingsError(f"factors has {min(settings.factors):g}: a slow worker takes at least once as long")
    if settings.pipeline != BLOCKING:
        overlaps = f"pipeline {settings.pipeline} overlaps compute and communication"
        raise SettingsError(f"{overlaps}, between which stragglers divides a step: leave pipeline out")
    points = {name: Point(name, {"distribution": name}, changes) for name, changes in DISTRIBUTIONS.items()}
    for factor in settings.factors:
        changes = {"straggler": "slow", "straggler_factor": factor} if factor > 1 else {"straggler": "none"}
        name = f"one worker ×{factor:g}" if factor > 1 else "none"
        known = points.get(name, Point(name, {}, changes))
        points[name] = Point(name, known.factors | {"factor": factor}, changes)
    return paired(points.values(), settings, seed)


def _step(trial: dict[str, Any]) -> float:
    """Mean time of a step in ms."""
    return float(1000 * sum(trial["metrics"][f"{share}_mean"] for share in SHARES))


def _expected(trial: dict[str, Any]) -> float:
    """The same from the seed and the links alone: the slowest worker's virtual compute time and the bound of the all-reduce."""
    settings = TrialSettings(**trial["settings"])
    straggler, size = settings.straggler_model(), len(settings.plan().hosts)
    slowest = [max(straggler.slowdown(trial["seed"], r, step) for r in range(size)) for step in range(settings.steps)]
    return float(np.mean(slowest) * settings.compute_ms + 1000 * bounds.seconds(settings, trial["metrics"]["elements"]))


def _median(measure: Measure, trials: list[dict[str, Any]]) -> float:
    return median_interval([measure(t) for t in trials if t["valid"]]).median


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Step time against the slow-down, where a step's time goes, and time to accuracy."""
    figure, (slow, parts, time) = new_figure(3)
    at = levels(run, "factor")
    curve(slow, run, "factor", _step, MEASURED)
    expected = [float(np.median([_expected(t) for t in matching(run, factor=f)])) for f in at]
    bound_line(slow, at, expected, label="slowest compute + bound of the all-reduce")
    slow.set_xlabel("slow-down of one worker")
    slow.set_ylabel("mean step (ms)")
    slow.set_ylim(bottom=0)
    trials_of = by_name(run)
    names = list(trials_of)
    base = np.zeros(len(names))
    for share, colour in SHARES.items():
        heights = np.array([_median(metric(f"{share}_mean", 1000), trials_of[name]) for name in names])
        parts.barh(range(len(names)), heights, left=base, color=colour, label=share)
        base += np.nan_to_num(heights)
    for i, name in enumerate(names):
        parts.plot(np.median([_expected(t) for t in trials_of[name]]), i, "k|", markersize=16, markeredgewidth=1.6)
    parts.plot([], [], "k|", markersize=9, markeredgewidth=1.6, label="expected from the seed")
    parts.set_xlabel("mean step (ms)")
    for i, name in enumerate(names):
        found = [time_to_accuracy(TARGET)(t) for t in trials_of[name] if t["valid"]]
        reached = [seconds for seconds in found if np.isfinite(seconds)]
        time.plot(reached, [i] * len(reached), ".", color=COLOURS[0], alpha=0.5)
        if reached:
            time.plot(median_interval(reached).median, i, "D", color=COLOURS[0])
        time.annotate(f"{len(reached)} of {len(found)}", (1.0, i), xycoords=("axes fraction", "data"), va="center")
    time.set_xlabel(f"s to {100 * TARGET:g} % accuracy")
    time.set_xlim(left=0)
    for ax in (parts, time):
        ax.set_yticks(range(len(names)), names if ax is parts else [""] * len(names))
        ax.invert_yaxis()
    named(figure, (slow, parts))
    caption = (
        "Left: mean step time against one worker's slow-down. Middle: where a step's time goes, as a mean over workers. Right: "
        f"training time until {100 * TARGET:g} % of the test digits are right, each seed, the median, and in how many it was."
    )
    yield "stragglers", caption, figure


def findings(run: Run) -> list[str]:
    """How near the measured steps are to what the seed makes one expect, and what waiting takes."""
    sentences = not_valid(run)
    for name, measured in by_name(run).items():
        here = [t for t in measured if t["valid"]]
        off = median_interval([_step(t) / _expected(t) for t in here])
        waiting = median_interval([100 * t["metrics"]["waiting_mean"] * 1000 / _step(t) for t in here])
        sentences.append(
            f"{name}: a step takes {OF_EXPECTED.words(off, 'times what is expected')}; "
            f"workers wait {words(waiting, '.0f')} % of it."
        )
    return sentences
