"""Measured points among simulated curves, and shade where nothing was measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from inalab.testbed.draw.curves import levels, look_of, matching
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run
from inalab.testbed.simulator.calibration import measured
from inalab.testbed.simulator.validation import Measured

ALIKE = ("k", "slots", "workload", "host_rate")  # settings that a measured point has in common with a run whose figure it is in


def shade(ax: Axes, run: Run, most: int | None = None, factor: str = "workers", low: bool = False) -> None:
    """Mark the numbers of workers, or values of another factor, beyond what was measured: above `most`, or any point's. The word
    for it stands at the top, or `low` where the top is full of curves."""
    most = max(_workers(point) for point in measured()) if most is None else most
    if beyond := [n for n in levels(run, factor) if n > most]:
        begin = float(np.sqrt(most * beyond[0])) if most else 0.8 * beyond[0]
        ax.axvspan(begin, 1.2 * beyond[-1], color="black", alpha=0.07, linewidth=0)
        height, aligned = (0.02, "bottom") if low else (0.98, "top")
        ax.text(begin * 1.1, height, "extrapolation", va=aligned, transform=ax.get_xaxis_transform())


def draw_measured(ax: Axes, run: Run, scheme: str) -> None:
    """A scheme's measured ATE/s, in millions, in one rack, without loss, and with its own settings at their defaults."""
    for point in measured():
        in_a_rack = point.settings["racks"] == 1 and not point.settings["jobs"]
        if point.scheme == scheme and in_a_rack and not point.settings["loss"] and _alike(point, run) and _usual(point):
            elements = int(str(point.settings["workload"]).removeprefix("tensor-"))
            _point(ax, point, look_of(scheme).colour, [1e-6 * elements / t for t in (point.median, point.high, point.low)])


def draw_alike(ax: Axes, run: Run, x: str, scale: float, colour: str, **factors: Any) -> int:
    """The measured TAT, times `scale`, of trials that were measured with the very settings that they are simulated with here.

    Returns the largest value of the factor `x` that was, or 0.
    """
    found = {json.dumps(_without_costs(point.settings), sort_keys=True): point for point in measured()}
    most = 0
    for trial in matching(run, **factors):
        if point := found.get(json.dumps(_without_costs(trial["settings"]), sort_keys=True)):
            at = trial["factors"][x]
            _point(ax, point, colour, [scale * t for t in (point.median, point.low, point.high)], at)
            most = max(most, at)
    return most


def _without_costs(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in TrialSettings(**settings).resolved().items() if key != "costs"}


def draw_measured_losses(ax: Axes, run: Run, rate: float, scheme: str, colour: str) -> int:
    """A scheme's measured TAT at a loss rate, over that without; and with how many workers at most it was measured, or 1."""
    points = [point for point in measured() if point.scheme == scheme and _alike(point, run)]
    most = 1
    for point in points:
        without = next((p for p in points if _without_loss(p) == _without_loss(point) and not p.settings["loss"]), None)
        if without and point.settings["loss"] == rate:
            _point(ax, point, colour, [t / without.median for t in (point.median, point.low, point.high)])
            most = max(most, _workers(point))
    return most


def _alike(point: Measured, run: Run) -> bool:
    return all(point.settings[key] == run.record["settings"][key] for key in ALIKE)


def _usual(point: Measured) -> bool:
    """Whether the scheme's own settings are at their defaults."""
    settings = TrialSettings(**point.settings)
    usual = settings.of_scheme().Settings()
    return all(getattr(usual, name) == value for name, value in settings.own.get(point.scheme, {}).items())


def _without_loss(point: Measured) -> dict[str, Any]:
    return TrialSettings(**point.settings).changed(loss=0.0).resolved()


def _workers(point: Measured) -> int:
    return int(point.settings["racks"] * point.settings["workers"])


def _point(ax: Axes, point: Measured, colour: str, values: list[float], at: float | None = None) -> None:
    middle, low, high = values
    spread = [[middle - low], [high - middle]] if point.interval.known else None
    ax.errorbar(
        _workers(point) if at is None else at,
        middle,
        yerr=spread,
        fmt="o",
        color=colour,
        markeredgecolor="black",
        markersize=7,
        capsize=4,
        zorder=5,
    )
