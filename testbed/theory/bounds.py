"""The least time of an all-reduce, as its scheme has it: headers on the wire included, latency left out."""

from __future__ import annotations

import math
from typing import Any

from inalab.hosts.plugins import is_file
from inalab.hosts.training.pipeline import LAYERED, UNBOUNDED
from inalab.schemes.streaming import Streaming
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.theory import pipelines
from inalab.topologies.plan import NetworkPlan


def seconds(settings: TrialSettings, elements: int) -> float:
    """For the settings' scheme and a tensor of so many float32 or int32 elements."""
    return settings.of_scheme().bound(_plan(settings), settings.scheme_settings(), elements)


def of_trial(trial: dict[str, Any]) -> float:
    """The bound in seconds of a trial's sums, from its entry in trials.jsonl: of those of a step, where layers are summed apart.

    NaN where it has none (hosts.training.pipeline.UNBOUNDED).
    """
    if "bounds" in trial:
        return _number(trial["bounds"]["sum"])
    settings = TrialSettings(**trial["settings"])
    if settings.pipeline in LAYERED:
        return pipelines.least_exchange(settings)
    if settings.pipeline in UNBOUNDED:
        return math.nan
    return seconds(settings, trial["metrics"]["elements"])


def of_step(trial: dict[str, Any]) -> float:
    """The least seconds of a step of a trial, without a straggler, from its entry; NaN where it has no bound."""
    return _number(trial["bounds"]["step"]) if "bounds" in trial else pipelines.bound(TrialSettings(**trial["settings"]))


def recorded(trial: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What an entry keeps of a scheme from outside the package, whose code a report may not have: its bounds."""
    settings = TrialSettings(**trial["settings"])
    if "metrics" not in trial or not any(is_file(job.of_scheme().source) for job in settings.each()):
        return {}
    return {"bounds": {"sum": of_trial(trial), "step": of_step(trial)}}


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def ate(trial: dict[str, Any]) -> float:
    """The bound of a trial's aggregated tensor elements per second."""
    return float(trial["metrics"]["elements"] / of_trial(trial))


def framing(settings: TrialSettings, elements: int) -> float:
    """What headers, and exponents that go ahead, make of a byte of the tensor: bytes in frames, without preamble and gap."""
    return settings.of_scheme().framing(settings.scheme_settings(), elements)


def packets(settings: TrialSettings, elements: int) -> int:
    """That a worker sends for a tensor, over a scheme whose chunks the switches add."""
    scheme = settings.of_scheme()
    assert isinstance(scheme, Streaming)
    return scheme.packets(settings.scheme_settings(), elements)


def uplink_tensors(settings: TrialSettings, elements: int) -> float:
    """Up the busiest rack's uplink for one sum, in sizes of the tensor, framing included."""
    return settings.of_scheme().uplink_tensors(_plan(settings), settings.scheme_settings(), elements)


def _plan(settings: TrialSettings) -> NetworkPlan:
    """The job's own hosts, without those of background traffic."""
    return settings.changed(background=0.0).plan()
