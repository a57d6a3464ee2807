"""Groups that scripts form of a job's workers while the network runs (hosts.groups). Switches admit each as a job of its own."""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Listener
from pathlib import Path

from inalab.hosts.collective import workers
from inalab.hosts.groups import SOCKET, Departure, Formation, Formed
from inalab.hosts.place import Place
from inalab.schemes.scheme import Admitted
from inalab.switches.control import Control
from inalab.testbed.trial.admission import Admission, AdmissionError, Admissions
from inalab.testbed.trial.places import place_of
from inalab.topologies.plan import NetworkPlan


@dataclass
class Group:
    """A group of a job's workers on the network, or why there is none."""

    ranks: tuple[int, ...]
    admission: Admission | None = None
    refusal: str = ""
    left: set[int] = field(default_factory=set)  # members, by their ranks in the group


def forms_groups(job: Admitted) -> bool:
    """Whether the switches admit groups of a job's workers, which have no servers of their own."""
    return bool(job.scheme.most_jobs(job.settings)) and not job.scheme.servers(job.settings)


class Groups:
    """The groups of a job. `controls` are of the switches, by name."""

    def __init__(
        self, plan: NetworkPlan, job: Admitted, controls: Mapping[str, Control], admissions: Admissions | None = None
    ) -> None:
        """`admissions` are those that the job is among, if it was admitted while packets flowed."""
        self.plan, self.job = plan, job
        self.admissions = admissions or Admissions(plan, job, controls, taken=[job.plan.number])
        self.groups: dict[str, Group] = {}  # by name
        self.refusal = ""  # the last, of a scheme that has groups
        self.ended: set[int] = set()  # workers that are there no more: a group with one of them would never be left by all

    def form(self, formation: Formation) -> Formed:
        """The place of a member in a group, which the first one to ask for it has admitted."""
        group = self.groups.get(formation.name)
        if group is None:
            if lost := self.ended.intersection(formation.ranks):
                return Formed(refusal=f"{workers(sorted(lost))} of them {'have' if len(lost) > 1 else 'has'} ended")
            group = self.groups[formation.name] = self._admit(formation)
        if group.ranks != formation.ranks:
            own, others = workers(sorted(formation.ranks)), workers(sorted(group.ranks))
            return Formed(refusal=f"a group of {own} has the name of one of {others}")
        if group.admission is None:
            return Formed(refusal=group.refusal)
        return Formed(self.place(formation).dumps(), group.admission.epoch)

    def place(self, formation: Formation) -> Place:
        """A member's, of a group that was admitted."""
        admission = self.groups[formation.name].admission
        assert admission is not None
        return place_of(self.plan, admission.job, admission.job.plan.hosts[formation.rank])

    def depart(self, formation: Formation) -> None:
        """Once all members have left, the group's number and memory may be another one's."""
        group = self.groups.get(formation.name)
        if group is None:
            return
        group.left.add(formation.rank)
        if len(group.left) == len(group.ranks):
            del self.groups[formation.name]
            if group.admission is not None:
                self.admissions.remove(group.admission)

    def lose(self, rank: int) -> list[int]:
        """A worker has ended, and has left all its groups. The epochs of those whose other members are still there."""
        self.ended.add(rank)
        lacking = []
        for name, group in list(self.groups.items()):
            if rank in group.ranks:
                self.depart(Formation(name, group.ranks, group.ranks.index(rank)))
                if name in self.groups and group.admission is not None:
                    lacking.append(group.admission.epoch)
        return lacking

    def come(self, rank: int) -> None:
        """A worker is there again."""
        self.ended.discard(rank)

    def _admit(self, formation: Formation) -> Group:
        group = Group(formation.ranks)
        scheme = self.job.scheme
        if not forms_groups(self.job):
            group.refusal = f"scheme {scheme.name} has no groups of its own"
            return group
        hosts = [self.job.plan.hosts[rank] for rank in formation.ranks]
        try:
            group.admission = self.admissions.admit(hosts, formation.ranks)
        except AdmissionError as error:
            group.refusal = self.refusal = str(error)
        return group


class GroupService:
    """Answers the workers' requests over a Unix socket in a folder."""

    def __init__(self, groups: Groups, folder: Path) -> None:
        self.groups, self.folder = groups, folder
        self.listener = Listener(str(folder / SOCKET), "AF_UNIX", backlog=256)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Have a selector notice requests; its key's data is this service."""
        selector.register(self.listener._listener._socket, selectors.EVENT_READ, self)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Answer no more."""
        self.listener.close()

    def answer_all(self) -> None:
        """Answer whoever waits for an answer now."""
        with selectors.DefaultSelector() as waiting:
            self.register(waiting)
            while waiting.select(0):
                self.answer()

    def answer(self) -> None:
        """Answer one request. A worker that has ended meanwhile gets none."""
        with suppress(OSError, EOFError), self.listener.accept() as connection:
            match connection.recv():
                case Formation() as formation:
                    connection.send(self.groups.form(formation))
                case Departure(formation):
                    self.groups.depart(formation)
                    connection.send(None)
