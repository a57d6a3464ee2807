"""Refuses settings that would change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inalab.testbed.plan.experiment import Experiment, Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, owners, refuse_others


def checked_plan(experiment: Experiment, settings: Any, seed: int) -> list[Trial]:
    """The trials of an experiment. SettingsError for one that cannot run."""
    plan = experiment.trials(settings, seed)
    for trial in plan:
        trial.settings.check()
    return plan


def refuse_without_effect(experiment: Experiment, values: dict[str, Any], given: dict[str, Any], seed: int) -> None:
    """Raise SettingsError for one of `given` without which the experiment's trials would be the same.

    `values` are what the experiment's settings are made of otherwise. A setting that is given as it is anyway is accepted.
    """
    settings = make_settings(experiment.Settings, values | given)
    plan = checked_plan(experiment, settings, seed)
    refuse_others(settings, {job.scheme for trial in plan for job in trial.settings.each()})
    for key in given:
        if key not in TrialSettings.model_fields and not owners(key):
            continue  # the experiment's own
        try:
            without = make_settings(experiment.Settings, values | {other: value for other, value in given.items() if other != key})
            trials = checked_plan(experiment, without, seed)
        except SettingsError:
            continue  # the others need it
        if without != settings and _effects(trials) == _effects(plan):
            raise SettingsError(_why(key, [trial.settings for trial in plan]))


def refuse_idle(settings: TrialSettings, given: Iterable[str]) -> None:
    """Raise SettingsError for one of the settings `given` that counts for nothing in this trial, and is not at its default."""
    refuse_others(settings, {settings.scheme})
    if idle := settings.beyond_default(settings.idle().keys() & set(given)):
        raise SettingsError(_why(min(idle), [settings]))


def _effects(trials: list[Trial]) -> list[Any]:
    """What the trials are, without what counts for nothing in them."""
    return [(trial.name, trial.factors, trial.seed, _counting(trial.settings)) for trial in trials]


def _counting(settings: TrialSettings) -> dict[str, Any]:
    """The settings but for those that are idle, and those of schemes that the trial does not use."""
    jobs = settings.each()
    idle, schemes = {name for job in jobs for name in job.idle()}, {job.scheme for job in jobs}
    resolved = settings.resolved().items()
    return {key: value for key, value in resolved if key not in idle and ("." not in key or key.rpartition(".")[0] in schemes)}


def _why(key: str, settings: list[TrialSettings]) -> str:
    reasons = {trial.idle().get(key, "") for trial in settings}
    if "" in reasons:
        return f"{key} would change nothing here: the experiment sets it in every trial itself, or does without it"
    return f"{key} would change nothing: {min(reasons)}"
