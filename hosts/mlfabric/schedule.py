"""The scheduler's state: what workers ask for, what is planned and under way, and what each may do next.

With a new update, those of the latest tickets are planned anew, as far back as none of their transfers has begun. A plan says which
transfers there are, and in which order on each link; each begins when those before it on its links have ended, so one that takes
longer than planned holds up those behind it and overlaps with none.

Each transfer to the server has a ticket, and the server applies them in that order. So plans alone decide which version an
update meets, and no late transfer can make its delay longer. When a worker dies, what it was to send is taken out of the plan,
which can only make delays shorter; what others had sent to it waits again.

The server sends the model to one worker at a time, too. A worker that has it passes it on to others that wait for it (distribute),
while the links between them are idle. So after k transfers' time 2^k - 1 workers can have it; from the server alone k have it.

Events go in and actions come out: there are no clocks, and nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hosts.mlfabric.fabric import Fabric
from hosts.mlfabric.planner import Link, Network, Path, Request, Standing, Transfer, plan, seconds


@dataclass(frozen=True)
class Push:
    """A worker may send its update now."""

    worker: int
    destination: int
    ticket: int  # of the transfer to the server that it is, or becomes part of
    members: tuple[int, ...]  # workers whose updates it is to send as one
    rate: float  # bytes per second; 0 is without limit


@dataclass(frozen=True)
class Fetch:
    """A worker may fetch the model from the server now."""

    worker: int
    number: int  # of the fetch
    rate: float  # bytes per second; 0 is without limit


@dataclass(frozen=True)
class Pass:
    """A worker is to send the model that it has fetched to another, whose fetch has this number."""

    worker: int
    destination: int
    number: int
    rate: float  # bytes per second; 0 is without limit


@dataclass(frozen=True)
class Drop:
    """A worker is not to send its update."""

    worker: int


@dataclass(frozen=True)
class Skip:
    """The server is to skip a ticket, unless what belongs to it has already come."""

    ticket: int


Action = Push | Fetch | Pass | Drop | Skip


@dataclass(eq=False)
class Job:
    """A transfer that is planned, or under way: of an update, or of the model (`destination` is None)."""

    worker: int  # whose update it is, or who wants the model
    path: Path
    size: float
    takes: float  # seconds, as planned
    destination: int | None = None
    ticket: int = -1
    awaited: set[int] = field(default_factory=set)  # workers whose updates have to come before
    begun: float | None = None
    number: int = 0  # of the fetch
    least: int = 0  # version that another worker may send
    source: int = -1  # who sends the model
    again: bool = False  # the worker may have the model already, from a source that has died or been lost


@dataclass(frozen=True)
class _Ahead:
    """What is expected, as long as no transfer begins that is not planned."""

    ends: dict[Job, float]
    reserved: dict[Link, float]  # by link: when the first planned update that uses it begins
    idle: list[int]  # workers that have a model and send nothing


class Schedule:
    """Of one group of workers. `bound` and `aggregate` are the planner's; without `order` nothing waits for a link, so no model is
    passed on."""

    def __init__(
        self, fabric: Fabric, server: int, bound: int | None, order: bool = True, aggregate: bool = True, distribute: bool = True
    ) -> None:
        self.fabric, self.server, self.bound, self.order, self.aggregate = fabric, server, bound, order, aggregate
        self.distribute = distribute
        self.models: dict[int, int] = {}  # versions, by worker that has fetched one
        self.waiting: dict[int, Request] = {}  # by worker
        self.jobs: list[Job] = []  # in the order in which they use links
        self.version = 0  # of the model once everything that has a ticket is applied
        self.tickets = 0  # so far
        self.members: dict[int, dict[int, Request]] = {}  # by ticket that the server does not have yet, then by worker
        self.uncertain: set[int] = set()  # tickets that the server was asked to skip
        self.dead: set[int] = set()
        self.apart: set[frozenset[int]] = set()  # pairs of workers that cannot reach each other

    # --- events; each gives what can be done then

    def request(self, worker: int, number: int, version: int, size: float, norm: float, now: float) -> list[Action]:
        """A worker has an update. ValueError for one that has another under way."""
        planned = any(job.worker == worker and job.destination is not None and job.begun is None for job in self.jobs)
        if worker in self.waiting or planned:
            raise ValueError(f"worker {worker} has an update that waits")
        if version > self.version or not 0 < size < math.inf:
            raise ValueError(f"an update of {size:g} bytes, computed on version {version}")
        self.waiting[worker] = Request(worker, number, version, size, norm, now)
        return self._go_on(now)

    def fetch(self, worker: int, number: int, least: int, size: float, now: float) -> list[Action]:
        """A worker wants the model: the server's, or another worker's of version `least` or later.

        ValueError if it fetches already.
        """
        if any((job.worker, job.destination) == (worker, None) for job in self.jobs):
            raise ValueError(f"worker {worker} fetches the model")
        path = self.fabric.path(self.server, worker)
        self.jobs.append(self._job(path, worker, size, number=number, least=least, source=self.server))
        return self._go_on(now)

    def absorbed(self, worker: int, by: int, now: float) -> list[Action]:
        """A worker's update has reached another worker, which will send it on. ValueError if it was not under way."""
        if worker in self.dead or frozenset((worker, by)) in self.apart:  # and was taken out of the plan
            return []
        ended = self._ended(lambda job: job.worker == worker and job.destination == by, now)
        self._await_no_longer(ended.ticket, worker)
        return self._go_on(now)

    def applied(self, ticket: int, now: float) -> list[Action]:
        """What belongs to a ticket has come to the server. ValueError if it was not under way."""
        if ticket in self.uncertain:  # who sent it has died since
            self.uncertain.remove(ticket)
        else:
            self._ended(lambda job: job.ticket == ticket and job.destination == self.server, now)
        del self.members[ticket]
        return self._go_on(now)

    def fetched(self, worker: int, number: int, version: int, now: float) -> list[Action]:
        """A worker has the model. ValueError if it was not under way."""
        self._ended(lambda job: (job.worker, job.destination, job.number) == (worker, None, number), now)
        self.models[worker] = version
        return self._go_on(now)

    def gone(self, worker: int, now: float) -> list[Action]:
        """A worker has died."""
        actions: list[Action] = []
        self.dead.add(worker)
        self.waiting.pop(worker, None)
        self.models.pop(worker, None)
        self.apart = {pair for pair in self.apart if worker not in pair}
        for job in self.jobs:
            if job.source == worker:
                self._send_again(job)
        for job in [job for job in self.jobs if job.worker == worker]:
            self.jobs.remove(job)
            if job.destination == self.server:
                actions.append(Skip(job.ticket))
                self.uncertain.add(job.ticket)
                for other in [other for other in self.jobs if other.destination == worker]:
                    self.jobs.remove(other)
                    self._take_back(job.ticket, other.worker)
            elif job.destination is not None:
                self._take_back(job.ticket, worker)
                self._await_no_longer(job.ticket, worker)
        return actions + self._go_on(now)

    def part(self, worker: int, other: int, now: float) -> list[Action]:
        """A worker cannot reach another, which may have died. Updates between them go to the server; models come from it.

        As long as both live, no update is planned to be added on the way. ValueError for what is no other worker.
        """
        if worker == other or not max(worker, other) < self.server:
            raise ValueError(f"worker {worker} apart from {other}")
        if other in self.dead:
            return []
        pair = frozenset((worker, other))
        self.apart.add(pair)
        for job in [j for j in self.jobs if pair in (frozenset((j.worker, j.source)), frozenset((j.worker, j.destination)))]:
            if job.destination is None:
                self._send_again(job)
            else:
                self.jobs.remove(job)
                self._take_back(job.ticket, job.worker)
                self._await_no_longer(job.ticket, job.worker)
        return self._go_on(now)

    def skipped(self, ticket: int, now: float) -> list[Action]:
        """The server has skipped a ticket: the updates that it was for wait again. ValueError if it was not to be skipped."""
        if ticket not in self.uncertain:
            raise ValueError(f"ticket {ticket} was not to be skipped")
        self.uncertain.remove(ticket)
        for worker in list(self.members[ticket]):
            self._take_back(ticket, worker)
        del self.members[ticket]
        return self._go_on(now)

    def busy(self) -> list[int]:
        """Workers whose transfers are under way."""
        under_way = [job for job in self.jobs if job.begun is not None]
        return sorted({job.worker if job.source in (-1, self.server) else job.source for job in under_way})

    # --- what is planned

    def _job(self, path: Path, worker: int, size: float, **more: Any) -> Job:
        return Job(worker, path, size, seconds(self.fabric.rates, size, path), **more)

    def _ended(self, meant: Callable[[Job], bool], now: float) -> Job:
        """Remove a transfer that has ended, and learn from it. ValueError where none such was under way."""
        for job in self.jobs:
            if (job.begun is not None or job.again) and meant(job):
                self.jobs.remove(job)
                if self.order and job.begun is not None and not job.again:
                    self.fabric.learn(job.path, job.size, now - job.begun)
                return job
        raise ValueError("what has come was not under way")

    def _take_back(self, ticket: int, worker: int) -> None:
        """A worker's update does not come with a ticket: it waits again, unless the worker is dead."""
        request = self.members[ticket].pop(worker)
        self.version -= 1
        if worker not in self.dead:
            self.waiting[worker] = request

    def _await_no_longer(self, ticket: int, worker: int) -> None:
        for job in self.jobs:
            if job.ticket == ticket:
                job.awaited.discard(worker)

    def _recall(self) -> None:
        """Return the latest tickets' updates to those that wait, back to a ticket of which a transfer has begun."""
        while self.tickets and (members := self.members.get(self.tickets - 1)):
            ticket = self.tickets - 1
            jobs = [job for job in self.jobs if job.ticket == ticket]
            if len(jobs) < len(members) or any(job.begun is not None for job in jobs):
                return
            self.jobs = [job for job in self.jobs if job not in jobs]
            for worker in list(members):
                self._take_back(ticket, worker)
            del self.members[ticket]
            self.tickets = ticket

    def _go_on(self, now: float) -> list[Action]:
        """What is dropped, and what can begin now, once all that waits is planned."""
        dropped = self._plan(now) if self.waiting and not self.uncertain else []
        return dropped + self._begin(now)

    def _begin(self, now: float) -> list[Action]:
        """Begin every transfer whose links are free, and not reserved for an earlier one."""
        actions: list[Action] = []
        busy: set[Link] = {link for job in self.jobs if job.begun is not None for link in job.path}
        taken = set(busy)
        ahead: _Ahead | None = None
        for job in self.jobs:
            if job.begun is None and not job.awaited:
                free = not self.order or taken.isdisjoint(job.path)
                if not free and self.distribute and job.source == self.server:
                    ahead = ahead or self._ahead(busy, now)
                    free = self._find_source(job, busy, ahead, now)
                    ahead = None if free else ahead
                if free:
                    job.begun = now
                    busy.update(job.path)
                    actions.append(self._action(job))
            taken.update(job.path)
        return actions

    def _ahead(self, busy: set[Link], now: float) -> _Ahead:
        begins = self._expected(now)[1]
        reserved: dict[Link, float] = {}
        for job, begin in begins.items():
            if job.begun is None and job.source == -1:
                reserved |= {link: min(begin, reserved.get(link, math.inf)) for link in job.path}
        idle = [worker for worker in self.models if (worker, "up") not in busy]
        return _Ahead({job: begin + job.takes for job, begin in begins.items()}, reserved, idle)

    def _find_source(self, job: Job, busy: set[Link], ahead: _Ahead, now: float) -> bool:
        """Let a worker send the model instead of the server, if it comes sooner by that, and no planned update waits for it.

        Whether there is such a worker.
        """
        sooner: list[tuple[float, int, int]] = []
        for worker in ahead.idle:
            version = self.models[worker]
            late = self.bound is not None and self.version - version > self.bound  # what is computed on it would be dropped
            if worker == job.worker or version < job.least or late or frozenset((worker, job.worker)) in self.apart:
                continue
            path = self.fabric.path(worker, job.worker)
            end = now + seconds(self.fabric.rates, job.size, path)
            planned = min(ahead.reserved.get(link, math.inf) for link in path)
            if busy.isdisjoint(path) and end < ahead.ends[job] and end <= planned:
                sooner.append((end, -version, worker))
        if sooner:
            self._send_from(job, min(sooner)[2])
        return bool(sooner)

    def _send_again(self, job: Job) -> None:
        """From the server, or from another worker that has the model then."""
        self._send_from(job, self.server)
        job.again, job.begun = True, None

    def _send_from(self, job: Job, source: int) -> None:
        job.source, job.path = source, self.fabric.path(source, job.worker)
        job.takes = seconds(self.fabric.rates, job.size, job.path)

    def _action(self, job: Job) -> Action:
        rates = [rate for link in job.path if (rate := self.fabric.given[link])]
        rate = min(rates, default=0.0) if self.order else 0.0
        if job.destination is None:
            if job.source == self.server:
                return Fetch(job.worker, job.number, rate)
            return Pass(job.source, job.worker, job.number, rate)
        members = tuple(sorted(self.members[job.ticket])) if job.destination == self.server else (job.worker,)
        return Push(job.worker, job.destination, job.ticket, members, rate)

    def _expected(self, now: float) -> tuple[Network, dict[Job, float]]:
        """From when on the links will be free, and when each transfer begins, as far as is known."""
        free: dict[Link, float] = {}
        begins: dict[Job, float] = {}
        for job in self.jobs:
            begins[job] = max(now, *(free.get(link, 0.0) for link in job.path)) if job.begun is None else job.begun
            for link in job.path:
                free[link] = max(now, begins[job] + job.takes)
        return Network(self.fabric.path, self.fabric.rates, free, self.fabric.racks.__getitem__), begins

    def _plan(self, now: float) -> list[Action]:
        """Plan all that waits, with what was planned last."""
        self._recall()
        requests = [replace(request, ready=max(now, request.ready)) for request in self.waiting.values()]
        self.waiting.clear()
        network, begins = self._expected(now)
        tail = self._not_begun()
        standing = [self._standing(job, begins[job]) for job in tail]
        before = self.version - sum(slot.members for slot in standing)
        found = plan(requests, self.server, network, before, self.bound, self.aggregate and not self.apart, standing)
        planned = [(transfer.start, self._with(tail[number], transfer)) for number, transfer in found.joining]
        for slot in found.slots:
            request = slot.transfer.request
            path = self.fabric.path(request.worker, self.server)
            direct = self._job(path, request.worker, request.size, destination=self.server, ticket=self.tickets)
            self.members[self.tickets] = {request.worker: request}
            self.version += 1
            self.tickets += 1
            planned += [(transfer.start, self._with(direct, transfer)) for transfer in slot.absorbed]
            planned.append((slot.transfer.start, direct))
        self.jobs += [job for _, job in sorted(planned, key=lambda entry: entry[0])]
        return [Drop(request.worker) for request in found.dropped]

    def _standing(self, job: Job, begins: float) -> Standing:
        members = self.members[job.ticket]
        return Standing(members[job.worker], min(request.version for request in members.values()), len(members), begins)

    def _not_begun(self) -> list[Job]:
        """The last transfers to the server, in the order of their tickets, as far back as none has begun."""
        direct = {job.ticket: job for job in self.jobs if job.destination == self.server and job.begun is None}
        found: list[Job] = []
        for ticket in range(self.tickets - 1, -1, -1):
            if ticket not in direct:
                break
            found.insert(0, direct[ticket])
        return found

    def _with(self, direct: Job, transfer: Transfer) -> Job:
        """A transfer to the worker whose own is `direct`, which is to wait for it."""
        request = transfer.request
        direct.awaited.add(request.worker)
        self.members[direct.ticket][request.worker] = request
        self.version += 1
        path = self.fabric.path(request.worker, direct.worker)
        return self._job(path, request.worker, request.size, destination=direct.worker, ticket=direct.ticket)
