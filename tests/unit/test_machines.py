"""Machines with several GPUs: their networks, what strategies move over which link, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError
from inalab.hosts.drivers.virtual import EPOCH
from inalab.hosts.machines.inside import BETWEEN, PIECES, Machine, Stage, checked, schedule
from inalab.hosts.tcp.pairwise import ANNOUNCEMENT
from inalab.hosts.tcp.schedules import Move, Nodes, Schedule, blocks
from inalab.schemes import oracle
from inalab.schemes.byteps_machine import SCHEME
from inalab.schemes.of_machines import STRATEGIES, OfMachines, strategy_of
from inalab.switches.embedded.build import build
from inalab.testbed.campaign.identity import foreign_files
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.simulator import costs
from inalab.testbed.trial.configuration import commands_for
from inalab.testbed.trial.servers import servers_of
from inalab.testbed.virtual.frames import ETHERNET_BYTES, PROTOCOL_TCP
from inalab.testbed.virtual.trial import VirtualTrial
from inalab.topologies.plan import Hop, NetworkPlan
from tests.unit.test_virtual import virtual

RATES = {"host_rate": 1000.0, "uplink_rate": 1000.0, "costs": "none"}
SHAPES: dict[str, dict[str, Any]] = {
    "flat-machines": {}, "pcie-machines": {"pcie_rate": 1000.0}, "nvlink-machines": {"pcie_rate": 1000.0, "nvlink_rate": 5000.0},
}  # fmt: skip


NETWORK = "network"  # sums between machines, by SwitchML


def between_by(between: str) -> dict[str, Any]:
    """Settings."""
    return {"scheme": "switchml-machine"} if between == NETWORK else {"scheme": "byteps-machine", "between": between}


def made(topology: str, machines: int = 2, gpus: int = 4, **changes: Any) -> TrialSettings:
    whole = {"scheme": "byteps-machine", "topology": topology, "racks": machines, "workers": gpus, "steps": 2, "compute_ms": 5.0}
    settings: TrialSettings = make_settings(TrialSettings, whole | RATES | SHAPES[topology] | changes)
    settings.check()
    return settings


def carried(settings: TrialSettings) -> tuple[NetworkPlan, dict[Hop, float]]:
    """What each link carries for a sum, in tensors."""
    plan, found, scheme = settings.plan(), Counter[Hop](), settings.of_scheme()
    assert isinstance(scheme, OfMachines)
    for step in oracle.load(scheme.on(plan, settings.scheme_settings()), plan, 1.0):
        found.update(step)
    return plan, dict(found)


def over(plan: NetworkPlan, loads: dict[Hop, float], name: str) -> tuple[float, float]:
    """Up and down a link."""
    (number,) = [link.number for link in plan.links if link.name == name]
    return loads.get((number, True), 0.0), loads.get((number, False), 0.0)


# --- what BytePS's paper says of links (OSDI '20, section 4.2), for a tensor of size M = 1


@pytest.mark.parametrize(("machines", "gpus"), [(1, 4), (2, 4), (3, 8), (2, 2)])
def test_cpu_assisted_aggregation_carries_the_papers_traffic(machines: int, gpus: int) -> None:
    plan, loads = carried(made("pcie-machines", machines, gpus, strategy="cpu-assisted"))
    at_switch = gpus // 2
    for link in plan.links:
        if link.upper.startswith("pcie"):
            assert over(plan, loads, link.name) == pytest.approx(((2 * at_switch - 1) / at_switch,) * 2)
        elif link.lower.startswith("pcie"):
            assert over(plan, loads, link.name) == pytest.approx((1.0, 1.0))
        elif link.upper == "network":
            assert over(plan, loads, link.name) == pytest.approx((2 * (machines - 1) / machines,) * 2)


@pytest.mark.parametrize(("machines", "gpus"), [(2, 4), (2, 8)])
def test_a_local_ring_crosses_between_pcie_switches_and_its_sender_sends_once_more(machines: int, gpus: int) -> None:
    plan, loads = carried(made("pcie-machines", machines, gpus, strategy="local-ring"))
    ring = 2 * (gpus - 1) / gpus
    assert over(plan, loads, "pcie0-1-cpu0") == pytest.approx((ring, ring + 1))  # and the broadcast comes down here
    assert over(plan, loads, "pcie0-0-cpu0") == pytest.approx((ring + 2, ring + 1))  # and the sender's copies
    assert over(plan, loads, "h0-pcie0-0") == pytest.approx((ring + 2, ring + 1))
    assert over(plan, loads, f"h{gpus - 1}-pcie0-1") == pytest.approx((ring, ring + 1))


@pytest.mark.parametrize(("machines", "gpus"), [(2, 4), (3, 8)])
def test_with_nvlink_no_gpu_uses_the_network_interfaces_switch(machines: int, gpus: int) -> None:
    plan, loads = carried(made("nvlink-machines", machines, gpus, strategy="nvlink-reduce"))
    between = 2 * (machines - 1) / machines
    assert over(plan, loads, "pcie0-0-cpu0") == pytest.approx((between, between))
    assert over(plan, loads, "pcie0-1-cpu0") == pytest.approx((1.0, 1.0))
    assert over(plan, loads, "pcie0-0-network") == pytest.approx((between, between))
    assert over(plan, loads, f"gpu0-{gpus - 1}-pcie0-{gpus // 2 - 1}") == (0.0, 0.0)
    assert over(plan, loads, "gpu0-2-pcie0-1") == pytest.approx((1.0, 1.0))
    ringed, others = carried(made("nvlink-machines", machines, gpus, strategy="local-ring"))
    assert over(ringed, others, "pcie0-0-cpu0") == pytest.approx((between + 1, between + 1))


class Counting(VirtualTrial):
    """Bytes of TCP's data over each link, up and down."""

    def __init__(self, settings: TrialSettings) -> None:
        library = build(settings.running().program, {"K": str(settings.k)}, library=True)
        super().__init__(settings, 1, library, lambda message: None, costs.of(settings.costs).virtual)
        self.octets = Counter[Hop]()
        for hop, link in self.network.links.items():
            link.seen = lambda frame, hop=hop: self.octets.update({hop: _data(frame)})  # type: ignore[misc]


def _data(frame: bytes) -> int:
    if frame[23] != PROTOCOL_TCP:
        return 0
    ip = frame[ETHERNET_BYTES:]
    return int.from_bytes(ip[2:4], "big") - 20 - 4 * (ip[32] >> 4)


@pytest.mark.parametrize(
    ("topology", "strategy", "between"),
    [
        ("pcie-machines", "cpu-assisted", "services"),
        ("pcie-machines", "local-ring", "ring"),
        ("nvlink-machines", "nvlink-reduce", "services"),
        ("flat-machines", "cpu-assisted", "ring"),
        ("pcie-machines", "cpu-assisted", NETWORK),
        ("nvlink-machines", "nvlink-reduce", NETWORK),
    ],
)
def test_every_link_carries_its_formula_to_the_byte(topology: str, strategy: str, between: str) -> None:
    """The difference of a training of one step more: a sum's data, and the words that announce it to every partner."""
    octets = []
    for steps in (2, 3):
        settings = made(topology, strategy=strategy, **between_by(between), steps=steps, workload=f"tensor-{4 * PIECES * 2 * 100}")
        trial = Counting(settings)
        assert trial.run()["valid"]
        trial.time.end()
        octets.append(trial.octets)
    plan, loads = carried(settings)
    scheme = settings.of_scheme()
    assert isinstance(scheme, OfMachines)
    moves = [m for step in scheme.on(plan, settings.scheme_settings()) for m in step]
    partners = {(m.source, m.destination) for m in moves} | {(m.destination, m.source) for m in moves}
    announced = Counter[Hop]()
    for source, destination in ((a, b) for a, b in partners if a < len(plan.hosts) or b >= len(plan.hosts)):
        if any((m.source, m.destination) == (source, destination) for m in moves):
            announced.update(dict.fromkeys(plan.path(plan.everyone[source], plan.everyone[destination]), ANNOUNCEMENT.size))
    size = 4 * (4 * PIECES * 2 * 100)
    for hop in trial.network.links:
        assert octets[1][hop] - octets[0][hop] == round(loads.get(hop, 0.0) * size) + announced[hop], plan.links[hop[0]].name


@pytest.mark.parametrize("between", ["services", "ring"])
def test_more_machines_take_hardly_longer(between: str) -> None:
    """All services are busy at once: links between machines carry 2(n - 1)/n, and each step as much of it as any other."""
    took = [
        oracle.seconds(SCHEME.on((s := made("flat-machines", n, 2, between=between)).plan(), s.scheme_settings()), s.plan(), 1e6)
        for n in (2, 8)
    ]
    assert took[1] < 1.8 * took[0]


# --- sums


def followed(whole: Schedule, workers: int, servers: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Blocks of every node after a schedule, of workers that each give a power of a large base, so that no sum hides another."""
    count = blocks(whole)
    held = [np.full(count, 1 << 3 * w) for w in range(workers)] + [np.zeros(count, np.int64) for _ in range(servers)]
    for step in whole:
        came = [(m, held[m.source][m.block]) for m in step]
        for m, value in sorted(came, key=lambda pair: pair[0].source):
            held[m.destination][m.block] = held[m.destination][m.block] + value if m.add else value
    return held


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("machines", "gpus", "between"), [*product((1, 2, 3), (4, 6), BETWEEN)])
def test_all_gpus_end_with_every_tensor_once(strategy: str, machines: int, gpus: int, between: str) -> None:
    workers, nic = machines * gpus, 0 if strategy == "nvlink-reduce" else None
    racks = [*(w // gpus for w in range(workers)), *range(machines)]
    groups = [w % gpus * 2 // gpus for w in range(workers)]
    nodes = Nodes(workers, machines, [1.0] * len(racks), racks, groups, nic)
    held = followed(schedule(nodes, strategy_of(strategy), BETWEEN[between]), workers, machines)
    whole = sum(1 << 3 * w for w in range(workers))
    assert all((its == whole).all() for its in held[:workers])


class Script:
    """A strategy that is what it is given."""

    def __init__(self, gather: Any, spread: Any, shards: Any = 1) -> None:
        self.of = gather, spread, shards

    def shards(self, machine: Machine) -> Any:
        return self.of[2]

    def gather(self, machine: Machine, block: int, shard: int) -> Any:
        return self.of[0](machine, block)

    def spread(self, machine: Machine, block: int, shard: int) -> Any:
        return self.of[1](machine, block)


def up(machine: Machine, block: int) -> list[Stage]:
    return [[Move(gpu, machine.memory, block, True) for gpu in machine.gpus]]


def down(machine: Machine, block: int) -> list[Stage]:
    return [[Move(machine.memory, gpu, block, False) for gpu in machine.gpus]]


@pytest.mark.parametrize(
    ("strategy", "wording"),
    [
        (Script(lambda m, b: up(m, b) * 2, down), "does not give GPU 0 the sum of all: 4 of 4 lack it"),
        (Script(up, lambda m, b: [down(m, b)[0][:1]]), "does not give GPU 1 the sum of all: 2 of 4 lack it"),
        (Script(up, lambda m, b: []), "does not give GPU 0 the sum"),
        (Script(lambda m, b: [[Move(-1, 0, b, True)]], down), "has a move that cannot be"),
        (Script(lambda m, b: [[Move(0, 99, b, True)]], down), "has a move that cannot be"),
        (Script(lambda m, b: [[Move(0, 0, b, True)]], down), "has a move that cannot be"),
        (Script(lambda m, b: None, down), "the strategy cannot be followed: TypeError"),
        (Script(lambda m, b: up(m, b) * (1 + (m.memory == 5)), down), "more stages for some machines"),
        (Script(up, down, 0), "cuts a tensor into 0 shards: from 1 to 256"),
        (Script(up, down, "2"), "cuts a tensor into '2' shards"),
    ],
)
def test_a_strategy_that_gives_no_sum_is_refused(strategy: Any, wording: str) -> None:
    nodes = Nodes(4, 2, [1.0] * 6, [0, 0, 1, 1, 0, 1], [0, 1, 0, 1])
    checked(nodes, Script(up, down), BETWEEN["services"])
    with pytest.raises(ValueError, match=wording):
        checked(nodes, strategy, BETWEEN["services"])


@pytest.mark.parametrize("add", [True, False])
def test_a_strategy_that_touches_what_the_network_sums_is_refused(add: bool) -> None:
    """Blocks are pieces here, and piece b is summed in step b + 1, in which the one before it comes down."""
    nodes = Nodes(4, 2, [1.0] * 6, [0, 0, 1, 1, 0, 1], [0, 1, 0, 1])
    checked(nodes, Script(up, down), None)

    def late(machine: Machine, block: int) -> list[Stage]:
        own = Move(machine.gpus[0], machine.memory, block + 1, add)
        return [[*down(machine, block)[0], *([own] if block + 1 < PIECES else [])]]

    with pytest.raises(ValueError, match="has a move of what the network sums meanwhile"):
        checked(nodes, Script(up, late), None)


def test_a_machine_whose_memory_is_given_nothing_by_gpus_is_refused() -> None:
    nodes = Nodes(4, 2, [1.0] * 6, [0, 0, 1, 1, 0, 1], [0, 1, 0, 1])
    one = Script(lambda machine, block: [[Move(gpu, 4, block, True) for gpu in machine.gpus]], down)
    with pytest.raises(ValueError, match="has no GPU give server 1 anything"):
        checked(nodes, one, BETWEEN["services"])


def test_a_sender_is_at_another_switch_than_the_network_interface_whichever_gpus_there_are() -> None:
    strategy = strategy_of("nvlink-reduce")
    (stages,) = [strategy.gather(Machine({1: [0, 1], 2: [2, 3]}, 4, nic=1), 0, 0)]
    assert stages[-1] == [Move(2, 4, 0, True)]
    with pytest.raises(ValueError, match="all GPUs share the network interface's PCIe switch"):
        strategy.gather(Machine({0: [0, 1]}, 2, nic=0), 0, 0)


@pytest.mark.parametrize("between", ["services", NETWORK])
@pytest.mark.parametrize("given", [(["f100"], ["f101"]), (["f128"], ["f100000"]), (["f100"], ["i100"]), (["f0", "f100"], ["f100"])])
def test_machines_that_sum_different_tensors_end_in_errors(given: tuple[list[str], list[str]], between: str) -> None:
    """Servers pass on what workers announce: no GPU has to do with one of another machine."""
    network = Counting(made("pcie-machines", **between_by(between)))
    (job,) = network.admitted
    ends: list[Any] = []

    def work(rank: int, place: Any) -> None:
        try:
            collective = place.scheme.join(place, EPOCH)
            for tensor in given[rank // 4]:
                its = collective.all_reduce(np.ones(int(tensor[1:]), tensor[0]))
            ends.append(its)
        except AggregationError as error:
            ends.append(error)

    for server in servers_of(job):
        network._begin_serving(job, server)
    for rank, host in enumerate(job.plan.hosts):
        network._start(job, host, lambda place, driver, rank=rank: work(rank, place))  # type: ignore[misc]
    network.time.run(until=lambda: len(ends) == 8)
    network.time.end()
    assert len(ends) == 8 and all(isinstance(end, AggregationError) for end in ends)


def test_a_gpu_that_gives_memory_nothing_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "from inalab.hosts.tcp.schedules import Move\n\nclass One:\n    def shards(self, machine):\n        return 1\n\n"
        "    def gather(self, machine, block, shard):\n        first, *others = machine.gpus\n"
        "        return [[Move(gpu, first, block, True) for gpu in others], [Move(first, machine.memory, block, True)]]\n\n"
        "    def spread(self, machine, block, shard):\n        return [[Move(machine.memory, gpu, block, False) for gpu in machine.gpus]]\n\n"
        "STRATEGY = One()\n"
    )
    found = virtual(
        **{"scheme": "byteps-machine", "topology": "pcie-machines", "byteps-machine.strategy": str(path)}, **RATES, pcie_rate=100.0
    )
    assert found["valid"], found["problems"]


@pytest.mark.parametrize("topology", SHAPES)
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_the_networks_sums_are_exact(topology: str, loss: float) -> None:
    """Of integers, one after another, of 1 element and of many; and each GPU has the same."""
    strategy = "nvlink-reduce" if topology == "nvlink-machines" else "cpu-assisted"
    network = Counting(made(topology, 3, strategy=strategy, loss=loss, **between_by(NETWORK)))
    (job,) = network.admitted
    draw = np.random.default_rng(5)
    given = [[draw.integers(-(2**31), 2**31, n).astype(np.int32) for _ in range(12)] for n in (1, 7, 5_000, 333)]
    sums: list[list[Any]] = []

    def work(rank: int, place: Any) -> None:
        collective = place.scheme.join(place, EPOCH)
        sums.append([collective.all_reduce(tensors[rank]) for tensors in given])
        collective.close()

    for server in servers_of(job):
        network._begin_serving(job, server)
    for rank, host in enumerate(job.plan.hosts):
        network._start(job, host, lambda place, driver, rank=rank: work(rank, place))  # type: ignore[misc]
    network.time.run(until=lambda: len(sums) == 12 and not network.serving)
    network.time.end()
    for its in sums:
        for tensors, total in zip(given, its, strict=True):
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(total, sum(tensors))


def test_the_model_is_that_of_as_many_machines_but_for_rounding() -> None:
    its = {"steps": 12, "workload": "digits-mlp", "compute_ms": 50.0}
    alone = virtual(scheme="byteps", racks=1, workers=8, **RATES, **its)["metrics"]
    for topology, strategy, between in (
        ("pcie-machines", "cpu-assisted", "services"),
        ("nvlink-machines", "nvlink-reduce", "services"),
        ("pcie-machines", "local-ring", NETWORK),
    ):
        here = {"topology": topology, "strategy": strategy, **between_by(between)}
        found = virtual(racks=2, workers=4, **here, **RATES, **SHAPES[topology], **its)
        assert found["valid"], found["problems"]
        assert found["metrics"]["final_test_loss"] == pytest.approx(alone["final_test_loss"], rel=1e-4)


def test_what_is_inside_a_machine_loses_nothing() -> None:
    settings = made("nvlink-machines", strategy="nvlink-reduce", loss=0.05)
    plan = settings.plan()
    lossy = [link.name for link in plan.links if plan.loses(link.number)]
    assert lossy == ["pcie0-0-network", "pcie1-0-network"]
    commands = commands_for(settings, plan, 1)
    assert {name for name, lines in commands.items() if any("loss" in line for line in lines)} == {"network"}


def test_gpus_reach_each_other_by_nvlink_and_nobody_else() -> None:
    plan = made("nvlink-machines", strategy="nvlink-reduce").plan()

    def way(source: int, destination: int) -> list[str]:
        return [plan.links[number].name for number, _ in plan.path(plan.everyone[source], plan.everyone[destination])]

    assert way(0, 1) == ["h0-gpu0-0", "gpu0-0-nvlink0", "gpu0-1-nvlink0", "h1-gpu0-1"]
    assert way(2, 8) == ["h2-gpu0-2", "gpu0-2-pcie0-1", "pcie0-1-cpu0", "s0-cpu0"]
    assert way(2, 4)[1:4] == ["gpu0-2-pcie0-1", "pcie0-1-cpu0", "pcie0-0-cpu0"]
    assert way(8, 9) == ["s0-cpu0", "pcie0-0-cpu0", "pcie0-0-network", "pcie1-0-network", "pcie1-0-cpu1", "s1-cpu1"]


# --- what cannot be


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"topology": "racks"}, "scheme byteps-machine needs machines: set topology to flat-machines, pcie-machines"),
        ({"workers": 3}, "3 GPUs do not fill 2 PCIe switches alike: set workers to an even number"),
        ({"topology": "nvlink-machines", "workers": 2}, "2 GPUs: 2 are at each of two or more PCIe switches"),
        ({"byteps-machine.strategy": "magic"}, "choose one of cpu-assisted, local-ring, nvlink-reduce, or a file"),
        ({"byteps-machine.strategy": "./nosuch.py"}, "there is no file ./nosuch.py"),
        ({"between": "magic"}, "choose one of services, ring"),
        ({"scheme": "switchml"}, "scheme switchml adds in switches, and those inside machines only forward"),
        ({"scheme": "atp"}, "scheme atp adds in switches.*: choose one of byteps-machine, switchml-machine"),
        ({"scheme": "switchml-machine", "racks": 1}, "scheme switchml-machine adds between machines: set racks to 2 or more"),
        ({"scheme": "switchml-machine", "topology": "racks"}, "scheme switchml-machine needs machines"),
        ({"nvlink_rate": 5.0}, "topology pcie-machines has no nvlink_rate"),
        ({"pcie_rate": 0}, "pcie_rate is 0.0 Mbit/s"),
        ({"jobs": '[{"workers": 2}, {"workers": 2}]'}, "scheme byteps-machine has the machines to itself: leave jobs out"),
        ({"elastic": "yes"}, "byteps-machine"),
    ],
)
def test_machines_that_cannot_be_are_one_sentence(changes: dict[str, Any], wording: str) -> None:
    whole = {"scheme": "byteps-machine", "topology": "pcie-machines", "racks": 2, "workers": 4}
    with pytest.raises(SettingsError, match=wording) as caught:
        make_settings(TrialSettings, whole | changes).check()
    assert "\n" not in str(caught.value)


def test_a_shape_and_a_strategy_in_files(tmp_path: Path) -> None:
    shape, strategy = tmp_path / "shape.py", tmp_path / "strategy.py"
    shape.write_text(
        "from dataclasses import dataclass\nfrom inalab.topologies.pcie_machines import PcieMachines\n\n"
        '@dataclass(frozen=True)\nclass TOPOLOGY(PcieMachines):\n    """One switch has one GPU alone."""\n\n'
        "    def group(self, place):\n        return int(place > 0)\n"
    )
    strategy.write_text(
        "from inalab.hosts.tcp.schedules import Move\n\nclass All:\n    def shards(self, machine):\n        return 1\n\n"
        "    def gather(self, machine, block, shard):\n        return [[Move(gpu, machine.memory, block, True) for gpu in machine.gpus]]\n\n"
        "    def spread(self, machine, block, shard):\n        return [[Move(machine.memory, gpu, block, False) for gpu in machine.gpus]]\n\n"
        "STRATEGY = All()\n"
    )
    its = {"scheme": "byteps-machine", "topology": str(shape), "byteps-machine.strategy": str(strategy), "racks": 2, "workers": 4}
    found = virtual(**its, **RATES, pcie_rate=100.0)
    assert found["valid"], found["problems"]
    plan = make_settings(TrialSettings, its).plan()
    assert [host.home for host in plan.hosts[:4]] == ["pcie0-0", "pcie0-1", "pcie0-1", "pcie0-1"]
    trial = Trial("in files", {}, make_settings(TrialSettings, its), 1)
    assert sorted(foreign_files(trial)) == sorted([str(shape), str(strategy)])
    strategy.write_text("STRATEGY = 5")
    with pytest.raises(SettingsError, match=r"STRATEGY of .*other.py lacks shards, gather, spread"):
        make_settings(TrialSettings, its | {"byteps-machine.strategy": str(strategy.rename(tmp_path / "other.py"))}).check()
