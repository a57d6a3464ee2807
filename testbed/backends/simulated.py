"""Target simulated: trials whose times are computed, with the costs of a target that was measured, or of hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inalab.testbed.backends.backend import Backend
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.limits import check
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture
from inalab.topologies import isolation


class Simulated(Backend):
    """No switches and no hosts: the network is computed."""

    name = "simulated"
    computed = side_by_side = True
    verb = "Simulated"

    def refuse(self, settings: TrialSettings) -> None:
        check(settings)

    def refuse_capture(self) -> None:
        raise SettingsError(f"target {self.name} has no packets to capture: leave --capture out, or choose another target")

    def start(self, settings: TrialSettings, seed: int, capture: Capture | None = None) -> Apart:
        from inalab.testbed.simulator import trial  # noqa: F401 (which loads PyTorch, once for all trials)

        settings.check()
        check(settings)
        return Apart(isolation.fork, lambda sender: computed_trial(settings, seed))

    def versions(self) -> dict[str, str]:
        """The origins of the costs."""
        return costs.origins()

    def caveats(self, record: Mapping[str, Any]) -> list[str]:
        whose = (record.get("settings") or {}).get("costs", "not known")
        origin = f"costs {whose}: {(record.get('target_versions') or {}).get(whose, 'unknown')}"
        return [f"All numbers are simulated, with {origin}. docs/reference/validation.md tells how far they can be trusted."]

    def doubts(self, scheme: str) -> bool:
        from inalab.testbed.simulator import calibration  # which loads an optimizer

        return scheme in calibration.failed()

    def lacks(self, error: KeyError) -> str:
        return f"The figures need {error}, which is not simulated: there are none."
