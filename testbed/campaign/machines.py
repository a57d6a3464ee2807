"""Where trials run: slots, each of which runs one trial at a time, on this machine (here.py) or a cluster (dask_machines.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from inalab.hosts.messages import Message
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.trial.capture import Capture


class MachinesError(RuntimeError):
    """Machines that cannot be used; str() is one sentence that says what to change."""


@dataclass(frozen=True)
class Task:
    """A trial to run on a target.

    `foreign` are the files of others that it reads, by path, with their SHA-256 as planned; None where these do not matter,
    because the trial begins right after it was planned, in the same process.
    """

    trial: Trial
    target: str
    foreign: Mapping[str, str] | None = None
    capture: Capture | None = None


@dataclass(frozen=True)
class Heard:
    """A slot's trial reports something."""

    slot: str
    message: Message


@dataclass(frozen=True)
class Ended:
    """A slot's trial has ended with this result, or with none for the reason in `failure`."""

    slot: str
    result: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @classmethod
    def of(cls, slot: str, answer: dict[str, Any]) -> Self:
        """An end as testbed.campaign.one.Runner answers it."""
        if "stopped" in answer:
            return cls(slot, failure="it was stopped")
        return cls(slot, failure=answer["failed"] or "it does not say why") if "failed" in answer else cls(slot, answer)


@dataclass(frozen=True)
class Gone:
    """A slot is no more."""

    slot: str


@dataclass(frozen=True)
class Noted:
    """Something has happened to the machines that concerns no slot."""

    sentence: str


Event = Heard | Ended | Gone | Noted


class Machines(Protocol):
    """Slots that come and go."""

    def slots(self) -> list[str]:
        """Those there are now."""
        ...

    def fingerprint(self, slot: str) -> dict[str, Any]:
        """What a slot's machine is (testbed.campaign.machine). It may take seconds, in which no trial should run there."""
        ...

    def start(self, slot: str, task: Task) -> None:
        """Begin a trial on an idle slot."""
        ...

    def news(self, seconds: float) -> list[Event]:
        """What has happened, as soon as something has, or after so many seconds."""
        ...

    def stop(self) -> None:
        """End all trials under way, and let the machines go."""
        ...
