"""Where a campaign's trials run: slots, each of which runs one trial at a time."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from inalab.testbed.campaign import machine, one


class MachinesError(RuntimeError):
    """Machines that cannot be used; str() is one sentence that says what to change."""


@dataclass(frozen=True)
class Ended:
    """A slot's trial has ended with this result (testbed.campaign.one.Runner)."""

    slot: str
    result: dict[str, Any]


@dataclass(frozen=True)
class Gone:
    """A slot is no more."""

    slot: str


class Machines(Protocol):
    """Slots that come and go."""

    def slots(self) -> dict[str, dict[str, Any]]:
        """Those there are now, and the fingerprint of each one's machine."""
        ...

    def start(self, slot: str, trial: dict[str, Any]) -> None:
        """Begin a trial (testbed.campaign.one.described) on an idle slot."""
        ...

    def news(self, seconds: float) -> list[Ended | Gone]:
        """What has happened, as soon as something has, or after so many seconds."""
        ...

    def stop(self) -> None:
        """End all trials under way, and let the machines go."""
        ...


class Here:
    """This machine: one slot."""

    NAME = "here"

    def __init__(self) -> None:
        self.runner, self.stopping = one.Runner(), threading.Event()
        self.thread = ThreadPoolExecutor(1, "trials")  # one for all: the runner's process ends with the thread that began it
        self.running: Future[dict[str, Any]] | None = None

    def slots(self) -> dict[str, dict[str, Any]]:
        return {self.NAME: machine.fingerprint()}

    def start(self, slot: str, trial: dict[str, Any]) -> None:
        self.running = self.thread.submit(self.runner.run, trial, self.stopping.is_set)

    def news(self, seconds: float) -> list[Ended | Gone]:
        if self.running is None or not wait([self.running], seconds).done:
            return []
        ended, self.running = self.running, None
        return [Ended(self.NAME, ended.result())]

    def stop(self) -> None:
        self.stopping.set()
        self.thread.shutdown()
        self.runner.end()
