"""Target virtual: the real protocols, P4 programs and trainings, in time that passes only where all wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from inalab.hosts.training.pipeline import OF_TORCH
from inalab.hosts.training.replica import preload
from inalab.switches.embedded.build import build
from inalab.switches.embedded.errors import CompileError
from inalab.testbed.backends.backend import Backend
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture, opened
from inalab.testbed.trial.hosted import Runner
from inalab.topologies import isolation

MOST_WORKERS, MOST_RACKS = 1024, 256


class Virtual(Backend):
    """No root, no namespaces and no kernel's network: a process, and a compiled program for each switch."""

    name = "virtual"
    computed = side_by_side = True
    verb = "Run in virtual time"

    def refuse(self, settings: TrialSettings) -> None:
        settings.check_emulated()
        if (workers := settings.racks * settings.workers) > MOST_WORKERS or settings.racks > MOST_RACKS:
            wording = f"{workers:,} workers in {settings.racks} racks are too many for virtual time"
            raise SettingsError(f"{wording}: set at most {MOST_WORKERS:,} in {MOST_RACKS}, or --target simulated")
        for job in settings.each():
            if not job.of_scheme().driven:
                raise SettingsError(
                    f"scheme {job.scheme} does not run in virtual time, because its nodes use sockets of their own: choose another "
                    "scheme, or target embedded"
                )
            if job.of_scheme().of_machine(job.scheme_settings()):
                raise SettingsError("roce=kernel is Linux's, in real time: leave it out, or choose target embedded or bmv2")
            if job.pipeline in OF_TORCH:
                raise SettingsError(
                    f"pipeline {job.pipeline} is PyTorch's own, which runs in real time only: choose target embedded"
                )
        try:
            costs.of(settings.costs)
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def prepare(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._library(trial.settings)

    def start(self, settings: TrialSettings, seed: int, capture: Capture | None = None) -> Apart:
        settings.check()
        for job in settings.each():
            preload(job.workload, job.pipeline)
        library = self._library(settings)

        def trial(sender: Connection) -> dict[str, Any]:
            from inalab.testbed.virtual.trial import run_trial  # which takes a moment to load

            return run_trial(settings, seed, library, sender.send, files=files)

        with opened(capture, settings.plan()) as files:
            return Apart(isolation.fork, trial)

    def launch(self, settings: TrialSettings, seed: int, script: Sequence[str], runner: Runner, check_sums: bool) -> int:
        from inalab.testbed.virtual.script import launch  # which loads PyTorch

        self.refuse(settings)
        if settings.faults:
            raise SettingsError("scripts in virtual time have no faults: leave them out, or choose target embedded")
        if settings.schedule():
            raise SettingsError("links keep their rates for scripts in virtual time: leave changing out, or choose target embedded")
        if runner.value:
            what = f"{runner.value} starts processes of its own, which know nothing of virtual time"
            raise SettingsError(f"{what}: leave --{runner.value} out")
        return launch(settings, seed, self._library(settings), list(script), check_sums)

    def versions(self) -> dict[str, str]:
        """The origins of the costs."""
        return costs.origins()

    def caveats(self, record: Mapping[str, Any]) -> list[str]:
        whose = (record.get("settings") or {}).get("costs", "not known")
        origin = (record.get("target_versions") or {}).get(whose, "unknown")
        return [f"All times are virtual: of links by their rates, and of hosts and switches by costs {whose} ({origin})."]

    def lacks(self, error: KeyError) -> str:
        return f"The figures need {error}, which is not in virtual time: there are none."

    def _library(self, settings: TrialSettings) -> Path:
        """The program of the trial's scheme, as the embedded switch runs it."""
        try:
            return build(settings.running().program, {"K": str(settings.k)}, library=True)
        except CompileError as error:
            raise SettingsError(str(error)) from None
