"""Time that passes only while every process waits: a simulation whose processes are ordinary code, one of which runs at a time."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any

START = 1000.0  # seconds; not 0, so that "never" may be
FOR_EVER = float("inf")


class Ended(BaseException):
    """The simulation is over; a process that still waits ends with this."""


class Process:
    """A thread of the simulation. `turn` is its wait's number: a wake-up for an earlier wait is void."""

    def __init__(self) -> None:
        self.may_run = threading.Semaphore(0)
        self.turn = 0
        self.ended = False
        self.error: BaseException | None = None


class VirtualTime:
    """Stands for the module `time`. Same events in, same order out: at one moment, what was planned first comes first."""

    def __init__(self) -> None:
        self.now = START
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._all_wait = threading.Semaphore(0)
        self._running: Process | None = None
        self._over = False

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """The process that runs waits."""
        self.wait_until(self.now + max(0.0, seconds))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call, arguments))

    def start(self, work: Callable[[], None]) -> None:
        """A process, from now on."""
        process = Process()

        def body() -> None:
            process.may_run.acquire()
            try:
                if not self._over:
                    work()
            except Ended:
                pass
            except BaseException as error:
                process.error = error
            process.ended = True
            self._all_wait.release()

        self.processes.append(process)
        threading.Thread(target=body, daemon=True).start()
        self.after(0.0, self._wake, process, 0)

    def wait_until(self, moment: float) -> None:
        """The process that runs waits until then, or until what `waker` gave it before is called."""
        process = self._running
        assert process is not None
        process.turn += 1
        if moment < FOR_EVER:
            self.after(moment - self.now, self._wake, process, process.turn)
        self._all_wait.release()
        process.may_run.acquire()
        if self._over:
            raise Ended

    def waker(self) -> Callable[[], None]:
        """What ends the next wait of the process that runs, at once."""
        process = self._running
        assert process is not None
        turn = process.turn + 1
        return lambda: self.after(0.0, self._wake, process, turn)

    def _wake(self, process: Process, turn: int) -> None:
        if process.ended or process.turn != turn:
            return
        process.turn += 1
        self._let_run(process)

    def _let_run(self, process: Process) -> None:
        self._running = process
        process.may_run.release()
        self._all_wait.acquire()
        self._running = None

    def run(self, until: Callable[[], bool]) -> None:
        """Go on until then; raises what a process has raised. What has no event left to wait for is an error."""
        while not until():
            assert self._events, "all processes wait for ever"
            moment, _, call, arguments = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            call(*arguments)
            for error in filter(None, (process.error for process in self.processes)):
                raise error

    def end(self) -> None:
        """End all processes."""
        self._over = True
        for process in self.processes:
            if not process.ended:
                self._let_run(process)
