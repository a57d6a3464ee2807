"""A script's process in virtual time (`inalab launch --target virtual`): what it requests of the simulation, and waits for.

Its collectives over the scheme take place in the simulation, and each is over when its call returns. What a script computes takes
no virtual time, unless it says how much (hosts.training.pace), and neither does what Gloo carries. The processes meet in the
simulation before a call of Gloo's: none of them waits for one that waits for time to pass.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed import distributed_c10d

from inalab.hosts.collective import UNNAMED, AggregationError, Counters, Label, Operation, Sum
from inalab.hosts.drivers.sockets import SocketDriver
from inalab.hosts.in_turn import COLLECTIVE, keep, reporting, values_of
from inalab.hosts.pending import PendingSum
from inalab.hosts.sampling import ScriptSampling


@dataclass(frozen=True)
class Summand:
    """This worker's part of a collective over the scheme."""

    values: NDArray[Any]
    label: Label
    operation: Operation


@dataclass(frozen=True)
class Pause:
    """Time passes for this worker until then."""

    until: float


@dataclass(frozen=True)
class Meeting:
    """A call of Gloo's by the workers of these ranks; the answer comes once all of them have come to it."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """A tensor that Gloo carries from one worker to another, by their ranks; the one who asks is one of them.

    Of one that is `waited` for, and was announced before, the answer comes once the other one has announced it, too: Gloo sends
    when somebody receives.
    """

    source: int
    to: int
    waited: bool = False


Request = Summand | Pause | Meeting | Message


@dataclass(frozen=True)
class Answer:
    """When it is now, and what has become of a collective: the sum, or what was wrong, and the worker's counters so far."""

    now: float
    total: NDArray[Any] | None = None
    version: float = 0.0
    counters: Counters = field(default_factory=Counters)
    error: AggregationError | None = None


class Simulation:
    """The simulation, as a worker's process sees it."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.turn = connection, threading.Lock()
        self.now = 0.0

    def ask(self, request: Request) -> Answer:
        """Wait for the answer. Raises AggregationError for a collective that cannot be completed."""
        try:
            with self.turn:
                self.connection.send(request)
                answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            raise AggregationError("the simulation has ended", incomplete=True) from None
        self.now = answer.now
        if answer.error is not None:
            raise answer.error
        return answer


class ScriptDriver(SocketDriver):
    """What a script's process runs on, as far as time goes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def monotonic(self) -> float:
        return self.simulation.now

    def sleep(self, seconds: Any) -> None:
        self.simulation.ask(Pause(self.simulation.now + seconds))


class PendingMessage(dist.Work):
    """A tensor under way from one worker to another."""

    def __init__(self, work: dist.Work, simulation: Simulation, source: int, to: int) -> None:
        super().__init__()
        self.work, self.simulation, self.source, self.to = work, simulation, source, to

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it has come, or has left; 0 is for as long as it takes."""
        self.simulation.ask(Message(self.source, self.to, waited=True))
        return self.work.wait(timeout) if timeout else self.work.wait()

    def is_completed(self) -> bool:
        return self.work.is_completed()


class SimulatedSums:
    """A worker's sums in the simulation, one after another: what hosts.in_turn.InTurn and its collective are elsewhere."""

    def __init__(self, simulation: Simulation, sampling: ScriptSampling | None) -> None:
        self.simulation, self.sampling = simulation, sampling
        self.driver = ScriptDriver(simulation)
        self.under_way: list[tuple[PendingSum, Sum]] = []
        self.counters = Counters()

    def begin(self) -> None:
        """There is nothing to begin."""

    def sum(self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM) -> PendingSum:
        """Sum a tensor over all workers, in its place."""
        pending = PendingSum(tensor, label, operation, self.driver)
        with reporting(pending):
            if self.sampling and operation in COLLECTIVE:
                pending.sample = self.sampling.before(tensor)
            values = values_of(tensor)
            answer = self.simulation.ask(Summand(values, label, operation))
            self.counters = answer.counters
            keep(pending, Sum(values.reshape(-1), values.shape, total=answer.total, version=answer.version))
        return pending

    def end(self, patience: float) -> None:
        """Nothing is under way."""


current: list[Simulation] = []  # of this process, where it is in virtual time


def begin(connection: Connection) -> None:
    """Have this process be one in virtual time.

    `torch.distributed.new_group` is called by all workers, and ends when all have called it, though some are in no group of this
    package's then: they meet before it, too.
    """
    simulation = Simulation(connection)
    current.append(simulation)
    new_group = dist.new_group

    @functools.wraps(new_group)
    def meet_first(*given: Any, **named: Any) -> Any:
        if dist.is_initialized():
            simulation.ask(Meeting(tuple(range(dist.get_world_size()))))
        return new_group(*given, **named)

    for module in (distributed_c10d, dist):
        setattr(module, new_group.__name__, meet_first)
