"""A trial whose times are computed."""

from __future__ import annotations

from typing import Any

from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.limits import check
from inalab.testbed.trial.errors import TrialError


def computed_trial(settings: TrialSettings, seed: int, own: costs.Known | None = None) -> dict[str, Any]:
    """What testbed.trial.outcome returns; `own` are costs in place of those that the settings name.

    Raises SettingsError for what is not simulated, and TrialError for what would take too long.
    """
    from inalab.testbed.simulator.trial import compute  # which loads PyTorch

    settings.check()
    check(settings)
    try:
        return compute(settings, seed, own or costs.of(settings.costs))
    except ValueError as error:
        raise TrialError(str(error)) from None
