"""What the workers of a group called last, for each other to read: all have to make the same calls in the same order.

A worker that sums over the scheme what another one gives to Gloo would wait for it without end, and so would the other.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from pathlib import Path

from hosts.collective import workers

RECENT = 64  # calls of a worker that can be read
WIDTH = 64  # bytes of each


class Calls:
    """The calls of one worker of a group, in a file of a folder that all of them share."""

    def __init__(self, folder: Path, group: int, rank: int, size: int) -> None:
        self.files = [folder / f"calls-{group}-{other}" for other in range(size)]
        self.own = os.open(self.files[rank], os.O_CREAT | os.O_WRONLY, 0o600)
        self.numbers = itertools.count(1)

    def note(self, call: str) -> None:
        """Begin a call."""
        number = next(self.numbers)
        os.pwrite(self.own, f"{number} {call}".encode()[:WIDTH].ljust(WIDTH), number % RECENT * WIDTH)

    def difference(self) -> str | None:
        """The first call in which workers differ, as a sentence. Those that have not come to it yet are not in it."""
        found = self._first_difference()
        return found if found == self._first_difference() else None  # otherwise a note was being written

    def close(self) -> None:
        os.close(self.own)

    def _first_difference(self) -> str | None:
        noted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, file in enumerate(self.files):
            for number, call in _calls(file):
                noted[number][call].append(rank)
        for number, calls in sorted(noted.items()):
            if len(calls) > 1:
                told = "; ".join(f"{call} on {workers(ranks)}" for call, ranks in calls.items())
                return f"the workers differ in call {number} of the group: {told}"
        return None


def _calls(file: Path) -> list[tuple[int, str]]:
    """What is in a worker's file, by number; nothing before the worker has joined the group."""
    if not file.exists():
        return []
    octets = file.read_bytes()
    notes = (octets[at : at + WIDTH].rstrip(b" \0").decode() for at in range(0, len(octets), WIDTH))
    return [(int(number), call) for number, _, call in (note.partition(" ") for note in notes if note)]
