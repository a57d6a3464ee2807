"""What the workers of a group called last, for each other to read: all have to make the same calls in the same order.

A worker that sums over the scheme what another one gives to Gloo would wait for it without end, and so would the other. Gloo itself
compares nothing: workers that call it with different operations get numbers, and with different sizes the process may end.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from pathlib import Path

from inalab.hosts.collective import workers

RECENT = 1024  # calls of a worker that can be read
WIDTH = 128  # bytes of each: a page has a whole number of them, so none is read half written
QUIET = 10.0  # seconds without a new call after which workers whose calls differ are stuck


class Calls:
    """The calls of one worker of a group, in a file of a folder that all of them share."""

    def __init__(self, folder: Path, group: int | str, rank: int, names: tuple[int, ...]) -> None:
        """`group` is the same on all its workers; `rank` is this one's, `names` are what they are called, by rank."""
        self.names = names
        self.files = [folder / f"calls-{group}-{other}" for other in range(len(names))]
        self.own = os.open(self.files[rank], os.O_CREAT | os.O_WRONLY, 0o600)
        self.numbers = itertools.count(1)
        self.seen: list[bytes] = []  # what all workers had noted when difference() was called last,
        self.since = 0.0  # and since when they had

    def note(self, call: str) -> int:
        """Begin a call; its number."""
        number = next(self.numbers)
        os.pwrite(self.own, f"{number} {call}".encode()[:WIDTH].ljust(WIDTH), number % RECENT * WIDTH)
        return number

    def unlike(self, number: int) -> str | None:
        """Whether workers that have begun the call of this number differ in it, as a sentence. Two looks have to find the same."""
        first = self._calls(number)
        if len(first) < 2 or self._calls(number) != first:
            return None
        return _sentence(number, first)

    def _calls(self, number: int) -> dict[str, list[int]]:
        """What is called by this number, each with the names of the workers that do so."""
        return _by_number([_read(file, number % RECENT * WIDTH) for file in self.files], self.names)[number]

    def difference(self, quiet: float = QUIET) -> str | None:
        """The first call in which workers differ, as a sentence. Those that have not come to it yet are not in it.

        Only once no worker has begun a call for `quiet` seconds: where threads of a script call the scheme and Gloo side by side,
        the two may take turns in another way on each worker, and all go on.
        """
        noted, now = [file.read_bytes() if file.exists() else b"" for file in self.files], time.monotonic()
        if noted != self.seen:
            self.seen, self.since = noted, now
        return _first_difference(noted, self.names) if now - self.since >= quiet else None

    def close(self) -> None:
        os.close(self.own)


def _first_difference(noted: list[bytes], names: tuple[int, ...]) -> str | None:
    """Of what is in the workers' files, by rank."""
    for number, calls in sorted(_by_number(noted, names).items()):
        if len(calls) > 1:
            return _sentence(number, calls)
    return None


def _by_number(noted: list[bytes], names: tuple[int, ...]) -> dict[int, dict[str, list[int]]]:
    """Calls, by their numbers, with the names of the workers that have noted each."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, octets in zip(names, noted, strict=True):
        for number, call in noted_calls(octets):
            found[number][call].append(name)
    return found


def _sentence(number: int, calls: dict[str, list[int]]) -> str:
    wording = "; ".join(f"{call} on {workers(names)}" for call, names in calls.items())
    return f"the workers differ in call {number} of the group: {wording}"


def _read(file: Path, at: int) -> bytes:
    """A note; nothing where the worker has not noted so much."""
    try:
        with file.open("rb") as opened:
            return os.pread(opened.fileno(), WIDTH, at)
    except FileNotFoundError:
        return b""


def noted_calls(octets: bytes) -> list[tuple[int, str]]:
    """What is in a worker's file, with its numbers."""
    notes = (octets[at : at + WIDTH].rstrip(b" \0").decode(errors="replace") for at in range(0, len(octets), WIDTH))
    return [(int(number), call) for number, _, call in (note.partition(" ") for note in notes if note)]
