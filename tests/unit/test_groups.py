"""Groups that are admitted while switches run: their numbers, their memory, what is left of them, and who asks for them."""

from __future__ import annotations

import selectors
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inalab.hosts.groups import Departure, Formation, Formed, LaunchedGroups
from inalab.hosts.place import Place
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.control import CommandError, ControlError
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.installation import Installation
from inalab.testbed.trial.admission import FIRST_PORT
from inalab.testbed.trial.configuration import network_commands
from inalab.testbed.trial.groups import Groups, GroupService
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from tests.packets import K, program

TABLES = (
    "admission.jobs",
    "admission.workers",
    "admission.parents",
    "sender.uplinks",
    "addresser.destinations",
    "round.ownership.owners",
)


class Net:
    """The switches of two racks of two workers, with the job of all of them."""

    def __init__(self, slots: int = 4, scheme: str = "switchml") -> None:
        self.plan, chosen = NetworkPlan(Racks(2, 2)), registry.find(scheme)
        self.job = Admitted(
            JobPlan(0, tuple(self.plan.hosts)),
            chosen,
            chosen.Settings(slots=slots, k=K) if scheme == "switchml" else chosen.Settings(),
        )
        self.switches = {name: OfflineSwitch(program()) for name in self.plan.switches}
        for name, lines in network_commands(self.plan, [self.job], None, 1).items():
            for line in lines:
                self.switches[name].command(line)
        self.groups = Groups(self.plan, self.job, self.switches)

    def entries(self) -> dict[tuple[str, str], int]:
        """Of each table of each switch."""
        dumped = {(name, table): made.command(f"table_dump {table}") for name, made in self.switches.items() for table in TABLES}
        return {where: text.count("entry") for where, text in dumped.items()}


@pytest.fixture
def make() -> Iterator[Callable[..., Net]]:
    """Networks that end with the test."""
    made: list[Net] = []

    def add(**settings: Any) -> Net:
        made.append(Net(**settings))
        return made[-1]

    yield add
    for net in made:
        for switch in net.switches.values():
            switch.close()


@pytest.fixture
def net(make: Callable[..., Net]) -> Net:
    return make()


def formed(net: Net, name: str, ranks: tuple[int, ...]) -> list[Place]:
    """The places of all members of a group."""
    found = [net.groups.form(Formation(name, ranks, rank)) for rank in range(len(ranks))]
    assert len({one.epoch for one in found}) == 1 and not any(one.refusal for one in found)
    return [Place.loads(one.place) for one in found]


def leave(net: Net, name: str, ranks: tuple[int, ...]) -> None:
    for rank in range(len(ranks)):
        net.groups.depart(Formation(name, ranks, rank))


def test_members_of_a_group_have_ranks_racks_and_a_port_of_its_own(net: Net) -> None:
    places = formed(net, "a", (1, 2, 3))
    assert [(p.membership.job, p.membership.rank, p.membership.size) for p in places] == [(1, rank, 3) for rank in range(3)]
    assert places[0].membership.racks == [[0], [1, 2]]
    assert places[0].peers == [net.plan.hosts[rank].station.ip for rank in (1, 2, 3)]
    assert {p.port for p in places} == {FIRST_PORT + 1}
    assert {p.membership.job for p in formed(net, "b", (1, 2))} == {2}


def test_a_group_in_one_rack_takes_nothing_of_the_root(net: Net) -> None:
    before = net.entries()
    formed(net, "a", (2, 3))
    grown = {name for (name, table), number in net.entries().items() if number > before[name, table]}
    assert grown == {"tor1"}
    assert "sender.uplinks" not in {t for (name, t), number in net.entries().items() if number > before[name, t]}


def test_nothing_is_left_of_a_group_once_all_members_have_gone(net: Net) -> None:
    before = net.entries()
    for _ in range(3):
        formed(net, "a", (0, 1, 2, 3))
        formed(net, "b", (0, 3))
        leave(net, "b", (0, 3))
        net.groups.depart(Formation("a", (0, 1, 2, 3), 0))
        assert net.entries() != before
        leave(net, "a", (0, 1, 2, 3))  # one of them again
        assert net.entries() == before
    assert {p.membership.job for p in formed(net, "c", (0, 1))} == {1}


def test_a_worker_that_ends_has_left_its_groups_and_leaves_them_broken(net: Net) -> None:
    before = net.entries()
    epochs = {
        name: net.groups.form(Formation(name, ranks, 0)).epoch for name, ranks in {"a": (0, 1), "b": (1, 3), "c": (0, 2)}.items()
    }
    assert net.groups.lose(1) == [epochs["a"], epochs["b"]]
    net.groups.depart(Formation("a", (0, 1), 0))
    assert net.groups.lose(3) == [] and net.groups.lose(1) == []
    leave(net, "c", (0, 2))
    assert net.entries() == before
    assert net.groups.form(Formation("d", (0, 1), 0)).refusal == "worker 1 of them has ended" and net.entries() == before
    net.groups.come(1)
    assert not net.groups.form(Formation("d", (0, 1), 0)).refusal


def test_what_the_switches_cannot_hold_is_refused_on_all_members_alike(net: Net) -> None:
    for number in range(1, 16):
        formed(net, f"{number}", (0, 1))
    refused = {net.groups.form(Formation("more", (0, 1), rank)) for rank in (0, 1)}
    assert refused == {Formed(refusal="the switches hold 16 jobs and groups at once, and all are in use")}
    leave(net, "7", (0, 1))
    assert {p.membership.job for p in formed(net, "another", (2, 3))} == {7}


def test_memory_may_be_what_there_is_too_little_of(make: Callable[..., Net]) -> None:
    net = make(slots=1000)
    assert {p.membership.job for p in formed(net, "a", (0, 1))} == {1}
    assert net.groups.form(Formation("b", (0, 1), 0)).refusal == "the switches hold 2 jobs and groups at once, and all are in use"


def test_a_scheme_may_have_no_groups(make: Callable[..., Net]) -> None:
    net = make(scheme="ring")
    assert net.groups.form(Formation("a", (0, 1), 0)).refusal == "scheme ring has no groups of its own"


def test_a_switch_that_refuses_part_of_a_group_keeps_nothing_of_it(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    before, root = net.entries(), net.switches["root"]
    monkeypatch.setattr(root, "command", lambda line: (_ for _ in ()).throw(CommandError("the table is full")))
    assert net.groups.form(Formation("a", (0, 3), 0)).refusal == "the table is full"
    monkeypatch.undo()
    assert net.entries() == before


def test_a_switch_that_tells_no_handle_is_no_switch_to_install_on() -> None:
    class Silent:
        def command(self, line: str) -> str:
            return "done"

    with pytest.raises(ControlError, match="does not say which handle"):
        Installation(Silent()).add("table_add t a 1 => 2")  # type: ignore[arg-type]


def test_workers_ask_over_a_socket(net: Net, tmp_path: Path) -> None:
    service, selector = GroupService(net.groups, tmp_path), selectors.DefaultSelector()
    service.register(selector)
    found: list[Formed] = []

    def ask() -> None:
        asked = LaunchedGroups(tmp_path)
        found.append(asked.form(Formation("a", (0, 1), 1)))
        asked.depart(Formation("a", (0, 1), 1))

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(2):
        ((key, _),) = selector.select(10)
        assert key.data is service
        service.answer()
    asking.join()
    assert Place.loads(found[0].place).membership.rank == 1
    assert net.groups.groups["a"].left == {1}
    assert Departure(Formation("a", (0, 1), 1)).formation.name == "a"


def test_a_name_of_other_workers_is_refused(net: Net) -> None:
    """Such as what a script asked that has been ended since."""
    formed(net, "all", (0, 1, 2))
    refused = net.groups.form(Formation("all", (0, 1, 2, 3), 3))
    assert refused == Formed(refusal="a group of workers 0, 1, 2, 3 has the name of one of workers 0, 1, 2")
