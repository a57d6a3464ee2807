"""Sweeps: the same seeds at every point, so that points are compared in pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from inalab.schemes import registry
from inalab.schemes.streaming import StreamSettings
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, owners


def _words(value: Any) -> Any:
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


def _groups(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if min(sizes, default=2) < 2:
        raise ValueError("an all-reduce is between two workers or more")
    return sizes


Integers = Annotated[tuple[int, ...], BeforeValidator(_words)]  # on the command line with commas
Sizes = Annotated[tuple[int, ...], BeforeValidator(_words), AfterValidator(_groups)]  # numbers of workers
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


def racks_of(n: int, most: int) -> int:
    """How many racks of up to `most` workers n workers fill alike. SettingsError where they do not."""
    racks = -(-n // most)
    if n % racks:
        raise SettingsError(f"{n} workers do not fill {racks} racks alike: choose sizes that racks of {most} divide")
    return racks


def in_racks(n: int, most: int, host_rate: float) -> dict[str, Any]:
    """Settings of n workers in racks of up to `most`, whose uplinks carry all that hosts send. SettingsError as of racks_of."""
    racks = racks_of(n, most)
    return {"racks": racks, "workers": n // racks} | ({"uplink_rate": host_rate * n / racks} if racks > 1 else {})


def slow_links(settings: TrialSettings, share: float) -> dict[str, Any]:
    """The changes by which so large a share of the workers' links, rounded up, has half the rate; none for 0."""
    return {"topology": "mixed-rates", "slow_share": share, "slow_rate": settings.host_rate / 2} if share else {}


def paired(points: Iterable[Point], settings: SweepSettings, seed: int) -> list[Trial]:
    """Trials of all points, seed by seed: what is interrupted has whole sets. SettingsError for what cannot be."""
    planned = [(p, settings.changed(**p.changes)) for p in points]
    for key in {key for p, _ in planned for key in p.changes}:
        users = {job.scheme for p, changed in planned if key in p.changes for job in changed.each()}
        if (having := _having(key)) and users.isdisjoint(having):
            wording = f"{key} varies in this experiment, and scheme {' or '.join(sorted(users))} does not have it"
            raise SettingsError(f"{wording}: choose one of {', '.join(having)}")
    return [Trial(p.name, p.factors, changed, s) for s in range(seed, seed + settings.seeds) for p, changed in planned]


def _having(key: str) -> list[str]:
    """The schemes that have a setting which not every scheme has; none for one that all trials have."""
    if key in StreamSettings.model_fields:
        return [name for name in registry.names() if key in registry.find(name).Settings.model_fields]
    return [scheme for scheme, _ in owners(key)]
