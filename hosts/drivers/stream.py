"""The core of a stream of chunks over an endpoint: a worker's collective, whose callers wait for their sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inalab.hosts.collective import AggregationError, Sum, Summing
from inalab.hosts.drivers.driver import Address, Driver, carry_out
from inalab.hosts.stream.stream import Absence, Question, Stream
from inalab.hosts.stream.timeline import Timeline

PULSE = 0.5  # seconds without a result after which the pulse is felt


class Control(Protocol):
    """Connections to a job's servers that lose nothing."""

    def gone(self) -> str | None:
        """Which server has left, if one has."""
        ...

    def ask(self, question: Question) -> Absence:
        """What a server says."""
        ...

    def close(self) -> None: ...


class StreamDriver(Summing):
    """Sums by a core. Not thread-safe.

    Where somebody watches over the workers there is a `pulse`: called about every half second while nothing arrives, it gives the
    reason to give up, if there is one (a worker is known to be dead).
    """

    def __init__(
        self, core: Stream, driver: Driver, local: Address, peers: list[Address], pulse: Callable[[], str | None] | None = None
    ) -> None:
        super().__init__()
        self.core, self.driver, self.pulse, self.counters = core, driver, pulse, core.counters
        self.operations = core.operations
        self.control: Control | None = None
        core.watched = pulse is not None
        self.endpoint = driver.datagrams(local, peers, core.sender, max(64, 2 * core.window), core.together, core.unnumbered)
        self.pulsed = 0.0  # when the pulse was felt

    def _start(self, started: Sum) -> None:
        self.core.start(started, self.driver.monotonic())
        self._send()

    def _advance(self, started: Sum, interrupt: int) -> None:
        """Let the core go on until a sum is over, or there is something else to do."""
        core, now = self.core, self.driver.monotonic()
        if not self.endpoint.interrupted:  # else the same silence goes on
            self.pulsed = now
            core.attended(now)
        while started.total is None:
            now = self.driver.monotonic()
            wake = core.expired(now)
            self._send()
            until = min(core.may_be_driven, now + PULSE)
            if until > now and self.endpoint.drive(core, until, interrupt):
                core.driven(self.driver.monotonic())
                self._send()
            elif self.endpoint.wait(min(wake - now, PULSE), interrupt):
                self.driver.nap(core.nap())
                self._receive()
            if self.endpoint.interrupted:
                return
            if core.heard_at > self.pulsed:
                self.pulsed = core.heard_at
                continue
            now = self.driver.monotonic()
            if started.total is None and now - self.pulsed > PULSE:
                self.pulsed = now
                if reason := self._reason():
                    core.give_up(reason, now)

    def note(self) -> Timeline:
        self.core.timeline = Timeline()
        return self.core.timeline

    def _receive(self) -> None:
        """Take in all that is there and send what it releases."""
        self.core.received(self.endpoint.receive(), self.driver.monotonic())
        self._send()

    def _send(self) -> None:
        """Do what the core wants done."""
        core, sends = self.core, self.core.sends
        core.sends = []
        if sends and not carry_out(sends, self.endpoint, self.driver, core.patience, all_or_none=True):
            m = core.membership
            raise AggregationError(f"job {m.job}: the interface of worker {m.rank} takes no packets")
        if core.question is not None and self.control is not None:
            core.told(self.control.ask(core.question), self.driver.monotonic())

    def _reason(self) -> str | None:
        """Why to give up, if somebody knows a reason."""
        gone = self.control.gone() if self.control is not None else None
        return gone or (self.pulse() if self.pulse is not None else None)

    def close(self) -> None:
        """Leave the job."""
        if self.control is not None:
            self.control.close()
        self.endpoint.close()
