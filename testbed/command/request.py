"""A user's request, as settings of an experiment: from the command line of `inalab run` or from a campaign's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inalab.testbed import backends
from inalab.testbed.backends.backend import check
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.effect import refuse_without_effect
from inalab.testbed.plan.experiment import Experiment
from inalab.testbed.plan.settings import SettingsError, make_settings, parse_overrides, with_scheme


@dataclass(frozen=True)
class Request:
    """What was requested of a run."""

    experiment: str
    target: str  # empty: the experiment's own
    seed: int
    overrides: list[str]  # key=value
    quick: bool = False
    resume: bool = False
    capture: tuple[str, ...] = ()  # names of links
    why: str = ""  # the target is another than the experiment's own, where none was chosen


def understood(
    request: Request, scheme: str | None = None, strict: bool = True, here: bool = True
) -> tuple[Request, Experiment, Any]:
    """The request, with the overrides that select `scheme`; the experiment; and its settings.

    `strict`: what has no effect is refused. `here`: the trials run on this machine. Raises SettingsError.
    """
    chosen = registry.load(request.experiment)
    target = request.target or registry.target_of(chosen)
    values = {**backends.find(target).usual} | (chosen.QUICK if request.quick else {})
    overrides = list(request.overrides)
    if scheme:
        overrides += with_scheme(chosen, values | parse_overrides(overrides, chosen.Settings), scheme)
    given = parse_overrides(overrides, chosen.Settings)
    settings = make_settings(chosen.Settings, values | given)
    if strict:
        refuse_without_effect(chosen, values, given, request.seed)
    why = "" if request.target or not here else _why_virtual(target, chosen, settings, request.seed)
    target = "virtual" if why else target
    whole = Request(request.experiment, target, request.seed, overrides, request.quick, request.resume, request.capture, why)
    return whole, chosen, settings


def _why_virtual(target: str, chosen: Experiment, settings: Any, seed: int) -> str:
    """Why trials run in virtual time where this machine cannot make their networks; empty where it can, or they cannot."""
    try:
        backends.find(target).require()
        return ""
    except SettingsError as error:
        impossible = str(error).partition(":")[0]
    try:
        check(backends.find("virtual"), chosen.trials(settings, seed))
    except SettingsError:
        return ""
    return f"{impossible}: the trials run in virtual time (--target virtual)"
