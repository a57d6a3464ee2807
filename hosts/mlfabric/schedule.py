"""The scheduler's state: what workers ask for, what is planned and under way, and what each may do next.

When an update arrives, the tickets after the last one of which a transfer has begun are planned anew. A plan says which
transfers there are, and in which order on each link; each begins when those before it on its links have ended, so one that takes
longer than planned holds up those behind it and overlaps with none. Once it is late (hosts.mlfabric.reservations.LATE) they wait
no longer. Only such a transfer, and one that is sent in its place, can overlap with another.

Each transfer to the server has a ticket, and the server applies them in that order. So plans alone decide which version an
update meets, and no late transfer can make its delay longer. When a worker dies, what it was to send is taken out of the plan,
which can only make delays shorter; what others had sent to it waits again. So does a late update, once the first copy has
come after all: the server throws that away.

The server sends the model to one worker at a time, too, or a worker that has it does (hosts.mlfabric.distribution).

Schedules of several jobs may share racks' uplinks (hosts.mlfabric.shared). Transfers then wait there for other jobs', too.

Copies of updates go to a replica of the server, which takes its place when it dies (hosts.mlfabric.replication).

Events go in and actions come out: there are no clocks, and nothing is sent.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

from inalab.hosts.mlfabric.distribution import Ahead, Distribution
from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.planner import Request, Standing, Transfer, plan
from inalab.hosts.mlfabric.replication import Replication
from inalab.hosts.mlfabric.reservations import Reservations
from inalab.hosts.mlfabric.transfers import Action, Drop, Fetch, Held, Job, Pass, Push, Replicate, Skip, What


class Schedule:
    """Of one group of workers. `bound`, `aggregate` and `draw` are the planner's; without `order` nothing waits for a link, so no
    model is passed on."""

    def __init__(
        self, fabric: Fabric, server: int, bound: int | None, order: bool = True, aggregate: bool = True, distribute: bool = True,
        replication: Replication | None = None, draw: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.fabric, self.server, self.bound, self.order, self.aggregate = fabric, server, bound, order, aggregate
        self.draw = draw
        self.distribute, self.replication, self.workers = distribute, replication, server
        self.distribution = Distribution(fabric, bound)
        self.waiting: dict[int, Request] = {}  # by worker
        self.reserved = Reservations(fabric, server + 1, order)
        self.version = 0  # of the model once everything that has a ticket is applied
        self.tickets = self.first = 0  # so far; the server's first
        self.members: dict[int, dict[int, Request]] = {}  # by ticket that the server does not have yet, then by worker
        self.uncertain: set[int] = set()  # tickets that the server was asked to skip
        self.late: dict[int, Job] = {}  # by ticket: what has not come to the server in time; its sender has no turn before it comes
        self.overdue: Counter[tuple[int, int, int]] = Counter()  # what may still come to a worker: whose update, number, to whom
        self.silent: set[int] = set()  # not heard since an update from one to another was late: neither adds another's
        self.dead: set[int] = set()
        self.apart = self.distribution.apart  # pairs of workers that cannot reach each other
        self.met: dict[int, int] = {}  # by worker: the version at which the server is to apply the update that was sent last

    # --- events; each gives what can be done then

    def request(self, worker: int, number: int, version: int, size: float, norm: float, now: float) -> list[Action]:
        """A worker has an update. ValueError for one that has another under way."""
        self.silent.discard(worker)
        planned = any((job.what, job.source) == (What.UPDATE, worker) and job.begun is None for job in self.reserved.jobs)
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
        self.silent.discard(worker)
        if any((job.what, job.destination) == (What.MODEL, worker) for job in self.reserved.jobs):
            raise ValueError(f"worker {worker} fetches the model")
        job = self.reserved.job(What.MODEL, self.server, worker, size)
        job.number, job.least = number, least
        self.reserved.add([job])
        return self._go_on(now)

    def absorbed(self, worker: int, number: int, by: int, now: float) -> list[Action]:
        """A worker's update has reached another worker, which will send it on. ValueError if it was not under way."""
        self.silent.discard(by)
        if worker in self.dead or frozenset((worker, by)) in self.apart:  # and was taken out of the plan
            return []

        def meant(job: Job) -> bool:
            it = (job.what, job.source, job.destination) == (What.UPDATE, worker, by)
            return it and self.members[job.ticket][worker].number == number

        if self.overdue[worker, number, by] and not any(job.begun is not None and meant(job) for job in self.reserved.jobs):
            self.overdue[worker, number, by] -= 1
            return []
        ended = self.reserved.ended(meant, now)
        self._await_no_longer(ended.ticket, worker)
        return self._go_on(now)

    def applied(self, ticket: int, now: float) -> list[Action]:
        """What belongs to a ticket has come to the server. ValueError if it was not under way."""
        if ticket in self.uncertain:  # who sent it was late, or has died since
            self.uncertain.remove(ticket)
            late = self.late.pop(ticket, None)
            sender = late.source if late else self.server
        else:
            job = self.reserved.ended(lambda job: job.ticket == ticket and job.destination == self.server, now)
            sender = job.source
            if job.begun is not None:
                self.reserved.took[sender] = now - job.begun
        members = self.members.pop(ticket).values()
        if self.replication:
            norm = sum(request.norm for request in members)
            self.replication.came(ticket, sender, len(members), norm, max(request.size for request in members))
        return self._go_on(now)

    def fetched(self, worker: int, number: int, version: int, now: float) -> list[Action]:
        """A worker has the model. ValueError if it was not under way."""
        self.reserved.ended(lambda job: (job.what, job.destination, job.number) == (What.MODEL, worker, number), now)
        self.distribution.models[worker] = version
        return self._go_on(now)

    def held(self, number: int, now: float) -> list[Action]:
        """The replica has a copy. ValueError if there is no replica, or the copy was not under way."""
        if self.replication is None:
            raise ValueError(f"copy {number} without a replica")
        if number:
            self.reserved.ended(lambda job: (job.what, job.number) == (What.COPY, number), now)
        return [Held(self.replication.held(number)), *self._go_on(now)]

    def gone(self, worker: int, now: float) -> list[Action]:
        """A worker has died."""
        actions: list[Action] = []
        self.dead.add(worker)
        self.waiting.pop(worker, None)
        self.distribution.models.pop(worker, None)
        self.apart -= {pair for pair in self.apart if worker in pair}
        self.late = {ticket: job for ticket, job in self.late.items() if job.source != worker}
        for job in [job for job in self.reserved.jobs if job.source == worker]:
            if job.what is What.MODEL or (job.what is What.COPY and job.number):
                self.reserved.send_from(job, self.server, again=True)
                continue
            if job.what is What.UPDATE and job.destination != self.server:
                self._take_out(job)
                continue
            self.reserved.jobs.remove(job)
            if job.what is What.UPDATE:
                actions.append(self._skip(job.ticket))
                for other in [j for j in self.reserved.jobs if (j.what, j.destination) == (What.UPDATE, worker)]:
                    self.reserved.jobs.remove(other)
                    self._take_back(job.ticket, other.source)
        self.reserved.jobs = [job for job in self.reserved.jobs if worker not in job.pair]
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
        for job in [job for job in self.reserved.jobs if job.pair == pair]:
            if job.what is What.MODEL:
                self.reserved.send_from(job, self.server, again=True)
            else:
                self._take_out(job)
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

    def came_late(self, ticket: int, now: float) -> list[Action]:
        """What belonged to a ticket has come to the server, which had skipped it."""
        if (job := self.late.pop(ticket, None)) is None:
            return []  # who sent it has died since
        assert job.begun is not None
        self.reserved.took[job.source] = now - job.begun
        return self._go_on(now)

    def wait_no_longer(self, job: Job, now: float) -> list[Action]:
        """Stop waiting for a late transfer. The server sends in place of another host; an update waits for another turn."""
        actions: list[Action] = []
        self.distribution.models.pop(job.source, None)
        if job.what is What.UPDATE and job.destination == self.server:
            self.reserved.jobs.remove(job)
            self.late[job.ticket] = job
            actions.append(self._skip(job.ticket))
        elif job.what is What.UPDATE:
            self.overdue[job.source, self.members[job.ticket][job.source].number, job.destination] += 1
            self.silent |= job.pair
            self._take_out(job)
        elif job.source == self.server:
            job.late = True  # it comes, or its destination dies
        else:
            self.reserved.send_from(job, self.server, again=True)
        return actions + self._go_on(now)

    def alone(self, now: float) -> list[Action]:
        """The server goes on without its replica."""
        self.replication = None
        self.reserved.jobs = [job for job in self.reserved.jobs if job.what is not What.COPY]
        return self._go_on(now)

    def take_over(self) -> None:
        """The replica takes the place of the server, which has died. Everything is to be asked for again.

        Versions go on with all updates that the dead server can have applied, as far as is known here. What it applied in its last
        moments is not among them: a worker whose model includes some of that counts it as this version, too.
        """
        assert self.replication is not None
        self.version -= sum(len(members) for members in self.members.values()) + self.replication.gated()
        self.server, self.replication = self.replication.replica, None
        self.first, self.reserved.jobs = self.tickets, []
        self.silent.clear()
        for forgotten in (self.waiting, self.members, self.uncertain, self.late, self.overdue, self.distribution.models):
            forgotten.clear()

    def go_on(self, now: float) -> list[Action]:
        """What can begin now that a transfer of another job has ended."""
        return self._begin(now)

    def busy(self) -> list[int]:
        """Hosts whose transfers are under way: who sends, or if that is a server who receives."""
        under_way = [job for job in self.reserved.jobs if job.begun is not None]
        return sorted({job.destination if job.source >= self.workers else job.source for job in under_way})

    # --- what is planned

    def _take_back(self, ticket: int, worker: int) -> None:
        """A worker's update does not come with a ticket: it waits again, unless the worker is dead."""
        request = self.members[ticket].pop(worker)
        self.version -= 1
        if worker not in self.dead:
            self.waiting[worker] = request

    def _take_out(self, job: Job) -> None:
        """An update does not come to the worker that was to send it on."""
        self.reserved.jobs.remove(job)
        self._take_back(job.ticket, job.source)
        self._await_no_longer(job.ticket, job.source)

    def _skip(self, ticket: int) -> Skip:
        self.uncertain.add(ticket)
        return Skip(ticket)

    def _await_no_longer(self, ticket: int, worker: int) -> None:
        for job in self.reserved.jobs:
            if job.ticket == ticket:
                job.awaited.discard(worker)

    def _recall(self) -> None:
        """Return the latest tickets' updates to those that wait, back to a ticket of which a transfer has begun."""
        while self.tickets and (members := self.members.get(self.tickets - 1)):
            ticket = self.tickets - 1
            jobs = [job for job in self.reserved.jobs if job.ticket == ticket]
            if len(jobs) < len(members) or any(job.begun is not None for job in jobs):
                return
            self.reserved.jobs = [job for job in self.reserved.jobs if job not in jobs]
            for worker in list(members):
                self._take_back(ticket, worker)
            del self.members[ticket]
            self.tickets = ticket

    def _go_on(self, now: float) -> list[Action]:
        """What is dropped, and what can begin now, once all that waits is planned."""
        waits = not self._without_turn().issuperset(self.waiting)
        dropped = self._plan(now) if waits and not self.uncertain else []
        return dropped + self._begin(now)

    def _without_turn(self) -> set[int]:
        """Workers whose updates wait until something else has come."""
        return {job.source for job in self.late.values()}

    def _begin(self, now: float) -> list[Action]:
        """Begin every transfer whose links are free, and not reserved for an earlier one."""
        self._replicate()
        actions: list[Action] = []
        jobs = self.reserved.in_time()
        busy = self.reserved.busy()
        taken = set(busy)
        ahead: Ahead | None = None
        for job in jobs:
            free = not self.order or (taken | self.reserved.ahead(job)).isdisjoint(job.path)
            if free and job.turn is None:
                job.turn = now
            if job.begun is None and not job.awaited:
                if not free and self.distribute and (job.what, job.source) == (What.MODEL, self.server):
                    ahead = ahead or self.distribution.ahead(self.reserved.expected(now)[1], busy)
                    if (source := self.distribution.source(job, self.version, busy, ahead, now)) is not None:
                        self.reserved.send_from(job, source)
                        free, ahead = True, None
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
        planned = {job.source for job in self.reserved.jobs if job.what is What.COPY and not job.number}
        busy = {job.source for job in self.reserved.jobs}
        for holder in self.replication.due(coming, planned, busy):
            self.reserved.add([self.reserved.job(What.COPY, holder, self.replication.replica, self.replication.size(holder))])

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
        assert job.turn is not None
        return Push(job.source, job.destination, job.ticket, members, rate, job.turn)

    def _plan(self, now: float) -> list[Action]:
        """Plan all that waits, with what was planned last."""
        self._recall()
        without = self._without_turn()
        waiting = [self.waiting.pop(worker) for worker in list(self.waiting) if worker not in without]
        requests = [replace(request, ready=max(now, request.ready)) for request in waiting]
        network, begins = self.reserved.expected(now, self.silent)
        tail = self._not_begun()
        standing = [self._standing(job, begins[job]) for job in tail]
        before = self.version - sum(slot.members for slot in standing)
        found = plan(requests, self.server, network, before, self.bound, self.aggregate and not self.apart, standing, self.draw)
        planned = [(transfer.start, self._with(tail[number], transfer)) for number, transfer in found.joining]
        for slot in found.slots:
            request = slot.transfer.request
            direct = self.reserved.job(What.UPDATE, request.worker, self.server, request.size)
            direct.ticket = self.tickets
            self.members[self.tickets] = {request.worker: request}
            self.version += 1
            self.tickets += 1
            planned += [(transfer.start, self._with(direct, transfer)) for transfer in slot.absorbed]
            planned.append((slot.transfer.start, direct))
        self.reserved.add(job for _, job in sorted(planned, key=lambda entry: entry[0]))
        return [Drop(request.worker) for request in found.dropped]

    def _standing(self, job: Job, begins: float) -> Standing:
        members = self.members[job.ticket]
        return Standing(members[job.source], min(request.version for request in members.values()), len(members), begins)

    def _not_begun(self) -> list[Job]:
        """The last transfers to the server, in the order of their tickets, as far back as none has begun."""
        direct = {job.ticket: job for job in self.reserved.jobs if job.destination == self.server and job.begun is None}
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
        job = self.reserved.job(What.UPDATE, request.worker, direct.source, request.size)
        job.ticket = direct.ticket
        return job
