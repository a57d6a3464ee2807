"""A user's request, as settings of an experiment: from the command line of `inalab run` or from a campaign's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inalab.testbed import backends
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.effect import refuse_without_effect
from inalab.testbed.plan.experiment import Experiment
from inalab.testbed.plan.settings import make_settings, parse_overrides, with_scheme


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


def understood(request: Request, scheme: str | None = None, strict: bool = True) -> tuple[Request, Experiment, Any]:
    """The request, with the overrides that select `scheme`; the experiment; and its settings.

    `strict`: what has no effect is refused. Raises SettingsError.
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
    whole = Request(request.experiment, target, request.seed, overrides, request.quick, request.resume, request.capture)
    return whole, chosen, settings
