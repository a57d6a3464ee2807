"""The scheduler's state: what workers ask for, what is planned and under way, and what each may do next.

With a new update, those of the latest tickets are planned anew, as far back as none of their transfers has begun. A plan says which
transfers there are, and in which order on each link; each begins when those before it on its links have ended, so one that takes
longer than planned holds up those behind it and overlaps with none.

Each transfer to the server has a ticket, and the server applies them in that order. So plans alone decide which version an
update meets, and no late transfer can make its delay longer. When a worker dies, what it was to send is taken out of the plan,
which can only make delays shorter; what others had sent to it waits again.

The server sends the model to one worker at a time, too. A worker that has it passes it on to others that wait for it (distribute),
while the links between them are idle. So after k transfers' time 2^k - 1 workers can have it; from the server alone k have it.

Copies of updates go to a replica of the server, which takes its place when it dies (hosts.mlfabric.replication).

Events go in and actions come out: there are no clocks, and nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hosts.mlfabric.fabric import Fabric
from hosts.mlfabric.planner import Link, Network, Request, Standing, Transfer, plan, seconds
from hosts.mlfabric.replication import Replication
from hosts.mlfabric.transfers import Action, Drop, Fetch, Held, Job, Pass, Push, Replicate, Skip, What


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
        self, fabric: Fabric, server: int, bound: int | None, order: bool = True, aggregate: bool = True, distribute: bool = True,
        replication: Replication | None = None,
    ) -> None:  # fmt: skip
        self.fabric, self.server, self.bound, self.order, self.aggregate = fabric, server, bound, order, aggregate
        self.distribute, self.replication, self.workers = distribute, replication, server
        self.models: dict[int, int] = {}  # versions, by worker that has fetched one
        self.waiting: dict[int, Request] = {}  # by worker
        self.jobs: list[Job] = []  # in the order in which they use links
        self.version = 0  # of the model once everything that has a ticket is applied
        self.tickets = self.first = 0  # so far; the server's first
        self.members: dict[int, dict[int, Request]] = {}  # by ticket that the server does not have yet, then by worker
        self.uncertain: set[int] = set()  # tickets that the server was asked to skip
        self.dead: set[int] = set()
        self.apart: set[frozenset[int]] = set()  # pairs of workers that cannot reach each other
        self.met: dict[int, int] = {}  # by worker: the version at which the server is to apply the update that was sent last

    # --- events; each gives what can be done then

    def request(self, worker: int, number: int, version: int, size: float, norm: float, now: float) -> list[Action]:
        """A worker has an update. ValueError for one that has another under way."""
        planned = any((job.what, job.source) == (What.UPDATE, worker) and job.begun is None for job in self.jobs)
        if worker in self.waiting or planned:
            raise ValueError(f"worker {worker} has an update that waits")
        if version > self.version or not 0 < size < math.inf or not norm >= 0:
            raise ValueError(f"an update of {size:g} bytes and norm {norm:g}, computed on version {version}")
        self.waiting[worker] = Request(worker, number, version, size, norm, now)
        return self._go_on(now)

    def fetch(self, worker: int, number: int, least: int, size: float, now: float) -> list[Action]:
        """A worker wants the model: the server's, or another worker's of version `least` or later.

        ValueError if it fetches already.
        """
        if any((job.what, job.destination) == (What.MODEL, worker) for job in self.jobs):
            raise ValueError(f"worker {worker} fetches the model")
        job = self._job(What.MODEL, self.server, worker, size)
        job.number, job.least = number, least
        self.jobs.append(job)
        return self._go_on(now)

    def absorbed(self, worker: int, by: int, now: float) -> list[Action]:
        """A worker's update has reached another worker, which will send it on. ValueError if it was not under way."""
        if worker in self.dead or frozenset((worker, by)) in self.apart:  # and was taken out of the plan
            return []
        ended = self._ended(lambda job: (job.what, job.source, job.destination) == (What.UPDATE, worker, by), now)
        self._await_no_longer(ended.ticket, worker)
        return self._go_on(now)

    def applied(self, ticket: int, now: float) -> list[Action]:
        """What belongs to a ticket has come to the server. ValueError if it was not under way."""
        sender = self.server
        if ticket in self.uncertain:  # who sent it has died since
            self.uncertain.remove(ticket)
        else:
            sender = self._ended(lambda job: job.ticket == ticket and job.destination == self.server, now).source
        members = self.members.pop(ticket).values()
        if self.replication:
            norm = sum(request.norm for request in members)
            self.replication.came(ticket, sender, len(members), norm, max(request.size for request in members))
        return self._go_on(now)

    def fetched(self, worker: int, number: int, version: int, now: float) -> list[Action]:
        """A worker has the model. ValueError if it was not under way."""
        self._ended(lambda job: (job.what, job.destination, job.number) == (What.MODEL, worker, number), now)
        self.models[worker] = version
        return self._go_on(now)

    def held(self, number: int, now: float) -> list[Action]:
        """The replica has a copy. ValueError if there is no replica, or the copy was not under way."""
        if self.replication is None:
            raise ValueError(f"copy {number} without a replica")
        if number:
            self._ended(lambda job: (job.what, job.number) == (What.COPY, number), now)
        return [Held(self.replication.held(number)), *self._go_on(now)]

    def gone(self, worker: int, now: float) -> list[Action]:
        """A worker has died."""
        actions: list[Action] = []
        self.dead.add(worker)
        self.waiting.pop(worker, None)
        self.models.pop(worker, None)
        self.apart = {pair for pair in self.apart if worker not in pair}
        for job in [job for job in self.jobs if job.source == worker]:
            if job.what is What.MODEL or (job.what is What.COPY and job.number):
                self._send_again(job)
                continue
            self.jobs.remove(job)
            if job.what is What.COPY:
                continue
            if job.destination == self.server:
                actions.append(Skip(job.ticket))
                self.uncertain.add(job.ticket)
                for other in [j for j in self.jobs if (j.what, j.destination) == (What.UPDATE, worker)]:
                    self.jobs.remove(other)
                    self._take_back(job.ticket, other.source)
            else:
                self._take_back(job.ticket, worker)
                self._await_no_longer(job.ticket, worker)
        self.jobs = [job for job in self.jobs if worker not in job.pair]
        if self.replication:
            self.replication.gone(worker)
        return actions + self._go_on(now)

    def part(self, worker: int, other: int, now: float) -> list[Action]:
        """A worker cannot reach another, which may have died. Updates between them go to the server; models come from it.

        As long as both live, no update is planned to be added on the way. ValueError for what is no other worker.
        """
        if worker == other or not max(worker, other) < self.workers:
            raise ValueError(f"worker {worker} apart from {other}")
        if other in self.dead:
            return []
        pair = frozenset((worker, other))
        self.apart.add(pair)
        for job in [job for job in self.jobs if job.pair == pair]:
            if job.what is What.MODEL:
                self._send_again(job)
            else:
                self.jobs.remove(job)
                self._take_back(job.ticket, job.source)
                self._await_no_longer(job.ticket, job.source)
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

    def alone(self, now: float) -> list[Action]:
        """The server goes on without its replica."""
        self.replication = None
        self.jobs = [job for job in self.jobs if job.what is not What.COPY]
        return self._go_on(now)

    def take_over(self) -> None:
        """The replica takes the place of the server, which has died. Everything is to be asked for again.

        Versions go on with all updates that the dead server can have applied, as far as is known here. What it applied in its last
        moments is not among them: who has fetched a model with that in it counts it as the version with which they go on.
        """
        assert self.replication is not None
        self.version -= sum(len(members) for members in self.members.values()) + self.replication.gated()
        self.server, self.replication = self.replication.replica, None
        self.first, self.jobs = self.tickets, []
        for forgotten in (self.waiting, self.members, self.uncertain, self.models):
            forgotten.clear()

    def busy(self) -> list[int]:
        """Hosts whose transfers are under way: who sends, or if that is a server who receives."""
        under_way = [job for job in self.jobs if job.begun is not None]
        return sorted({job.destination if job.source >= self.workers else job.source for job in under_way})

    # --- what is planned

    def _job(self, what: What, source: int, destination: int, size: float) -> Job:
        path = self.fabric.path(source, destination)
        return Job(what, source, destination, path, size, seconds(self.fabric.rates, size, path))

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
        self._replicate()
        actions: list[Action] = []
        busy: set[Link] = {link for job in self.jobs if job.begun is not None for link in job.path}
        taken = set(busy)
        ahead: _Ahead | None = None
        for job in self.jobs:
            if job.begun is None and not job.awaited:
                free = not self.order or taken.isdisjoint(job.path)
                if not free and self.distribute and (job.what, job.source) == (What.MODEL, self.server):
                    ahead = ahead or self._ahead(busy, now)
                    free = self._find_source(job, busy, ahead, now)
                    ahead = None if free else ahead
                if free:
                    job.begun = now
                    busy.update(job.path)
                    actions.append(self._action(job))
            taken.update(job.path)
        return actions

    def _replicate(self) -> None:
        """Plan the copies that the replica is to be sent, behind everything else."""
        if self.replication is None:
            return
        coming = sum(request.norm for members in self.members.values() for request in members.values())
        planned = {job.source for job in self.jobs if job.what is What.COPY and not job.number}
        busy = {job.source for job in self.jobs}
        for holder in self.replication.due(coming, planned, busy):
            self.jobs.append(self._job(What.COPY, holder, self.replication.replica, self.replication.size(holder)))

    def _ahead(self, busy: set[Link], now: float) -> _Ahead:
        begins = self._expected(now)[1]
        reserved: dict[Link, float] = {}
        for job, begin in begins.items():
            if job.begun is None and job.what is not What.MODEL:
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
            if worker == job.destination or version < job.least or late or frozenset((worker, job.destination)) in self.apart:
                continue
            path = self.fabric.path(worker, job.destination)
            end = now + seconds(self.fabric.rates, job.size, path)
            planned = min(ahead.reserved.get(link, math.inf) for link in path)
            if busy.isdisjoint(path) and end < ahead.ends[job] and end <= planned:
                sooner.append((end, -version, worker))
        if sooner:
            self._send_from(job, min(sooner)[2])
        return bool(sooner)

    def _send_again(self, job: Job) -> None:
        """From the server; a model perhaps from another worker that has it then."""
        self._send_from(job, self.server)
        job.again, job.begun = True, None

    def _send_from(self, job: Job, source: int) -> None:
        job.source, job.path = source, self.fabric.path(source, job.destination)
        job.takes = seconds(self.fabric.rates, job.size, job.path)

    def _action(self, job: Job) -> Action:
        rates = [rate for link in job.path if (rate := self.fabric.given[link])]
        rate = min(rates, default=0.0) if self.order else 0.0
        match job.what:
            case What.MODEL if job.source == self.server:
                return Fetch(job.destination, job.number, rate)
            case What.MODEL:
                return Pass(job.source, job.destination, job.number, rate)
            case What.COPY:
                assert self.replication is not None
                if not job.number:
                    job.number, _ = self.replication.begin(job.source)
                return Replicate(job.source, job.destination, job.number, self.replication.copies[job.number], rate)
        members: tuple[int, ...] = (job.source,)
        if job.destination == self.server:
            members = tuple(sorted(self.members[job.ticket]))
            later = sum(len(self.members[ticket]) for ticket in self.members if ticket >= job.ticket)
            self.met |= dict.fromkeys(members, self.version - later)
        return Push(job.source, job.destination, job.ticket, members, rate)

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
            direct = self._job(What.UPDATE, request.worker, self.server, request.size)
            direct.ticket = self.tickets
            self.members[self.tickets] = {request.worker: request}
            self.version += 1
            self.tickets += 1
            planned += [(transfer.start, self._with(direct, transfer)) for transfer in slot.absorbed]
            planned.append((slot.transfer.start, direct))
        self.jobs += [job for _, job in sorted(planned, key=lambda entry: entry[0])]
        return [Drop(request.worker) for request in found.dropped]

    def _standing(self, job: Job, begins: float) -> Standing:
        members = self.members[job.ticket]
        return Standing(members[job.source], min(request.version for request in members.values()), len(members), begins)

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
        job = self._job(What.UPDATE, request.worker, direct.source, request.size)
        job.ticket = direct.ticket
        return job
