"""A job whose members change, as the coordinator conducts it: who is in (testbed.trial.roster), what the switches hold of that,
and the orders to the workers. It has no connection and no clock of its own.

A change takes two phases. First the switches admit the next generation, beside the one before, with another number and memory of
its own. Then the members join it, and once all have, the one before is removed. So no packet of either meets the other, and none of
the new one comes before it is admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import networkx as nx

from inalab.hosts.messages import Alive, Done, FromWorker, Halt, Halted, Hello, Join, Joined, Leave, Order, Step
from inalab.hosts.place import Place
from inalab.schemes.scheme import Admitted
from inalab.switches.control import Control
from inalab.testbed.trial.admission import Admission, AdmissionError, Admissions
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.places import place_of
from inalab.testbed.trial.roster import Generation, Roster, RosterError
from inalab.topologies.plan import NetworkPlan

HALTING = 1.5  # seconds in which a member's process has to confirm a halt
FIRST_EPOCH = 1


@dataclass
class Change:
    """From one generation to the next: why, and when each part of it was over, in seconds of the coordinator's clock."""

    generation: int
    why: str
    noticed: float  # that it is necessary
    members: tuple[int, ...] = ()
    scheme: str = ""  # by which they sum
    agreed: float = 0.0  # all have said how far they are
    installed: float = 0.0  # the switches have the new members
    joined: float = 0.0  # all have what all have
    steps: int = 0  # whose sums all have then

    def since(self, start: float) -> dict[str, object]:
        """As trials.jsonl has it: seconds since the training's start, of what has happened. A next change may come before all have
        joined."""
        kept = asdict(self)
        times = {name: kept.pop(name) for name in ("noticed", "agreed", "installed", "joined")}
        return kept | {name: round(at - start, 6) for name, at in times.items() if at}


class Processes(Protocol):
    """Of a job's workers and servers."""

    def tell(self, rank: int, order: Order) -> None:
        """Send an order to a worker. One that does not come through is of a worker that is found out to be lost."""
        ...

    def expel(self, rank: int, requested: bool = False) -> None:
        """End a worker that hangs, or that a fault on request has cut off."""
        ...

    def renew(self, ranks: Sequence[int]) -> None:
        """End the processes of these workers, and begin others from a checkpoint. Who has ended by itself is lost."""
        ...

    def serve(self, job: Admitted, epoch: int) -> None:
        """Have the servers of these members take the place of those of others."""
        ...


class Members:
    """Of one job; `fallback` is the same with a scheme that sums while switches admit no jobs. `clock` is in seconds.

    Where a change `renews` all, each member begins again, in another process and from a checkpoint.
    """

    def __init__(
        self, plan: NetworkPlan, job: Admitted, fallback: Admitted | None, controls: Mapping[str, Control],
        clock: Callable[[], float], processes: Processes, renews: bool = False,
    ) -> None:  # fmt: skip
        self.plan, self.job, self.fallback, self.clock, self.processes = plan, job, fallback, clock, processes
        self.renews = renews
        self.admissions = Admissions(plan, job, controls)
        self.away: set[str] = set()  # switches that admit no jobs,
        self.dead: set[str] = set()  # and those that nothing crosses
        self.links = nx.Graph([(link.lower, link.upper) for link in plan.links])
        self.outside: dict[int, int] = {}  # newcomers that the others cannot reach, and their steps
        self.roster = Roster.of(job.plan.size)
        self.places: dict[int, Place] = {}  # of the current generation, by rank in the job
        self.current = job  # as the current generation has it
        self.epoch = FIRST_EPOCH  # of the current generation
        self.admitted: list[Admission] = []  # the current generation's, and behind it one that is still in use
        self.joined: set[int] = set()  # members that are in the current generation
        self.done: set[int] = set()  # and have ended the training there
        self.greeted: set[int] = set()  # workers that have said hello, and were not lost
        self.changes: list[Change] = []
        self.changing: Change | None = None
        self.over = False
        self.began = 0.0  # when the training did, or is to
        self.halted_at = 0.0
        self.alive: set[int] = set()  # members whose processes have confirmed the halt
        self.ended_at = float("inf")  # when the first member had ended the training

    def begin(self, at: float) -> None:
        """All workers have said hello: the first generation trains from then on."""
        self.began = at
        self._install(self.roster.current)
        self._order(self.roster.current)

    def hear(self, message: FromWorker) -> None:
        """A worker has said something."""
        match message:
            case Hello(rank=rank) if self.over:
                self.processes.tell(rank, Leave())
            case Hello(rank=rank, steps=steps):
                self.greeted.add(rank)
                if rank in self.roster.living and self.places:
                    self.roster.hear(Halted(rank, self.roster.current.number, steps, "it has begun again"))
                elif self.places:
                    self._come(rank, steps)
            case Joined(rank, generation) if generation == self.roster.current.number:
                self._join(rank)
            case Done(rank=rank) if rank in self.joined and not self.roster.halting:
                self.done.add(rank)
                self.ended_at = min(self.ended_at, self.clock())
            case Alive(rank, generation) if generation == self.roster.current.number:
                self.alive.add(rank)
            case Step():
                self.roster.moved = True
            case Halted() if not self.renews:
                self.roster.hear(message)
            case Halted(generation=generation) if generation == self.roster.current.number:
                self.roster.change(message.text)
        self._go_on()

    def lose(self, rank: int, why: str) -> None:
        """A worker's process has ended."""
        self.greeted.discard(rank)
        self.outside.pop(rank, None)
        self.roster.lose(rank, why)
        self._go_on()

    def change(self, why: str) -> None:
        """The network, or a server, is not as it was: all begin anew with the same members."""
        self.roster.change(why)
        self._go_on()

    def switch_died(self, name: str) -> None:
        """Nothing crosses a switch any more. The part of the network goes on that has most members; of equal ones, the first."""
        self.dead.add(name)
        self.admissions.forget(name)
        part = self._part()
        for rank in sorted(rank for rank in self.roster.living if self.job.plan.hosts[rank].name not in part):
            self.processes.expel(rank, requested=True)
            self.lose(rank, f"switch {name} has died, and worker {rank} is cut off")
        coming, self.roster.coming = self.roster.coming, {}
        for rank, steps in coming.items():
            self._come(rank, steps)
        if lost := [host.name for host in self.job.plan.servers if host.name not in part]:
            raise TrialError(f"the job cannot go on: switch {name} has died, and server {lost[0]} is cut off")
        self.change(f"switch {name} has died")

    def _part(self) -> set[str]:
        """The nodes of the part of the network that goes on: of equal ones rather not that of a host alone."""
        there = self.links.subgraph(set(self.links) - self.dead)
        names = {self.job.plan.hosts[rank].name: rank for rank in self.roster.living}

        def members(part: set[str]) -> tuple[int, bool, int]:
            ranks = [names[node] for node in part if node in names]
            return len(ranks), len(part) > 1, -min(ranks, default=0)

        return max(nx.connected_components(there), key=members)

    def _come(self, rank: int, steps: int) -> None:
        """A newcomer waits, at least until the others reach it."""
        if self.job.plan.hosts[rank].name in self._part():
            self.roster.come(rank, steps)
        else:
            self.outside[rank] = steps

    def switch_lost(self, name: str) -> None:
        """A switch has restarted with nothing, and admits no jobs."""
        self.admissions.forget(name)
        self.dead.discard(name)
        waiting, self.outside = self.outside, {}
        for rank, steps in waiting.items():
            self._come(rank, steps)
        if self.job.scheme.program:
            self.away.add(name)
            self.change(f"switch {name} has restarted")

    def switch_back(self, name: str) -> None:
        """It admits jobs again."""
        if name in self.away:
            self.away.discard(name)
            self.change(f"switch {name} admits jobs again")

    def look(self) -> None:
        """Expel members that have not answered in time. To be called often, when all that was said has been heard.

        A process that is stopped confirms nothing. One that computes does, and has its patience to come to an end of that.
        """
        if self.over:
            return
        now, patience = self.clock(), self.job.settings.patience
        if not self.roster.halting and now - self.ended_at > patience:
            late = ", ".join(map(str, sorted(set(self.roster.current.members) - self.done)))
            self.change(f"worker {late} has not ended {patience:g} s after another one")
        waited = now - self.halted_at
        for rank in sorted(self.roster.awaited()):
            if waited > HALTING + (patience if rank in self.alive else 0.0):
                self.processes.expel(rank)
                self.lose(rank, f"worker {rank} hung: it did not answer for {waited:.1f} s")

    def _go_on(self) -> None:
        """Do what follows from what has happened."""
        if self.over:
            return
        if not self.roster.halting:
            if self.done >= set(self.roster.current.members):
                self._end()
            return
        if self.changing is None or self.changing.agreed:
            self.changing = Change(self.roster.current.number + 1, self.roster.halting, self.clock())
            self.halted_at, self.alive = self.changing.noticed, set()
            awaited = sorted(self.roster.awaited())
            if self.renews:
                self.greeted.difference_update(awaited)
                self.alive.update(awaited)
                self.processes.renew(awaited)
            else:
                for rank in awaited:
                    self.processes.tell(rank, Halt(self.roster.current.number, self.roster.halting))
        if self.away and self.fallback is None:
            return
        try:
            generation = self.roster.next()
        except RosterError as error:
            raise TrialError(f"the job cannot go on: {error}") from None
        if generation is None:
            return
        self.changing.agreed = self.clock()
        self.changing.members, self.changing.steps = generation.members, generation.steps
        self._install(generation)
        self.changing.scheme = self.current.scheme.name
        self.changing.installed = self.clock()
        self.changes.append(self.changing)
        self._order(generation)

    def _install(self, generation: Generation) -> None:
        """The first phase: the switches admit the generation beside the one before."""
        job = self.fallback if self.away and self.fallback is not None else self.job
        hosts = [job.plan.hosts[rank] for rank in generation.members]
        admitted = replace(job, plan=replace(job.plan, hosts=tuple(hosts), called=generation.members))
        try:
            job.scheme.check([admitted], self.plan)
        except ValueError as error:
            raise TrialError(f"the job cannot go on with workers {', '.join(map(str, generation.members))}: {error}") from None
        self._retire(1)  # one that nobody has come to join, where changes follow each other
        if job.scheme.program:
            try:
                self.admitted.insert(0, self.admissions.admit(hosts, generation.members, job.plan.servers))
            except AdmissionError as error:
                raise TrialError(f"the job's next members are not admitted: {error}") from None
            admitted = self.admitted[0].job
        self.current = admitted
        self.epoch = FIRST_EPOCH + generation.number
        self.processes.serve(admitted, self.epoch)
        places = [place_of(self.plan, admitted, host) for host in hosts]
        self.places = dict(zip(generation.members, places, strict=True))

    def _order(self, generation: Generation) -> None:
        """The second phase: the members join, and have what all are to have."""
        self.joined, self.done, self.ended_at = set(), set(), float("inf")
        g = generation
        for rank in g.members:
            place = self.places[rank].dumps()
            self.processes.tell(rank, Join(g.number, self.epoch, place, g.steps, g.source, g.behind, g.newcomers, self.began))

    def _join(self, rank: int) -> None:
        self.joined.add(rank)
        if self.joined >= set(self.roster.current.members):
            self._retire(1 if self.current.scheme.program else 0)
            if self.changing is not None and self.changing.agreed:
                self.changing.joined, self.changing = self.clock(), None

    def _retire(self, kept: int) -> None:
        """Remove all but so many of the newest from the switches."""
        while len(self.admitted) > kept:
            self.admissions.remove(self.admitted.pop())

    def _end(self) -> None:
        self.over = True
        for rank in (*self.roster.current.members, *self.roster.coming, *self.outside):
            self.processes.tell(rank, Leave())
