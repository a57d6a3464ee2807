"""A script's process in virtual time (`inalab launch --target virtual`): what it requests of the simulation, and waits for.

Its collectives over the scheme take place in the simulation, and each is over when its call returns. What a script computes takes
no virtual time, unless it says how much (hosts.training.pace), and neither does what Gloo carries. The processes meet in the
simulation before a collective of Gloo's, so that none waits in it for one that waits for time to pass.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray

from inalab.hosts.collective import UNNAMED, AggregationError, Counters, Label, Operation, Sum, Update
from inalab.hosts.copies import Copy
from inalab.hosts.drivers.sockets import SocketDriver
from inalab.hosts.groups import Departure, Formation, Formed
from inalab.hosts.in_turn import given, keep, reporting
from inalab.hosts.pending import Combined, Gathered, Part, PendingSum
from inalab.hosts.reductions import PLAIN, Reduction
from inalab.hosts.sampling import ScriptSampling


@dataclass(frozen=True)
class Summand:
    """This worker's part of a collective over the scheme, in a group of its own or the job's."""

    values: NDArray[Any]
    label: Label
    operation: Operation
    formation: Formation | None


@dataclass(frozen=True)
class Pause:
    """Time passes for this worker until then."""

    until: float


@dataclass(frozen=True)
class Meeting:
    """A call of Gloo's by the workers of these ranks; the answer comes once all of them have come to it."""

    ranks: tuple[int, ...]


Key = tuple[int, int, int, tuple[int, ...]]


@dataclass(frozen=True)
class Message:
    """A tensor that Gloo carries from one worker to another, by their ranks; the one who asks is one of them.

    Of one that is `waited` for, and was announced before, the answer comes once the other one has announced it, too: Gloo sends
    when somebody receives. Messages of the same `key` (source, destination, tag, group) are numbered.
    """

    key: Key
    number: int
    waited: bool = False


Request = Summand | Pause | Meeting | Message | Formation | Departure


@dataclass(frozen=True)
class Answer:
    """When it is now, and what has become of a collective: the sum, or what was wrong, and what the worker has sent since the last
    answer."""

    now: float
    total: NDArray[Any] | None = None
    version: float = 0.0
    update: Update | None = None
    counters: Counters = field(default_factory=Counters)
    error: AggregationError | None = None
    formed: Formed | None = None


class Simulation:
    """The simulation, as a worker's process sees it."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.turn = connection, threading.Lock()
        self.now = 0.0
        self.messages: Counter[Key] = Counter()

    def announce(self, source: int, to: int, tag: int, group: tuple[int, ...]) -> Message:
        """A message that Gloo is to carry."""
        key = source, to, tag, group
        self.messages[key] += 1
        self.ask(message := Message(key, self.messages[key]))
        return message

    def form(self, formation: Formation) -> Formed:
        """See hosts.groups.GroupControl."""
        answer = self.ask(formation)
        assert answer.formed is not None
        return answer.formed

    def depart(self, formation: Formation) -> None:
        """See hosts.groups.GroupControl."""
        self.ask(Departure(formation))

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

    def __init__(self, work: dist.Work, simulation: Simulation, message: Message) -> None:
        super().__init__()
        self.work, self.simulation, self.message = work, simulation, message

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it has come, or has left; 0 is for as long as it takes."""
        self.simulation.ask(replace(self.message, waited=True))
        return self.work.wait(timeout) if timeout else self.work.wait()

    def is_completed(self) -> bool:
        return self.work.is_completed()


class SimulatedSums:
    """A worker's sums in the simulation, one after another: what hosts.in_turn.InTurn and its collective are elsewhere."""

    def __init__(self, simulation: Simulation, sampling: ScriptSampling | None, formation: Formation | None) -> None:
        """They are of the job, unless a group was formed."""
        self.simulation, self.sampling, self.formation = simulation, sampling, formation
        self.driver = ScriptDriver(simulation)
        self.under_way: dict[PendingSum, Sum] = {}  # nothing, once a call has returned
        self.counters = Counters()

    def sum(
        self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM,
        reduction: Reduction | Copy = PLAIN, part: Part | Gathered | Combined | None = None,
        earlier: Sequence[PendingSum] = (),
    ) -> PendingSum:  # fmt: skip
        """Sum a tensor over all workers, in its place, or have a part of the sum."""
        pending = PendingSum(tensor, label, operation, self.driver, reduction, part)
        with reporting(pending):
            values = given(pending, self.sampling)
            answer = self.simulation.ask(Summand(values, label, operation, self.formation))
            self.counters += answer.counters
            done = Sum(values.reshape(-1), values.shape, total=answer.total, version=answer.version, update=answer.update)
            keep(pending, done)
        return pending

    def note(self) -> None:
        """The simulation keeps no timeline."""

    def end(self, patience: float) -> bool:
        """Nothing is under way."""
        return True


VARIABLE = "INALAB_VIRTUAL"  # the environment variable of processes in virtual time, and of those that they start
current: list[Simulation] = []  # of this process, where it is in virtual time


def begin(connection: Connection) -> None:
    """Have this process be one in virtual time."""
    current.append(Simulation(connection))
    os.environ[VARIABLE] = "1"
