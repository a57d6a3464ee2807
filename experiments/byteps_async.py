"""Accuracy against time with one slow worker: synchronous steps wait for it, asynchronous ones train with older weights.

Asynchronous workers push changes to weights that the services keep, without waiting for others (hosts.training.asynchronous).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS, BLOCKING
from inalab.testbed.draw.curves import estimate, look_of, matching, not_valid, ratio, values, variant_of, words
from inalab.testbed.draw.plots import COLOURS, named, new_figure
from inalab.testbed.measures import Measure, time_to_accuracy
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval

SLOW = 1  # the rank of the slow worker; the last one evaluates
MODES = {BLOCKING: "synchronous", ASYNCHRONOUS: "asynchronous"}
COLOUR = {BLOCKING: variant_of(look_of("byteps"), "", 1).colour, ASYNCHRONOUS: look_of("byteps").colour}
LINE = ["-", "--", ":"]


class Settings(SweepSettings):
    """One rack of four."""

    factors: Numbers = Field((1, 4), description="how many times as long the slow worker computes")
    target: float = Field(0.9, gt=0, lt=1, description="accuracy that the time is taken to")
    racks: int = 1
    host_rate: float = 25.0
    scheme: str = "byteps"
    steps: int = 100
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"factors": (4,), "seeds": 1, "steps": 50}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Both modes with each slow worker. SettingsError for factors below 1, and for more than can be told apart."""
    if min(settings.factors) < 1:
        raise SettingsError(f"factors has {min(settings.factors):g}: a slow worker takes at least once as long")
    if len(settings.factors) > len(LINE):
        raise SettingsError(f"there are {len(settings.factors)} factors: a plot can tell {len(LINE)} apart")
    points = []
    for factor in settings.factors:
        slow = {"straggler": "slow", "straggler_rank": SLOW, "straggler_factor": factor} if factor > 1 else {"straggler": "none"}
        points += [
            Point(f"{wording}, {_named(factor)}", {"mode": mode, "factor": factor}, {"pipeline": mode} | slow)
            for mode, wording in MODES.items()
        ]
    return paired(points, settings, seed)


def _named(factor: float) -> str:
    return f"one worker ×{factor:g}" if factor > 1 else "no slow worker"


def _while_all_train(trial: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of the steps that were over before the first worker had done with its last."""
    ends = {r["rank"]: r["ended"] for r in sorted(trial["steps"], key=lambda r: r["ended"])}
    return [r for r in trial["steps"] if r["ended"] <= min(ends.values())]


def _gradients(trial: dict[str, Any]) -> float:
    """Of all workers together, a second."""
    records = _while_all_train(trial)
    return float(len(records) / max(r["ended"] for r in records))


def _delay(slow: bool) -> Measure:
    """The median delay of the slow worker's steps, or of the others'."""
    return lambda trial: float(np.median([r["delay"] for r in _while_all_train(trial) if (r["rank"] == SLOW) is slow]))


def _evaluated(trial: dict[str, Any]) -> NDArray[np.float64]:
    """When the last worker evaluated its model, and the accuracy in percent: (2, evaluations), as many in every trial."""
    return np.array([(r["ended"], 100 * r["accuracy"]) for r in trial["steps"] if "accuracy" in r]).T


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Accuracy over time; and how many changes a step's gradient is behind."""
    figure, (accuracy, delays) = new_figure(2)
    factors, target = run.record["settings"]["factors"], run.record["settings"]["target"]
    for line, factor in zip(LINE, factors, strict=False):
        for mode, wording in MODES.items():
            seeds = [_evaluated(t) for t in matching(run, mode=mode, factor=factor) if t["valid"]]
            for at, heights in seeds:
                accuracy.plot(at, heights, line, color=COLOUR[mode], linewidth=0.8, alpha=0.2)
            if seeds:
                at, heights = np.median(seeds, axis=0)
                accuracy.plot(at, heights, line, color=COLOUR[mode], linewidth=2, label=f"{wording}, {_named(factor)}")
    accuracy.axhline(100 * target, color="grey", linewidth=1, linestyle=":")
    accuracy.set_xlabel("seconds")
    accuracy.set_ylabel("test accuracy (%)")
    shown = [t for t in matching(run, mode=ASYNCHRONOUS, factor=max(factors)) if t["valid"]]
    records = [r for trial in shown for r in _while_all_train(trial)]
    for rank in sorted({r["rank"] for r in records}):
        found = np.sort([r["delay"] for r in records if r["rank"] == rank])
        slow = rank == SLOW and max(factors) > 1
        label = f"worker {rank}" + (f" (×{max(factors):g})" if slow else "")
        colour, width = (COLOURS[0], 2.0) if slow else (COLOURS[1 + rank % 4], 1.2)
        delays.plot(found, 100 * np.arange(1, len(found) + 1) / len(found), color=colour, linewidth=width, label=label)
    delays.set_xlabel("changes of others since a worker pulled")
    delays.set_ylabel("percentile of its steps")
    named(figure, (accuracy, delays))
    caption = (
        "Left: the last worker's test accuracy over time: medians over the seeds, each seed thin. A line ends where its steps do. "
        "Right: with one slow worker, how many changes by others an asynchronous gradient is behind, until the first worker has "
        "finished."
    )
    yield "byteps_async", caption, figure


def findings(run: Run) -> list[str]:
    """Time to the target, gradients a second, and delays."""
    sentences, target = not_valid(run), run.record["settings"]["target"]
    reaching = time_to_accuracy(target)
    for factor in run.record["settings"]["factors"]:
        named = _named(factor).capitalize()
        for mode, wording in MODES.items():
            here: dict[str, Any] = {"mode": mode, "factor": factor}
            found, rate = values(run, reaching, **here), estimate(run, _gradients, **here)
            after = f", after {words(median_interval(found), '.1f')} s" if found else ""
            sentences.append(
                f"{named}, {wording}: {len(found)} of {rate.n} seeds reach {100 * target:g} % accuracy{after}; "
                f"{words(rate, '.1f')} gradients a second while all train."
            )
        faster = ratio(run, reaching, {"mode": BLOCKING, "factor": factor}, {"mode": ASYNCHRONOUS, "factor": factor})
        if faster.n:
            sentences.append(
                f"{named}: to the same accuracy synchronous training takes {words(faster)} times as long as asynchronous."
            )
        for wording, slow in ((f"worker {SLOW}", True), ("the others", False)):
            delay = estimate(run, _delay(slow), mode=ASYNCHRONOUS, factor=factor)
            sentences.append(f"{named}, asynchronous: gradients of {wording} are {words(delay, '.1f')} changes behind.")
    return sentences
