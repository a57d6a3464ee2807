"""Time that passes only while every process waits: a simulation whose processes are ordinary code, one of which runs at a time.

At one moment, what was planned first comes first.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from greenlet import greenlet

START = 1000.0  # seconds; not 0, so that "never" may be
FOR_EVER = float("inf")


class EndedError(BaseException):
    """The simulation is over; a process that still waits ends with this."""


class StuckError(RuntimeError):
    """Every process waits, and nothing will end that."""


class Process(greenlet):
    """A process of the simulation. `turn` is its wait's number: a wake-up for an earlier wait is void.

    One that is `stopped` takes no turn; what would have woken it does so when it goes on.
    """

    turn = 0
    stopped = False
    missed: Callable[[], None] | None = None


class VirtualTime:
    """A clock, and the processes that live by it. `run` is called where no process is."""

    def __init__(self) -> None:
        self.now = START
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._outside = greenlet.getcurrent()
        self._running: Process | None = None

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """The process that runs waits."""
        self.wait_until(self.now + max(0.0, seconds))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call, which must not wait."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call, arguments))

    def at(self, moment: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call for a moment, now at the earliest."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), call, arguments))

    def start(self, work: Callable[[], object]) -> Process:
        """A process, from now on. What it raises, `run` raises."""
        process = Process(work, self._outside)
        self.processes.append(process)
        self.after(0.0, self._wake, process, 0)
        return process

    def wait_until(self, moment: float) -> None:
        """The process that runs waits until then, or until what `waker` gave it before is called."""
        process = self._running
        assert process is not None
        process.turn += 1
        if moment < FOR_EVER:
            self.at(moment, self._wake, process, process.turn)
        self._outside.switch()

    def waker(self) -> Callable[[], None]:
        """What ends the next wait of the process that runs, at once."""
        process = self._running
        assert process is not None
        turn = process.turn + 1
        return lambda: self.after(0.0, self._wake, process, turn)

    def _wake(self, process: Process, turn: int) -> None:
        if process.dead or process.turn != turn:
            return
        if process.stopped:
            process.missed = lambda: self._wake(process, turn)
            return
        process.turn += 1
        self._running = process
        process.switch()
        self._running = None

    def run(self, until: Callable[[], bool]) -> None:
        """Go on until then; raises what a process has raised, and StuckError where nothing more can happen."""
        events = self._events
        while not until():
            if not events:
                raise StuckError("all processes wait for ever")
            moment, _, call, arguments = heapq.heappop(events)
            self.now = max(self.now, moment)
            call(*arguments)

    def go_on(self, process: Process) -> None:
        """A process that was stopped takes its turns again."""
        process.stopped = False
        if (missed := process.missed) is not None:
            process.missed = None
            self.after(0.0, missed)

    def kill(self, process: Process) -> None:
        """End a process that waits."""
        if not process.dead:
            self._running = process
            with suppress(EndedError):
                process.throw(EndedError)
            self._running = None

    def end(self) -> None:
        """End all processes."""
        for process in self.processes:
            self.kill(process)


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
