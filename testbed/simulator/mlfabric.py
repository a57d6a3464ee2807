"""MLfabric, computed: its real scheduler (hosts.mlfabric.schedule) tells workers when and where to send their updates.

Workers, the server and the scheduler's process do as hosts.mlfabric.worker, hosts.mlfabric.server and hosts.mlfabric.scheduler, by
their names. No one dies, there is no replica, and nothing is paced: what has its links to itself takes their rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Action, Drop, Fetch, Pass, Push
from inalab.schemes.scheme import Admitted
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.simulator.traffic import Traffic
from inalab.testbed.simulator.updates import Updates

NORM = 0.0  # of an update that has no elements; only a replica would be sent updates by their norms


class ScheduledUpdates(Updates):
    """Of one job that has a scheduler."""

    def __init__(
        self, traffic: Traffic, job: Admitted, elements: int, compute: NDArray[np.float64], schedule: Schedule
    ) -> None:  # fmt: skip
        super().__init__(traffic, job, elements, compute)
        self.schedule = schedule
        self.load = TCP_OVERHEAD * self.model  # bytes on the wire
        self.fetches = [0] * self.size
        self.arrived: dict[int, tuple[int, ...]] = {}  # by ticket: whose updates have come, and are not applied yet
        self.next = 0  # ticket

    # --- a worker

    def _announce(self, worker: int) -> None:
        number, version = len(self.steps[worker]) - 1, self.steps[worker][-1].computed_on
        self._tell_scheduler(self.schedule.request, worker, number, version, self.load, NORM)

    def _grant(self, push: Push) -> None:
        """It sends its update, and what it has absorbed."""
        members, self.steps[push.worker][-1].turn = len(push.members), push.turn
        if push.destination == self.server:
            self._push(push.worker, self.server, members, self._come_with, push.ticket, push.members)
        else:
            self._push(push.worker, push.destination, members, self._absorb, push.worker, push.destination)

    def _absorb(self, worker: int, by: int) -> None:
        self._tell_scheduler(self.schedule.absorbed, worker, len(self.steps[worker]) - 1, by)

    def _ask_to_fetch(self, worker: int) -> None:
        """For a model that has its update, or if that was dropped: one newer than it was computed on."""
        step = self.steps[worker][-1]
        met = step.computed_on if step.applied_at is None else step.applied_at
        self.fetches[worker] += 1
        self._tell_scheduler(self.schedule.fetch, worker, self.fetches[worker], met + 1, self.load)

    def _fetched(self, worker: int, source: int, version: int) -> None:
        self._tell_scheduler(self.schedule.fetched, worker, self.fetches[worker], version)
        super()._fetched(worker, source, version)

    def _drop(self, worker: int) -> None:
        step = self.steps[worker][-1]
        step.turn = step.sent = None
        step.octets, step.way = 0, ""
        self._ask_to_fetch(worker)

    # --- the server

    def _come_with(self, ticket: int, members: tuple[int, ...]) -> None:
        """Updates are applied in the order of their tickets."""
        self.arrived[ticket] = members
        while self.next in self.arrived:
            its = self.arrived.pop(self.next)
            self.next += 1
            self._apply(its)
            for worker in its:
                self._tell(self.server, worker, self._ask_to_fetch, worker)
        self._tell_scheduler(self.schedule.applied, ticket)

    # --- the scheduler, on the management network

    def _tell_scheduler(self, event: Callable[..., list[Action]], *arguments: float) -> None:
        self.traffic.after(self.traffic.known.message, self._decide, event, arguments)

    def _decide(self, event: Callable[..., list[Action]], arguments: Iterable[float]) -> None:
        """What the scheduler says then."""
        if late := self.schedule.reserved.should_have_ended(self.traffic.now):
            what = f"a transfer from host {late[0].source} to host {late[0].destination}"
            raise ValueError(f"{what} is late, which is not simulated: choose target embedded")
        for action in event(*arguments, self.traffic.now):
            self.traffic.after(self.traffic.known.message, self._do, action)

    def _do(self, action: Action) -> None:
        match action:
            case Push():
                self._grant(action)
            case Fetch():
                self._tell(action.worker, self.server, self._give, action.worker)
            case Pass():
                source, to = action.worker, action.destination
                self._send(source, to, self.model, self._fetched, to, source, self.had[source])
            case Drop():
                self._drop(action.worker)
            case _:
                raise ValueError(f"the scheduler asks for what is not simulated: {action}")
