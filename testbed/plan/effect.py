"""What is set and changes nothing is refused: who sets something expects it to count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from testbed.plan.experiment import Experiment, Trial
from testbed.plan.settings import SettingsError, TrialSettings, make_settings, owners, refuse_others


def refuse_without_effect(experiment: Experiment, values: dict[str, Any], given: dict[str, Any], seed: int) -> None:
    """Raise SettingsError for one of `given` without which the experiment's trials would be the same.

    `values` are what the experiment's settings are made of otherwise. What is given as it is anyway is let pass.
    """
    settings = make_settings(experiment.Settings, values | given)
    plan = experiment.trials(settings, seed)
    refuse_others(settings, {job.scheme for trial in plan for job in trial.settings.each()})
    for key in given:
        if key not in TrialSettings.model_fields and not owners(key):
            continue  # the experiment's own
        try:
            without = make_settings(experiment.Settings, values | {other: value for other, value in given.items() if other != key})
            trials = experiment.trials(without, seed)
        except SettingsError:
            continue  # the others need it
        if without != settings and _effects(trials) == _effects(plan):
            raise SettingsError(_why(key, [trial.settings for trial in plan]))


def refuse_idle(settings: TrialSettings, given: Iterable[str]) -> None:
    """Raise SettingsError for one of the settings `given` that counts for nothing in this trial."""
    refuse_others(settings, {settings.scheme})
    if idle := settings.idle().keys() & set(given):
        raise SettingsError(_why(min(idle), [settings]))


def _effects(trials: list[Trial]) -> list[Any]:
    """What the trials are, without what counts for nothing in them."""
    return [
        (trial.name, trial.factors, trial.seed, {k: v for k, v in trial.settings.resolved().items() if k not in idle})
        for trial in trials
        for idle in [{name for job in trial.settings.each() for name in job.idle()}]
    ]


def _why(key: str, settings: list[TrialSettings]) -> str:
    reasons = {trial.idle().get(key, "") for trial in settings}
    if "" in reasons:
        return f"{key} would change nothing here: the experiment sets it in every trial itself, or does without it"
    return f"{key} would change nothing: {min(reasons)}"
