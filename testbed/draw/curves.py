"""Curves over a sweep: medians with intervals, a point for every trial, a cross for those that are not valid."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb

from inalab.schemes import registry
from inalab.schemes.scheme import Look
from inalab.testbed import backends
from inalab.testbed.draw.plots import MARKERS
from inalab.testbed.measures import Measure, Record
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import Interval, median_interval
from inalab.testbed.trial import validity

WRONG = [reason.name.lower() for reason in validity.WRONG]
NOTHING = "? (no valid trial)"  # for a number in a sentence


def look_of(scheme: str) -> Look:
    """How a scheme looks in every plot."""
    return registry.drawn(scheme).look


def variant_of(look: Look, label: str, number: int = 0) -> Look:
    """How the same scheme looks with another setting: its colour, lighter and darker by turns, and another marker and line."""
    mixed = (1.0, 0.45) if number % 2 == 0 else (0.0, 0.55)  # towards white or black, and how far
    red, green, blue = (part + (mixed[0] - part) * mixed[1] for part in to_rgb(look.colour))
    colour = to_hex((red, green, blue))
    marker, line = MARKERS[1 + number % (len(MARKERS) - 1)], ("--", "-.", ":")[number % 3]
    return replace(look, label=label, colour=colour, marker=marker, line=line)


def by_name(run: Run) -> dict[str, list[Record]]:
    """Trials with measurements, point by point in the order in which they ran."""
    named: dict[str, list[Record]] = {}
    for trial in run.finished:
        named.setdefault(trial["name"], []).append(trial)
    return named


def matching(run: Run, **factors: Any) -> list[Record]:
    """Trials with measurements that have these factors. If a factor is a list, any of its values matches."""
    return [t for t in run.finished if all(_is(t["factors"].get(key), value) for key, value in factors.items())]


def _is(found: Any, value: Any) -> bool:
    return bool(found == value or (isinstance(value, list) and found in value))


def values(run: Run, measure: Measure, **factors: Any) -> list[float]:
    """The measure of each valid trial with these factors, where it is a finite number."""
    return [v for t in matching(run, **factors) if t["valid"] and math.isfinite(v := measure(t))]


def estimate(run: Run, measure: Measure, **factors: Any) -> Interval:
    """Its median over the seeds, from valid trials alone."""
    return median_interval(values(run, measure, **factors))


def ratio(run: Run, measure: Measure, above: Record, below: Record) -> Interval:
    """The median of the ratio, seed by seed, of two points of the sweep."""
    first, second = (
        {t["seed"]: value for t in matching(run, **factors) if t["valid"] and math.isfinite(value := measure(t))}
        for factors in (above, below)
    )
    return median_interval([first[s] / second[s] for s in sorted(first.keys() & second.keys()) if second[s]])


def over_base(run: Run, measure: Measure, **base: Any) -> Measure:
    """The measure of a trial over that of the valid trial with the factors `base` and the same seed; NaN where there is none."""
    found = {t["seed"]: measure(t) for t in matching(run, **base) if t["valid"]}
    return lambda trial: measure(trial) / found[trial["seed"]] if trial["seed"] in found else float("nan")


def in_order(values: list[Any], beside: float) -> Callable[[Any], float]:
    """A function from a value to its place on an axis where these values are equally spaced, shifted by `beside`."""
    return lambda value: values.index(value) + beside


def words(interval: Interval, form: str = ".2f") -> str:
    """An interval in words: median, bounds, and of how many trials."""
    if not interval.n:
        return NOTHING
    middle, low, high = (f"{value:{form}}" for value in (interval.median, interval.low, interval.high))
    if not interval.known:
        return f"{middle} (n = {interval.n})"
    return f"{middle} (n = {interval.n}, all alike)" if low == high else f"{middle} ({low} to {high}, n = {interval.n})"


@dataclass(frozen=True)
class Tolerance:
    """What an experiment states of a measurement over its bound or closed form."""

    low: float
    high: float

    def words(self, interval: Interval, of: str) -> str:
        """An interval in words, what it is `of`, and whether its median is within the tolerance."""
        where = "within" if self.low <= interval.median <= self.high else "OUTSIDE"
        return f"{words(interval)} {of}, {where} the stated {self.low:g} to {self.high:g}"


def near_bound(scheme: str) -> Tolerance:
    """The tolerance for a scheme's ATE/s over that of its bound."""
    return Tolerance(*registry.drawn(scheme).of_bound)


def levels(run: Run, factor: str, **factors: Any) -> list[Any]:
    """The values that a factor takes, in order."""
    return sorted({t["factors"][factor] for t in matching(run, **factors) if factor in t["factors"]})


def curve(ax: Axes, run: Run, x: str, measure: Measure, look: Look, place: Callable[[Any], float] = float, **factors: Any) -> None:
    """The measure over factor `x`, for the trials with these factors; `place` is where a value of x lies on the axis.

    Curves of a scheme whose simulation failed its validation are pale, thin and dotted, and their labels say so.
    """
    shown, doubtful = matching(run, **factors), _fails_validation(run, **factors)
    if doubtful:
        look = replace(look, label=f"{look.label}: failed validation", line=":")
    weight: Any = {"alpha": 0.5, "linewidth": 0.9} if doubtful else {"alpha": 1.0, "linewidth": 1.4}
    middle: list[tuple[float, Interval]] = []
    for level in levels(run, x, **factors):
        at = place(level)
        here = [(measure(t), t["valid"]) for t in shown if t["factors"].get(x) == level]
        good, bad = ([v for v, valid in here if valid is wanted and math.isfinite(v)] for wanted in (True, False))
        if len(good) > 1:
            ax.plot([at] * len(good), good, ".", color=look.colour, alpha=0.35, markersize=4, zorder=2)
        ax.plot([at] * len(bad), bad, "x", color=look.colour, alpha=0.6, markersize=5, zorder=2)
        if good:
            middle.append((at, median_interval(good)))
    if not middle:
        ax.plot([], [], look.line, color=look.colour, marker="x", label=f"{look.label} (no valid trial)")
        return
    at_, intervals = [m[0] for m in middle], [m[1] for m in middle]
    spread = np.array([[i.median - i.low, i.high - i.median] if i.known else [0, 0] for i in intervals]).T.clip(0)
    ax.errorbar(
        at_, [i.median for i in intervals], yerr=spread, linestyle=look.line, marker=look.marker, color=look.colour,
        markersize=4.5, capsize=2.5, label=look.label, zorder=3, **weight,
    )  # fmt: skip


def _fails_validation(run: Run, **factors: Any) -> bool:
    backend = backends.of_record(run.record)
    return any(backend.doubts(t["settings"]["scheme"]) for t in matching(run, **factors))


def bar(ax: Axes, at: float, found: list[float], look: Look, light: bool = False, width: float = 0.36) -> None:
    """The median of these values with its interval, and a point for each; nothing if there are none."""
    if found:
        middle = median_interval(found)
        ax.bar(at, middle.median, width, color=look.colour, alpha=0.45 if light else 0.9)
        if middle.known:
            spread = [[middle.median - middle.low], [middle.high - middle.median]]
            ax.errorbar(at, middle.median, spread, color="black", capsize=2, linewidth=1)
        ax.plot([at] * len(found), found, "k.", markersize=3, alpha=0.5)


def bound_line(ax: Axes, at: Iterable[float], heights: Iterable[float], look: Look | None = None, label: str | None = None) -> None:
    """A bound or a closed form, dotted, in the colour of what it bounds."""
    colour = look.colour if look else "black"
    ax.plot(list(at), list(heights), ":", color=colour, linewidth=1.2, label=label, zorder=1)


def not_valid(run: Run) -> list[str]:
    """A sentence for trials that are not valid, and one for those that failed, if there are any."""
    sentences = []
    bad = [t for t in run.finished if not t["valid"]]
    if bad:
        reasons: dict[str, list[str]] = {}
        for trial in bad:
            problems, named = trial["problems"], trial.get("reasons", [])
            if len(named) != len(problems):  # of a record from before reasons had names
                named = [re.sub(r"[\d.,]+", "", problem.partition(":")[0]) for problem in problems]
            for reason, problem in zip(named, problems, strict=True):
                wrong = reason in WRONG
                reasons.setdefault(reason, []).append(f"{trial['name']}: {problem}" if wrong else problem)
        serious = [same for reason, same in reasons.items() if reason in WRONG]
        others = sorted((same for reason, same in reasons.items() if reason not in WRONG), key=len, reverse=True)
        most = [*serious, *others[:3]]
        shown = "; ".join(same[0] + (f" (and {len(same) - 1} like it)" if len(same) > 1 else "") for same in most)
        sentences.append(f"{len(bad)} of {len(run.trials)} trials are not valid and count nowhere (crosses in the plots): {shown}.")
    if failed := [t for t in run.trials if "metrics" not in t]:
        names = Counter(t["name"] for t in failed)
        shown = "; ".join(f"{name} ({n})" for name, n in names.items())
        sentences.append(f"{len(failed)} of {len(run.trials)} trials failed, and medians are of the others: {shown}.")
    return sentences
