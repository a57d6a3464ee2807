"""What the scheduler has sent from one host to another, and what it tells those that are to send."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from inalab.hosts.mlfabric.planner import Path


@dataclass(frozen=True)
class Push:
    """A worker may send its update now."""

    worker: int
    destination: int
    ticket: int  # of the transfer to the server that it is, or becomes part of
    members: tuple[int, ...]  # workers whose updates it is to send as one
    rate: float  # bytes per second; 0 means no limit
    turn: float = field(default=0.0, compare=False)  # from when on its links were free for it


@dataclass(frozen=True)
class Fetch:
    """A worker may fetch the model from the server now."""

    worker: int
    number: int  # of the fetch
    rate: float  # bytes per second; 0 means no limit


@dataclass(frozen=True)
class Pass:
    """A worker is to send the model that it has fetched to another, whose fetch has this number."""

    worker: int
    destination: int
    number: int
    rate: float  # bytes per second; 0 means no limit


@dataclass(frozen=True)
class Drop:
    """A worker is not to send its update."""

    worker: int


@dataclass(frozen=True)
class Skip:
    """The server is to skip a ticket, unless what belongs to it has already come."""

    ticket: int


@dataclass(frozen=True)
class Replicate:
    """A worker or the server is to send the sum of what came with these tickets to the replica, as the copy of this number."""

    source: int
    destination: int
    number: int
    tickets: tuple[int, ...]
    rate: float  # bytes per second; 0 means no limit


@dataclass(frozen=True)
class Held:
    """The server is to know that its replica has what came with these tickets."""

    tickets: tuple[int, ...]


Action = Push | Fetch | Pass | Drop | Skip | Replicate | Held


class What(Enum):
    """What is sent: the source's update, perhaps with others', the model, or a copy of updates to the replica."""

    UPDATE, MODEL, COPY = range(3)


@dataclass(eq=False)
class Job:
    """A transfer that is planned, or under way."""

    what: What
    source: int
    destination: int
    path: Path
    size: float
    takes: float  # seconds, as planned
    ticket: int = -1  # of an update
    awaited: set[int] = field(default_factory=set)  # workers whose updates have to come before
    turn: float | None = None  # from when on its links were free for it
    begun: float | None = None
    place: int = 0  # in the order in which transfers use links, all jobs' where these share uplinks
    number: int = 0  # of the worker's fetch, or of the copy
    least: int = 0  # version of the model that another worker may send
    again: bool = False  # it may have come already, or may still come, from a source that has died, been lost or is late
    late: bool = False  # others on its links wait for it no longer

    @property
    def pair(self) -> frozenset[int]:
        """The hosts between which it goes."""
        return frozenset((self.source, self.destination))
