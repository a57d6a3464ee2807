"""What all of a submission's processes take together: the kernel's limits are those of each, and for root some are none."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType

import psutil

EVERY = 0.25  # seconds
MOST_PROCESSES = 512
SHARE = 2  # one part of so many of the machine's memory is theirs
RESERVE = 16  # and one part of so many must be left, whoever takes the rest: files in memory are nobody's


def excess() -> str | None:
    """What this process's descendants have too much of, in words."""
    machine = psutil.virtual_memory()
    if machine.available < machine.total / RESERVE:
        return "leave the machine too little memory"
    memory = count = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            memory, count = memory + process.memory_info().rss, count + 1
    if count > MOST_PROCESSES:
        return f"are more than {MOST_PROCESSES}"
    if memory > machine.total / SHARE:
        return f"take more than {machine.total / SHARE / (1 << 30):.1f} GiB of memory together"
    return None


class Guard:
    """Ends the processes that it is given as soon as there is an excess. `told` is what it was."""

    def __init__(self) -> None:
        self.told: str | None = None
        self._guarded: list[subprocess.Popen[bytes]] = []
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._guarded:
            self._thread.join()

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """Guard a process, whose end is the end of all that it began."""
        self._guarded.append(process)
        if len(self._guarded) == 1:
            self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            if told := excess():
                self.told = told
                for process in self._guarded:
                    process.kill()
