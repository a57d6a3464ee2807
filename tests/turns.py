"""Tests run side by side in several processes; one that needs quiet runs alone."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(folder: Path, alone: bool) -> Iterator[None]:
    """Hold the right to run, together with others or `alone`; `folder` is the same for all processes of the session.

    Who wants to be alone keeps the door shut while others finish: they could otherwise keep it waiting for ever.
    """
    with (folder / "door").open("w") as door, (folder / "running").open("w") as running:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextmanager
def only(folder: Path, what: str) -> Iterator[None]:
    """Hold something that there is once for all tests of a session."""
    with (folder / what).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
