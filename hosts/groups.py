"""Groups that a script forms of a job's workers: whoever controls the switches admits each as a job of its own.

A worker asks when its group is made, and all members of a group get the same answer: where they are in it, or why it has no part in
the switches. The group's memory is free again once all members have left.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import Protocol

SOCKET = "groups"  # the name of it in the folder that the launcher shares with the scripts


class GroupRefusedError(Exception):
    """A group has no part in the switches; str() says why, in one sentence."""


@dataclass(frozen=True)
class Formation:
    """A worker, by its rank in the group, forms one of these workers, by their ranks in the job. `name` is the group's alone."""

    name: str
    ranks: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Departure:
    """A worker has left a group, and sends nothing more in it."""

    formation: Formation


@dataclass(frozen=True)
class Formed:
    """A worker's place (hosts.place) in its group, as text, and the group's epoch; or why there is none."""

    place: str = ""
    epoch: int = 0
    refusal: str = ""


class GroupControl(Protocol):
    """Who admits groups, as a worker sees it."""

    def form(self, formation: Formation) -> Formed: ...

    def depart(self, formation: Formation) -> None: ...


class LaunchedGroups:
    """The launcher, by a Unix socket in the folder that it shares with the scripts."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / SOCKET)

    def form(self, formation: Formation) -> Formed:
        """Raises OSError where the launcher does not answer."""
        found = self._asked(formation)
        assert isinstance(found, Formed)
        return found

    def depart(self, formation: Formation) -> None:
        """Likewise."""
        self._asked(Departure(formation))

    def _asked(self, request: Formation | Departure) -> Formed | None:
        with Client(self.address, "AF_UNIX") as connection:
            connection.send(request)
            try:
                answer: Formed | None = connection.recv()
            except EOFError:
                raise OSError("the launcher has closed the connection") from None
            return answer
