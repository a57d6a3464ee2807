"""Time that passes only while every process waits: a simulation whose processes are ordinary code, one of which runs at a time.

Nothing depends on the machine. At one moment, what was planned first comes first.
"""

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


class StuckError(RuntimeError):
    """Every process waits, and nothing will end that."""


class Process:
    """A thread of the simulation. `turn` is its wait's number: a wake-up for an earlier wait is void."""

    def __init__(self) -> None:
        self.may_run = threading.Lock()
        self.may_run.acquire()
        self.turn = 0
        self.ended = False


class VirtualTime:
    """A clock, and the processes that live by it."""

    def __init__(self) -> None:
        self.now = START
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._all_wait = threading.Lock()
        self._all_wait.acquire()
        self._running: Process | None = None
        self._over = False
        self._error: BaseException | None = None  # the first that a process has raised

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """The process that runs waits."""
        self.wait_until(self.now + max(0.0, seconds))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call, which must not wait."""
        self.at(self.now + seconds, call, *arguments)

    def at(self, moment: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call for a moment, now at the earliest."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), call, arguments))

    def start(self, work: Callable[[], object]) -> Process:
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
                self._error = self._error or error
            process.ended = True
            self._all_wait.release()

        self.processes.append(process)
        threading.Thread(target=body, daemon=True).start()
        self.after(0.0, self._wake, process, 0)
        return process

    def wait_until(self, moment: float) -> None:
        """The process that runs waits until then, or until what `waker` gave it before is called."""
        process = self._running
        assert process is not None
        process.turn += 1
        if moment < FOR_EVER:
            self.at(moment, self._wake, process, process.turn)
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
        """Go on until then; raises what a process has raised, and StuckError where nothing more can happen."""
        while not until():
            if not self._events:
                raise StuckError("all processes wait for ever")
            moment, _, call, arguments = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            call(*arguments)
            if self._error is not None:
                raise self._error

    def end(self) -> None:
        """End all processes."""
        self._over = True
        for process in self.processes:
            if not process.ended:
                self._let_run(process)


class Event:
    """Something that a process waits for: threading.Event in virtual time."""

    def __init__(self, time: VirtualTime) -> None:
        self.time, self._set = time, False
        self._waiting: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._set

    def set(self) -> None:
        """It happens."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has happened; False after so many seconds."""
        end = FOR_EVER if timeout is None else self.time.now + timeout
        while not self._set and self.time.now < end:
            self._waiting.append(self.time.waker())
            self.time.wait_until(end)
        return self._set
