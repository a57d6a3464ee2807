"""What a worker and its trial's coordinator tell each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Forked:
    """A worker's process exists."""

    job: int
    rank: int
    pid: int


@dataclass(frozen=True)
class Hello:
    """A worker is ready: how many elements its gradient has, and SHA-256 of what it trains on."""

    job: int
    rank: int
    elements: int
    data: str


@dataclass(frozen=True)
class Start:
    """The trial begins at a time of time.monotonic, which all hosts share."""

    at: float


@dataclass(frozen=True)
class Step:
    """A worker has ended a step: the record that becomes part of the trial's."""

    record: dict[str, Any]

    @property
    def number(self) -> int:
        """Of the step, from 0."""
        return int(self.record["step"])

    @property
    def rank(self) -> int:
        """Of the worker."""
        return int(self.record["rank"])


@dataclass(frozen=True)
class Done:
    """A worker has ended in order: SHA-256 of its model, its counters, and its packets in bins of time."""

    rank: int
    digest: str
    counters: dict[str, Any]
    timeline: list[Any]


@dataclass(frozen=True)
class Failure:
    """Why a worker has ended.

    `incomplete`: a collective lacks others, of whom `missing` are known by rank. Otherwise something happened to the worker itself.
    """

    job: int
    rank: int
    text: str
    incomplete: bool = False
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lost:
    """A worker, or a server behind them by rank, has died, and the others go on."""

    job: int
    rank: int
    text: str


@dataclass(frozen=True)
class Abort:
    """The worker is to give up."""

    reason: str


FromWorker = Hello | Step | Done | Failure
Message = Forked | FromWorker | Lost
