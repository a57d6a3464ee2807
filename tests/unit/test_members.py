"""A change of members on the switches, at two and three levels: both generations are admitted until all have moved, then one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inalab.hosts.collective import Counters
from inalab.hosts.messages import Alive, Done, Halt, Halted, Hello, Join, Joined, Leave, Order, Step
from inalab.hosts.place import Place
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.configuration import network_commands
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.job_run import JobRun
from inalab.testbed.trial.members import HALTING, Members
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from tests.packets import K, program
from tests.unit.test_groups import TABLES

LEVELS = {"two levels": Racks(2, 2), "three levels": Pods(4, 1, pods=2)}


class Conducted:
    """A job of four workers on switches without hosts, which say what a test has them say."""

    def __init__(self, topology: Any, slots: int = 4) -> None:
        self.plan, scheme = NetworkPlan(topology), registry.find("switchml")
        job = Admitted(JobPlan(0, tuple(self.plan.hosts)), scheme, scheme.Settings(slots=slots, k=K))
        self.switches = {name: OfflineSwitch(program()) for name in self.plan.switches}
        self.commands = network_commands(self.plan, [job], None, 1, later=True)
        for name in self.plan.switches:
            self.configure(name)
        self.now, self.orders, self.expelled = 10.0, list[tuple[int, Order]](), list[int]()
        self.members = Members(self.plan, job, None, self.switches, lambda: self.now, self)
        for rank in range(4):
            self.members.hear(Hello(0, rank, 1, ""))
        self.before = self.entries()
        self.members.begin(10.0)
        self.taken()

    def configure(self, name: str) -> None:
        for line in self.commands[name]:
            self.switches[name].command(line)

    def restart(self, name: str) -> None:
        """A switch begins again with nothing."""
        self.switches[name].close()
        self.switches[name] = OfflineSwitch(program())
        self.configure(name)

    def tell(self, rank: int, order: Order) -> None:
        self.orders.append((rank, order))

    def expel(self, rank: int) -> None:
        self.expelled.append(rank)

    def serve(self, job: Admitted, epoch: int) -> None:
        pass

    def taken(self) -> dict[int, Order]:
        """The orders since the last look, one a worker."""
        orders, self.orders = dict(self.orders), []
        return orders

    def say(self, what: Callable[[int], Any], *ranks: int) -> None:
        for rank in ranks:
            self.members.hear(what(rank))

    def halted(self, generation: int, steps: int = 1) -> Callable[[int], Halted]:
        return lambda rank: Halted(rank, generation, steps, "it was halted")

    def entries(self) -> dict[tuple[str, str], int]:
        """Of each table of each switch."""
        dumped = {(name, table): made.command(f"table_dump {table}") for name, made in self.switches.items() for table in TABLES}
        return {where: text.count("entry") for where, text in dumped.items()}

    def jobs(self, name: str) -> int:
        """Admitted at a switch."""
        return self.entries()[name, "admission.jobs"]


@pytest.fixture(params=LEVELS)
def job(request: pytest.FixtureRequest) -> Iterator[Conducted]:
    made = Conducted(LEVELS[request.param])
    yield made
    for switch in made.switches.values():
        switch.close()


def test_both_generations_are_admitted_until_all_have_moved(job: Conducted) -> None:
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2, 3)
    first = job.entries()
    assert all(job.jobs(name) == 1 for name in job.plan.switches)
    job.members.lose(3, "worker 3 was killed")
    assert job.taken() == {rank: Halt(0, "worker 3 was killed") for rank in (0, 1, 2)} and job.entries() == first
    job.say(job.halted(0), 0, 1, 2)
    assert job.jobs("tor0") == 2
    joins = job.taken()
    places = {rank: Place.loads(order.place) for rank, order in joins.items() if isinstance(order, Join)}
    assert set(places) == {0, 1, 2} and {place.membership.size for place in places.values()} == {3}
    assert {place.membership.job for place in places.values()} == {1} and len({place.port for place in places.values()}) == 1
    job.say(lambda rank: Joined(rank, 1), 0, 1)
    assert job.jobs("tor0") == 2
    job.say(lambda rank: Joined(rank, 1), 2)
    assert job.jobs("tor0") == 1


def test_a_rack_without_workers_has_no_part(job: Conducted) -> None:
    gone = [host.rank for host in job.plan.hosts if host.rack == len(job.plan.racks) - 1]
    for rank in gone:
        job.members.lose(rank, f"worker {rank} was killed")
    left = tuple(rank for rank in range(4) if rank not in gone)
    job.say(job.halted(0), *left)
    job.say(lambda rank: Joined(rank, 1), *left)
    last = job.plan.racks[-1].name
    assert job.jobs(last) == 0 and all(number == 0 for (name, _), number in job.entries().items() if name == last)
    assert job.jobs("tor0") == 1


def test_however_often_members_change_nothing_is_left(job: Conducted) -> None:
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2, 3)
    whole = job.entries()
    for generation in range(1, 13, 2):
        job.members.lose(1, "worker 1 was killed")
        job.say(job.halted(generation - 1, generation), 0, 2, 3)
        job.say(lambda rank, of=generation: Joined(rank, of), 0, 2, 3)  # type: ignore[misc]
        job.members.hear(Hello(0, 1, 1, ""))
        job.say(job.halted(generation, generation), 0, 2, 3)
        job.say(lambda rank, of=generation + 1: Joined(rank, of), 0, 1, 2, 3)  # type: ignore[misc]
        assert job.entries() == whole
    job.say(lambda rank: Done(rank, "", Counters(), []), 0, 1, 2, 3)
    assert job.members.over and job.taken() == {rank: Leave() for rank in range(4)}


def test_changes_that_follow_each_other_need_memory_for_two(job: Conducted) -> None:
    """Members are lost before the generation before has been joined by all."""
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2, 3)
    job.members.lose(3, "worker 3 was killed")
    job.say(job.halted(0), 0, 1, 2)
    job.say(lambda rank: Joined(rank, 1), 0)
    job.members.lose(2, "worker 2 was killed")
    job.say(job.halted(1), 0, 1)
    assert job.jobs("tor0") == 2
    job.say(lambda rank: Joined(rank, 2), 0, 1)
    assert job.jobs("tor0") == 1


@pytest.mark.parametrize("name", ["tor0", "root"])
def test_a_switch_that_has_restarted_gets_what_the_others_have(name: str) -> None:
    job = Conducted(LEVELS["two levels"])
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2, 3)
    whole = job.entries()
    job.restart(name)
    job.members.switch_lost(name)
    job.say(job.halted(0), 0, 1, 2, 3)
    assert all(isinstance(order, Halt) for order in job.taken().values()) and job.jobs(name) == 0
    job.members.switch_back(name)
    job.say(lambda rank: Joined(rank, 1), 0, 1, 2, 3)
    assert job.entries() == whole
    for switch in job.switches.values():
        switch.close()


def test_a_process_that_confirms_nothing_is_expelled_and_one_that_computes_has_its_patience(job: Conducted) -> None:
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2)
    job.members.lose(1, "worker 1 was killed")
    job.say(job.halted(0), 0)
    job.say(lambda rank: Alive(rank, 0), 0, 3)
    job.now += HALTING + 0.1
    job.members.look()
    assert job.expelled == [2]
    job.now += job.members.job.settings.patience
    job.members.look()
    assert job.expelled == [2, 3]
    assert [change.members for change in job.members.changes] == [(0,)]


def test_who_hangs_when_all_others_have_ended_is_expelled(job: Conducted) -> None:
    job.say(lambda rank: Joined(rank, 0), 0, 1, 2, 3)
    job.say(lambda rank: Done(rank, "", Counters(), []), 0, 1, 2)
    job.now += job.members.job.settings.patience + 0.1
    job.members.look()
    assert set(job.taken()) == {0, 1, 2, 3}
    job.say(job.halted(0, 5), 0, 1, 2)
    job.now += HALTING + 0.1
    job.members.look()
    assert job.expelled == [3] and job.members.roster.current.members == (0, 1, 2)


def test_who_comes_when_all_is_over_is_told_to_leave(job: Conducted) -> None:
    job.members.lose(3, "worker 3 was killed")
    job.say(job.halted(0), 0, 1, 2)
    job.say(lambda rank: Joined(rank, 1), 0, 1, 2)
    job.say(lambda rank: Done(rank, "", Counters(), []), 0, 1, 2)
    job.taken()
    job.members.hear(Hello(0, 3, 1, ""))
    assert job.members.over and job.taken() == {3: Leave()}


def test_memory_for_one_generation_is_too_little() -> None:
    job = Conducted(LEVELS["two levels"], slots=2048)
    job.members.lose(1, "worker 1 was killed")
    with pytest.raises(TrialError, match="the job's next members are not admitted: the switches hold 1 jobs"):
        job.say(job.halted(0), 0, 2, 3)
    for switch in job.switches.values():
        switch.close()


def test_a_step_counts_as_it_was_at_last() -> None:
    """Worker 2 has told of a step that the others have begun anew when it had died."""
    run = JobRun(JobPlan(0, ()), TrialSettings(), 0.0, False)
    for number, rank, members in ((0, 2, (0, 1, 2)), (0, 0, (0, 1, 2)), (1, 2, (0, 1, 2)), (1, 0, (0, 1)), (1, 1, (0, 1))):
        times = {"begun": 0.0, "ended": 1.0, "busy": 1.0, "compute": 0.1, "padding": 0.1, "tat": 0.5}
        run.hear(Step(number=number, rank=rank, elements=1, members=members, **times))
    run.done = {rank: Done(rank, "", Counters(), []) for rank in range(3)}
    run.conclude((0, 1))
    assert [(step.number, step.rank) for step in run.steps] == [(0, 2), (0, 0), (1, 0), (1, 1)] and set(run.done) == {0, 1}
