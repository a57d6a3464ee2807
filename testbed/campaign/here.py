"""This machine, as a place where trials run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from multiprocessing import connection
from typing import Any

from inalab.testbed import backends
from inalab.testbed.campaign import machine
from inalab.testbed.campaign.identity import changed
from inalab.testbed.campaign.machines import Ended, Event, Heard, Task
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.errors import TrialError


class Here:
    """One slot, or one for each processor where no trial measures time. Each trial is in processes of its own."""

    def __init__(self, targets: Iterable[str]) -> None:
        """`targets` are all that trials will run on."""
        several = all(backends.find(target).side_by_side for target in targets)
        self.names = [f"here-{n}" for n in range(len(os.sched_getaffinity(0)))] if several else ["here"]
        self.running: dict[str, Apart] = {}
        self.not_begun: list[Event] = []

    def slots(self) -> list[str]:
        return self.names

    def fingerprint(self, slot: str) -> dict[str, Any]:
        return machine.fingerprint()

    def start(self, slot: str, task: Task) -> None:
        try:
            if task.foreign is not None and (differ := changed(task.trial, task.foreign)):
                raise TrialError(differ)
            self.running[slot] = backends.find(task.target).start(task.trial.settings, task.trial.seed, task.capture)
        except (TrialError, SettingsError) as error:
            self.not_begun.append(Ended(slot, failure=str(error) or type(error).__name__))

    def news(self, seconds: float) -> list[Event]:
        found, self.not_begun = self.not_begun, []
        if found or not self.running:
            return found
        heard: list[Any] = []
        for receiver in connection.wait([trial.receiver for trial in self.running.values()], seconds):
            slot, trial = next((slot, trial) for slot, trial in self.running.items() if trial.receiver is receiver)
            heard.clear()
            more = trial.hear(heard.append)
            found += [Heard(slot, message) for message in heard]
            if not more:
                found.append(_ended(slot, trial))
                del self.running[slot]
        return found

    def stop(self) -> None:
        for trial in self.running.values():
            trial.kill()
        self.running.clear()


def _ended(slot: str, trial: Apart) -> Ended:
    try:
        return Ended(slot, trial.result())
    except TrialError as error:
        return Ended(slot, failure=str(error) or type(error).__name__)
