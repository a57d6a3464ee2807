"""The interface of a target: what it needs, what it refuses and why, how it runs a trial, and its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from inalab.hosts.messages import Message
from inalab.schemes.streaming import K_CHOICES
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial.apart import Apart, followed
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.hosted import Runner

Report = Callable[[Message], None]


class Backend:
    """A target. What a method of this class does suits one that needs nothing, refuses nothing, and says nothing of its own."""

    name = ""
    computed = False  # whether its trials' times are computed, and not measured
    verb = "Measured"  # how its trials' times came about, for the beginning of a sentence about a run
    side_by_side = False  # whether its trials may run at the same time
    largest_k = max(K_CHOICES)  # integers in a packet, at most
    usual: Mapping[str, str] = {}  # settings that it can keep up with, where an experiment's own are too much

    def require(self) -> None:
        """Raise SettingsError, which says what to change, if this machine cannot run it."""

    def refuse(self, settings: TrialSettings) -> None:
        """Raise SettingsError if it cannot run a trial of these settings."""

    def refuse_capture(self) -> None:
        """Raise SettingsError if it has no packets to capture."""

    def prepare(self, trials: Iterable[Trial]) -> None:
        """Make what these trials need, such as compiled programs. Raises SettingsError if that cannot be."""

    def run(self, settings: TrialSettings, seed: int, report: Report, capture: Capture | None = None) -> dict[str, Any]:
        """Run a trial to its end; its measurements (testbed.trial.outcome). Raises TrialError."""
        return followed(self.start(settings, seed, capture), report)

    def start(self, settings: TrialSettings, seed: int, capture: Capture | None = None) -> Apart:
        """Begin a trial. Raises TrialError, or SettingsError for what `refuse` has not seen."""
        raise NotImplementedError

    def launch(self, settings: TrialSettings, seed: int, script: Sequence[str], runner: Runner, check_sums: bool) -> int:
        """Run a PyTorch script for every worker (testbed.trial.launch); the exit code. SettingsError where it cannot."""
        raise SettingsError(f"target {self.name} computes trials, and runs no scripts: choose another target")

    def versions(self) -> dict[str, str]:
        """What it is made of, for the record of a run."""
        return {}

    def caveats(self, record: Mapping[str, Any]) -> list[str]:
        """What the findings of a run with this record begin with."""
        return []

    def doubts(self, scheme: str) -> bool:
        """Whether its numbers of a scheme are known not to be what is measured."""
        return False

    def lacks(self, error: KeyError) -> str:
        """What to say where figures need what its trials do not have; empty if that is a bug of the figures."""
        return ""


def check(backend: Backend, trials: Sequence[Trial], capture: Sequence[str] = ()) -> None:
    """Raise SettingsError for trials that a target cannot have, or packets that it cannot capture."""
    if capture:
        backend.refuse_capture()
    for trial in trials:
        backend.refuse(trial.settings)
