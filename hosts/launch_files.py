"""What a launcher and its scripts leave for each other in a folder: why to give up, how a script failed, what it used."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FOLDER = "INALAB_NOTES"  # the environment variable that names the folder,
WORKER = "INALAB_WORKER"  # and the one that has the rank of the script's worker
REASON = "reason"
FAILURE = "failure-"  # and the rank
TALLY = "tally-"  # and the rank
BROKEN = "broken-"  # and the epoch
ENDS = "ends"


def own_rank() -> int:
    """Of the worker whose script this process is."""
    return int(os.environ[WORKER])


class LaunchFiles:
    """A folder of small files, each of which appears whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def from_environment(cls) -> LaunchFiles:
        """The folder that the environment names; without one there are no notes to be read."""
        return cls(Path(os.environ.get(FOLDER, os.devnull)))

    def give_up(self, reason: str) -> None:
        """Leave word for the survivors why they cannot go on. The first reason stays."""
        if self.reason() is None:
            self._leave(REASON, reason)

    def reason(self) -> str | None:
        """Why to give up, if there is a reason."""
        return self._read(REASON)

    def fail(self, rank: int, text: str) -> None:
        """Leave word of how the script of a rank failed."""
        self._leave(f"{FAILURE}{rank}", text)

    def failure(self, rank: int) -> str | None:
        """How the script of a rank failed, if it failed and could still write the reason."""
        return self._read(f"{FAILURE}{rank}")

    def leave_tally(self, rank: int, text: str) -> None:
        """Leave word of what the collectives of a rank used (hosts.tally)."""
        self._leave(f"{TALLY}{rank}", text)

    def tally(self, rank: int) -> str | None:
        """What the collectives of a rank used, if its script has come to its end."""
        return self._read(f"{TALLY}{rank}")

    def break_group(self, epoch: int, reason: str) -> None:
        """Leave word for the members of a group why their sums cannot be completed any more."""
        self._leave(f"{BROKEN}{epoch}", reason)

    def broken(self, epoch: int) -> str | None:
        """Why not, if there is a reason."""
        return self._read(f"{BROKEN}{epoch}")

    def leave_ends(self, number: int) -> None:
        """Leave word of how many workers have ended so far, where the others go on."""
        self._leave(ENDS, str(number))

    def ends(self) -> int:
        """How many those are."""
        return int(self._read(ENDS) or 0)

    def _leave(self, name: str, text: str) -> None:
        aside = self.folder / f"{name}.{os.getpid()}"
        aside.write_text(text)
        aside.rename(self.folder / name)

    def _read(self, name: str) -> str | None:
        with suppress(OSError):
            return (self.folder / name).read_text()
        return None
