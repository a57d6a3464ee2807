"""Sweeps: the same seeds at every point, so that points are compared in pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from testbed.plan.experiment import Trial
from testbed.plan.settings import SettingsError, TrialSettings, owners


def _words(value: Any) -> Any:
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


Integers = Annotated[tuple[int, ...], BeforeValidator(_words)]  # on the command line with commas
Numbers = Annotated[tuple[float, ...], BeforeValidator(_words)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class SweepSettings(TrialSettings):
    """A trial's settings, which the points of the sweep change, and how often each point is measured."""

    seeds: int = Field(5, ge=1, le=1000, description="at every point: seed, seed + 1, ...")


@dataclass(frozen=True)
class Point:
    """One point of a sweep: its name, the factors that tell it from the others, and the settings that differ there."""

    name: str
    factors: dict[str, Any]
    changes: dict[str, Any]


def paired(points: Iterable[Point], settings: SweepSettings, seed: int) -> list[Trial]:
    """Trials of all points, seed by seed: what is interrupted has whole sets. SettingsError for what cannot be."""
    planned = [(p, _changed(p, settings)) for p in points]
    return [Trial(p.name, p.factors, changed, s) for s in range(seed, seed + settings.seeds) for p, changed in planned]


def _changed(point: Point, settings: SweepSettings) -> TrialSettings:
    """The settings of a point. SettingsError if what makes the point is another scheme's than the trial's."""
    changed = settings.changed(**point.changes)
    for key in point.changes:
        whose = {scheme for scheme, _ in owners(key)}
        if whose and whose.isdisjoint(job.scheme for job in changed.each()):
            raise SettingsError(f"{key} differs from trial to trial, and scheme {changed.scheme} has no such setting")
    return changed
