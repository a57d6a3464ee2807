"""Where futures of sums are completed, and so where callbacks of scripts run: not in the thread that finishes sums."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable


class Callbacks:
    """Threads in which futures are completed, and so what scripts have chained to them runs: in the order in which sums end.

    Those of sums that a callback begins are a level deeper, in a thread of their own, so that a callback can wait for them. Where
    one waits for something else of its own level, longer than PATIENCE, the others get another thread.
    """

    PATIENCE = 2.0  # seconds

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # where the threads are not

    def _begin(self) -> None:
        self.here = threading.local()
        self.levels: list[Level] = []
        self.growing = threading.Lock()

    @property
    def level(self) -> int:
        """Of what begins in this thread."""
        return getattr(self.here, "level", 0)

    def put(self, level: int, complete: Callable[[], None]) -> None:
        """Complete a future, soon."""
        with self.growing:
            while len(self.levels) <= level:
                self.levels.append(Level())
        self.levels[level].waiting.put(complete)
        self._attend(level)

    def _attend(self, level: int) -> None:
        """See that what waits is attended to: by a thread that has nothing to do, or after a while by another one."""
        its = self.levels[level]
        with self.growing:
            if its.waiting.empty():
                return
            if not its.threads or (not its.idle and time.monotonic() - its.taken_at > self.PATIENCE):
                its.threads += 1
                its.taken_at = time.monotonic()
                threading.Thread(target=self._run, args=(level,), name="ina callbacks", daemon=True).start()
            if not its.watched:
                its.watched = True
                watch = threading.Timer(self.PATIENCE, self._look_again, (level,))
                watch.daemon = True
                watch.start()

    def _look_again(self, level: int) -> None:
        self.levels[level].watched = False
        self._attend(level)

    def _run(self, level: int) -> None:
        self.here.level, its = level + 1, self.levels[level]
        while True:
            with self.growing:
                its.idle += 1
            complete = its.waiting.get()
            with self.growing:
                its.idle -= 1
                its.taken_at = time.monotonic()
            complete()


class Level:
    """Futures that are to be completed, and the threads that do it."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.threads = self.idle = 0
        self.taken_at = 0.0  # when one was taken last
        self.watched = False  # whether somebody looks at them again


callbacks = Callbacks()
