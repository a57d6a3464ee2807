"""A trial on a target, run to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inalab.hosts.messages import Message
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.apart import followed
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.coordinator import start_trial


def run_trial(
    settings: TrialSettings, seed: int, target: Target, report: Callable[[Message], None], capture: Capture | None = None
) -> dict[str, Any]:
    """Its measurements. `report` gets every message. Raises TrialError."""
    return followed(start_trial(settings, seed, target, capture), report)
