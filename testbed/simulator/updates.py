"""Asynchronous training, computed: workers send updates to the host that holds the model, and fetch the model behind each.

hosts.training.asynchronous, hosts.updates.worker and hosts.updates.server, by their names. An update has no elements here, so no
norm, and the model is its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts import messages
from inalab.hosts.collective import Update, node_name
from inalab.hosts.updates.wire import MEMBER
from inalab.schemes.scheme import Admitted
from inalab.testbed.simulator.traffic import Traffic, nobody_waits

ELEMENT = 4  # bytes


@dataclass
class Step:
    """A worker's step, as hosts.training.asynchronous and hosts.collective.Update have it. Times are in seconds."""

    begun: float
    computed_on: int  # the version that the worker had
    requested: float = 0.0
    turn: float | None = None  # from when on it had the links to itself, where that is scheduled
    sent: float | None = None
    octets: int = 0
    way: str = ""
    applied_at: int | None = None
    applied: float | None = None
    ended: float = 0.0
    version: int = 0  # of the model that was fetched
    fetched_from: str = ""

    @property
    def delay(self) -> int | None:
        """How many updates of others came between; None where it was dropped."""
        return None if self.applied_at is None else self.applied_at - self.computed_on

    def update(self) -> Update:
        """What became of it; without norms."""
        names = "computed_on", "applied_at", "octets", "requested", "turn", "sent", "applied", "way", "fetched_from"
        return Update(norm=None, **{name: getattr(self, name) for name in names})


class Updates:
    """Of one job: its workers, and its server, which is behind them. Workers begin once all have the first model.

    `compute` are seconds, (workers, steps); `staleness` is hosts.updates.server.ModelServer's.
    """

    def __init__(
        self, traffic: Traffic, job: Admitted, elements: int, compute: NDArray[np.float64],
        staleness: int | None = None,
    ) -> None:  # fmt: skip
        self.traffic, self.compute, self.staleness = traffic, compute, staleness
        self.size, self.server = job.plan.size, job.plan.size
        hosts = traffic.plan.everyone
        self.hosts = [hosts.index(host) for host in job.plan.everyone]  # by rank
        self.model = ELEMENT * elements  # bytes
        self.steps: list[list[Step]] = [[] for _ in range(self.size)]
        self.version = 0  # of the model
        self.had = [0] * self.size  # versions, by worker
        self.clocks = [0] * self.size  # updates applied, by worker
        self.fetching: list[int] = []  # workers that want the model, in order
        self.ready = 0  # workers that have the first model

    def run(self, zero: bool) -> list[list[Step]]:
        """The steps of every worker; `zero`: the first model is zeros, which are not sent to be kept. ValueError where that would
        take too long."""
        if zero:
            self._tell(0, self.server, self._keep)
        else:
            self._send(0, self.server, self.model, self._keep)
        self.traffic.run()
        nobody_waits([w for w, own in enumerate(self.steps) if len(own) < self.compute.shape[1] or not own[-1].ended])
        return self.steps

    # --- the first model

    def _keep(self) -> None:
        for worker in range(self.size):
            self._send(self.server, worker, self.model, self._has_first)

    def _has_first(self) -> None:
        """All have the model when a sum is over that each begins when it does."""
        self.ready += 1
        if self.ready == self.size:
            for worker in range(self.size):
                self._tell(worker, self.server, self._tell, self.server, worker, self._begin, worker)

    # --- a worker

    def _begin(self, worker: int) -> None:
        """It computes its next update."""
        number = len(self.steps[worker])
        if number < self.compute.shape[1]:
            self.steps[worker].append(Step(self.traffic.now, self.had[worker]))
            self.traffic.after(float(self.compute[worker, number]), self._change, worker)

    def _change(self, worker: int) -> None:
        """It has its update."""
        self.steps[worker][-1].requested = self.traffic.now
        self._announce(worker)

    def _announce(self, worker: int) -> None:
        """Send the update, and fetch the model behind it."""
        self._push(worker, self.server, 1, self._come, worker)

    def _push(self, worker: int, destination: int, members: int, call: Any, *arguments: Any) -> None:
        """Send its update, with those of others."""
        step = self.steps[worker][-1]
        step.sent, step.octets, step.way = self.traffic.now, self.model + members * MEMBER.size, node_name(destination, self.size)
        self._send(worker, destination, step.octets, call, *arguments)

    def _fetched(self, worker: int, source: int, version: int) -> None:
        """It has the model, and goes on."""
        step = self.steps[worker][-1]
        step.ended, step.version, step.fetched_from = self.traffic.now, version, node_name(source, self.size)
        self.had[worker] = version
        self._begin(worker)

    # --- the server

    def _come(self, worker: int) -> None:
        self._apply([worker])
        self.fetching.append(worker)
        self._let_fetch()

    def _apply(self, members: Iterable[int]) -> None:
        for worker in members:
            step = self.steps[worker][-1]
            step.applied_at, step.applied = self.version, self.traffic.now
            self.clocks[worker] += 1
        self.version = sum(self.clocks)

    def _let_fetch(self) -> None:
        """Send the model to those that want it and need not wait for slower workers (hosts.updates.model.behind)."""
        slowest = min(self.clocks)
        for worker in list(self.fetching):
            if self.staleness is None or self.clocks[worker] - slowest <= self.staleness:
                self.fetching.remove(worker)
                self._give(worker)

    def _give(self, worker: int) -> None:
        self._send(self.server, worker, self.model, self._fetched, worker, self.server, self.version)

    # --- what is sent

    def _send(self, source: int, destination: int, octets: int, call: Any, *arguments: Any) -> None:
        """A message from one to another, by rank."""
        self.traffic.send(self.hosts[source], self.hosts[destination], octets, call, *arguments)

    def _tell(self, source: int, destination: int, call: Any, *arguments: Any) -> None:
        self.traffic.tell(self.hosts[source], self.hosts[destination], call, *arguments)


def records(steps: list[list[Step]], elements: int, compute: NDArray[np.float64]) -> Iterator[messages.Step]:
    """As hosts.training.asynchronous makes them, without what only training tells."""
    for rank, own in enumerate(steps):
        for number, step in enumerate(own):
            busy = float(compute[rank, number])
            yield messages.Step(
                number=number, rank=rank, begun=step.begun, ended=step.ended, busy=busy, compute=busy, padding=0.0,
                tat=step.ended - step.requested, elements=elements, version=step.version, delay=step.delay, update=step.update(),
            )  # fmt: skip
