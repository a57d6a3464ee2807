"""Which transfers have links reserved, in what order, and when each is expected to end or is late."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from itertools import count

from inalab.hosts.mlfabric.fabric import Fabric, uplinks
from inalab.hosts.mlfabric.planner import Link, Network, seconds
from inalab.hosts.mlfabric.transfers import Job, What

LATE = 2.0  # seconds beyond twice the time that a transfer should take, or that its worker's last update took: then it is late


class Reservations:
    """Transfers in the order in which they use links. With `turns` each has its links to itself. Without, up to
    `hosts` transfers, one from each, may share a link.

    A transfer that is late has nothing reserved any more. Where several jobs share racks' uplinks, each job's transfers wait on
    uplinks for those of the others that were planned before.
    """

    def __init__(self, fabric: Fabric, hosts: int, turns: bool) -> None:
        self.fabric, self.hosts, self.turns = fabric, hosts, turns
        self.jobs: list[Job] = []
        self.took: dict[int, float] = {}  # by worker: seconds of its last update
        self.places = count()
        self.others: list[Reservations] = []  # of other jobs, which use the same uplinks

    def add(self, jobs: Iterable[Job]) -> None:
        """Transfers behind all that there are, also those of other jobs."""
        for job in jobs:
            job.place = next(self.places)
            self.jobs.append(job)

    def busy(self) -> set[Link]:
        """Links of transfers that are under way, and uplinks of other jobs'."""
        own = {link for job in self.in_time() if job.begun is not None for link in job.path}
        return own.union(*(uplinks(job.path) for one in self.others for job in one.in_time() if job.begun is not None))

    def ahead(self, job: Job) -> set[Link]:
        """Uplinks that are reserved for other jobs' transfers before this one."""
        before = [one for other in self.others for one in other.in_time() if one.place < job.place]
        return {link for one in before for link in uplinks(one.path)}

    def job(self, what: What, source: int, destination: int, size: float) -> Job:
        """A transfer from one host to another, by rank. It has nothing reserved yet."""
        path = self.fabric.path(source, destination)
        return Job(what, source, destination, path, size, seconds(self.fabric.rates, size, path))

    def send_from(self, job: Job, source: int, again: bool = False) -> None:
        """Let another host send it, perhaps once more."""
        job.source, job.path = source, self.fabric.path(source, job.destination)
        job.takes = seconds(self.fabric.rates, job.size, job.path)
        if again:
            job.again, job.begun = True, None

    def ended(self, meant: Callable[[Job], bool], now: float) -> Job:
        """Remove a transfer that has ended, and learn from it. ValueError where none such was under way."""
        for job in self.jobs:
            if (job.begun is not None or job.again) and meant(job):
                self.jobs.remove(job)
                if self.turns and job.begun is not None and not (job.again or job.late):
                    self.fabric.learn(job.path, job.size, now - job.begun)
                return job
        raise ValueError("what has come was not under way")

    def in_time(self) -> list[Job]:
        """All but those that are late."""
        return [job for job in self.jobs if not job.late]

    def should_have_ended(self, now: float) -> list[Job]:
        """Transfers that are late from now on."""
        share = 2 if self.turns else 2 * self.hosts
        begun = [(job, job.begun) for job in self.in_time() if job.begun is not None]
        return [job for job, begin in begun if now > begin + max(share * job.takes, 2 * self._took(job)) + LATE]

    def _took(self, job: Job) -> float:
        """A link that is slower than planned is slow for the next update, too: else that would be late, and so on for ever."""
        return self.took.get(job.source, 0.0) if job.what is What.UPDATE else 0.0

    def expected(self, now: float, alone: Container[int] = ()) -> tuple[Network, dict[Job, float]]:
        """From when on the links will be free, and when each transfer begins, as far as is known.

        A host that is `alone` is in no rack with another.
        """
        free: dict[Link, float] = {}
        begins: dict[Job, float] = {}
        used = [(job, job.path) for job in self.in_time()]
        used += [(job, uplinks(job.path)) for other in self.others for job in other.in_time() if uplinks(job.path)]
        for job, path in sorted(used, key=lambda entry: entry[0].place):
            begins[job] = max(now, *(free.get(link, 0.0) for link in path)) if job.begun is None else job.begun
            for link in path:
                free[link] = max(now, begins[job] + job.takes)
        begins = {job: begins[job] for job in self.in_time()}

        def rack(host: int) -> Hashable:
            return ("alone", host) if host in alone else self.fabric.racks[host]

        return Network(self.fabric.path, self.fabric.rates, free, rack), begins


def share_uplinks(jobs: Sequence[Reservations]) -> None:
    """Have the transfers of several jobs take turns on racks' uplinks, in the order in which they were planned."""
    places = count()
    for one in jobs:
        one.places, one.others = places, [other for other in jobs if other is not one]
