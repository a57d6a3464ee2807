"""What all of a submission's processes take together: the kernel's limits are those of each, and for root some are none."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

import psutil

EVERY = 0.25  # seconds
MOST_PROCESSES = 512
SHARE = 2  # one part of so many of the machine's memory is theirs
RESERVE = 16  # they end, too, where they have one part of so many and less is left: files in memory are no process's


def excess() -> str | None:
    """What this process's descendants have too much of, in words."""
    machine, memory, count = psutil.virtual_memory(), 0, 0
    total = _total(machine.total)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            memory, count = memory + process.memory_info().rss, count + 1
    if count > MOST_PROCESSES:
        return f"are more than {MOST_PROCESSES}"
    if memory > total / SHARE:
        return f"take more than {total / SHARE / (1 << 30):.1f} GiB of memory together"
    if memory > total / RESERVE > machine.available:
        return "leave the machine too little memory"
    return None


def _total(machine: int) -> int:
    """Bytes that there are: of a container those that it may have."""
    with suppress(OSError, ValueError):  # "max": there is no bound
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return machine


class Guard:
    """Ends the processes that it is given as soon as there is an excess. `message` is what it was."""

    def __init__(self) -> None:
        self.message: str | None = None
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
            if wording := excess():
                self.message = wording
                for process in self._guarded:
                    process.kill()
