"""Chunks that have owners: reduce-scatters, all-gathers and broadcasts by workers and the P4 program in virtual time, under loss."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Call, Collective, Label, Operation
from inalab.hosts.drivers.virtual import EPOCH, VirtualHost
from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.loss import Loss
from inalab.testbed.simulator import costs
from inalab.testbed.trial.configuration import network_commands
from inalab.testbed.trial.places import place_of
from inalab.testbed.virtual.network import VirtualNetwork
from inalab.topologies.jobs import JobPlan
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.packets import K, program
from tests.properties import examples

SLOTS = 4


@dataclass(frozen=True)
class Given:
    """A collective that all workers call, on a tensor of so many elements for each worker."""

    operation: Operation
    elements: int
    root: int = 0


@pytest.fixture(scope="module")
def library() -> Path:
    return program(K, library=True)


def tensor(call: Given, number: int, rank: int, size: int) -> NDArray[Any]:
    """What a worker gives to the program's call of this number: floats to sums, anything else to copies."""
    draw = np.random.default_rng([number, rank])
    elements = call.elements * (size if call.operation is Operation.SCATTER else 1)
    if call.operation in (Operation.SUM, Operation.REDUCE, Operation.SCATTER):
        return draw.standard_normal(elements).astype(np.float32)
    return draw.integers(-(2**31), 2**31 - 1, elements, np.int32)


def wanted(call: Given, number: int, rank: int, size: int) -> NDArray[Any] | None:
    """What a worker has to have; None for nothing."""
    all_given = [tensor(call, number, other, size) for other in range(size)]
    match call.operation:
        case Operation.GATHER:
            return np.concatenate(all_given)
        case Operation.BROADCAST:
            return all_given[call.root % size]
        case Operation.REDUCE if rank != call.root % size:
            return None
    total = np.sum(all_given, 0, dtype=np.float64)
    return total if call.operation is not Operation.SCATTER else total[rank * call.elements :][: call.elements]


class World:
    """Workers of a network in virtual time, each of which runs the same program."""

    def __init__(
        self, topology: Topology, library: Path, loss: float, seed: int, hosts: list[int] | None = None, patience: float = 20
    ) -> None:  # fmt: skip
        self.time, self.plan, scheme = VirtualTime(), NetworkPlan(topology), registry.find("switchml")
        members = tuple(self.plan.hosts[i] for i in hosts or range(len(self.plan.hosts)))
        self.job = Admitted(JobPlan(0, members), scheme, scheme.Settings(slots=SLOTS, k=K, patience=patience))
        lost = Loss(loss) if loss else None
        taken = costs.of("embedded").virtual
        self.network = VirtualNetwork(
            self.time, self.plan, library, network_commands(self.plan, [self.job], lost, seed), taken, seed
        )
        self.wrong: list[str] = []
        self.retransmissions = 0

    def run(self, calls: list[Given], own: dict[int, list[Given]] | None = None) -> None:
        """Until all have made these calls, or their `own`, two at a time under way."""
        workers = self.job.plan.hosts
        running = [
            self.time.start(partial(self._work, host, rank, (own or {}).get(rank, calls))) for rank, host in enumerate(workers)
        ]
        self.working = len(running)
        try:
            self.time.run(until=lambda: not self.working)
        finally:
            self.time.end()

    def _work(self, host: HostPlan, rank: int, calls: list[Given]) -> None:
        driver: VirtualHost = self.network.hosts[host.name]
        place = replace(place_of(self.plan, self.job, host), driver=driver)
        worker = place.scheme.join(place, EPOCH, lambda: None)
        self._joined(worker, driver, rank)
        try:
            self._call_all(worker, rank, calls)
            self.retransmissions += worker.counters.retransmissions
        except AggregationError as error:
            self.wrong.append(str(error))
        finally:
            worker.close()
            self.working -= 1

    def _joined(self, worker: Collective, driver: VirtualHost, rank: int) -> None:
        """A worker is about to begin."""

    def _call_all(self, worker: Collective, rank: int, calls: list[Given]) -> None:
        size, under_way = self.job.plan.size, []
        for number, call in enumerate(calls):
            label = Label(call=LABELS.get(call.operation, Call.ALL_REDUCE), root=call.root % size)
            under_way.append((number, call, worker.start(tensor(call, number, rank, size), True, label, None, call.operation)))
            if len(under_way) == 2:
                self._check(worker, rank, *under_way.pop(0))
        for rest in under_way:
            self._check(worker, rank, *rest)

    def _check(self, worker: Collective, rank: int, number: int, call: Given, started: Any) -> None:
        worker.advance(started)
        right = wanted(call, number, rank, self.job.plan.size)
        if right is None:
            return
        if started.total.shape != right.shape or not np.allclose(started.total, right, rtol=0, atol=1e-5, equal_nan=True):
            self.wrong.append(f"worker {rank}, {call}: {started.total[:4]} instead of {right[:4]}")


LABELS = {
    Operation.REDUCE: Call.REDUCE, Operation.SCATTER: Call.REDUCE_SCATTER, Operation.GATHER: Call.ALL_GATHER,
    Operation.BROADCAST: Call.BROADCAST,
}  # fmt: skip
TOPOLOGIES: dict[str, Topology] = {
    "rack": Racks(1, 3), "racks": Racks(2, 2), "uneven": Racks(3, 2), "spines": LeafSpine(2, 2), "pods": Pods(4, 1, pods=2),
    "one pod": Pods(4, 1, pods=2), "unlike pods": Pods(4, 2, pods=2),
}  # fmt: skip
# of the network's hosts: two in a rack, none in the next, one in the last; those of one pod; a pod, and one rack of the other
MEMBERS = {"uneven": [0, 1, 4], "one pod": [0, 1], "unlike pods": [0, 1, 2, 6]}
OPERATIONS = (Operation.SUM, *LABELS)
calls = st.builds(Given, st.sampled_from(OPERATIONS), st.sampled_from((1, 5, K, K + 1, 3 * K, 200)), st.integers(0, 7))


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("loss", [0.0, 0.02, 0.15])
def test_every_worker_has_what_is_its_own(name: str, loss: float, library: Path) -> None:
    @examples(40)
    @given(st.lists(calls, min_size=1, max_size=6), st.integers(1, 1000))
    def run(script: list[Given], seed: int) -> None:
        world = World(TOPOLOGIES[name], library, loss, seed, MEMBERS.get(name))
        world.run(script)
        assert not world.wrong
        assert loss or not world.retransmissions

    run()


class Stalling(World):
    """One worker does nothing for nine seconds, in the middle of a call."""

    stalls = -1

    def _joined(self, worker: Collective, driver: VirtualHost, rank: int) -> None:
        core: Any = worker.core  # type: ignore[attr-defined]
        if rank == self.stalls:
            received, count = core.received, itertools.count(1)

            def after_a_while(*given: Any) -> Any:
                if next(count) == 12:
                    driver.sleep(9.0)
                return received(*given)

            core.received = after_a_while


@pytest.mark.parametrize("name", ["racks", "uneven", "pods", "unlike pods"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("slow", [0, -1])
def test_a_worker_that_stalls_in_a_call_is_waited_for_beyond_patience(
    name: str, operation: Operation, slow: int, library: Path
) -> None:
    """By those in its rack and elsewhere, whether they are the owner or not."""
    world = Stalling(TOPOLOGIES[name], library, 0.0, 1, MEMBERS.get(name), patience=2)
    world.stalls = slow % world.job.plan.size
    world.run([Given(operation, 40 * K)])
    assert not world.wrong


@pytest.mark.parametrize(
    ("mine", "others", "told"),
    [
        (Given(Operation.GATHER, 64), Given(Operation.SUM, 64), "64 elements of int32 for all_gather on worker 1"),
        (Given(Operation.BROADCAST, 64, 1), Given(Operation.BROADCAST, 64, 0), "broadcast from worker 1 on worker 1"),
        (
            Given(Operation.REDUCE, 64, 1),
            Given(Operation.REDUCE, 64, 0),
            "64 elements of float32 for reduce to worker 1 on worker 1",
        ),
        (Given(Operation.GATHER, 65), Given(Operation.GATHER, 64), "65 elements of int32 for all_gather on worker 1"),
        (Given(Operation.SCATTER, 16), Given(Operation.SUM, 64), "64 elements of float32 for reduce_scatter on worker 1"),
    ],
)
def test_who_calls_something_else_is_named(mine: Given, others: Given, told: str, library: Path) -> None:
    world = World(TOPOLOGIES["racks"], library, 0.0, 1)
    world.run([others], {1: [mine]})
    assert any(told in one for one in world.wrong), world.wrong


def test_vectors_cross_the_links_of_those_alone_who_give_or_get_them(library: Path) -> None:
    """Of a reduce-scatter a worker receives its part, and of an all-gather it sends its own; the rest are headers."""
    for operation, way in ((Operation.SCATTER, False), (Operation.GATHER, True)):
        world = World(TOPOLOGIES["racks"], library, 0.0, 1)
        world.run([Given(operation, 8 * K)])
        carried = {up: world.network.links[link.number, up].octets for link in world.plan.links[:1] for up in (True, False)}
        assert carried[way] < 0.65 * carried[not way]


def test_no_racks_sum_of_its_own_workers_chunks_crosses_its_uplink(library: Path) -> None:
    """Half of a reduce-scatter goes up from each of two racks, and what all its workers get of it comes down as headers."""
    world = World(TOPOLOGIES["racks"], library, 0.0, 1)
    world.run([Given(Operation.SCATTER, 8 * K)])
    of_worker = world.network.links[world.plan.links[0].number, True].octets
    for number in world.plan.uplinks:
        up, down = (world.network.links[number, way].octets for way in (True, False))
        assert up < 0.8 * of_worker and down < 0.8 * of_worker


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("operation", [Operation.SUM, Operation.REDUCE, Operation.SCATTER])
def test_what_is_no_number_spoils_no_neighbour(
    operation: Operation, loss: float, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinities of both signs, NaN, and zeros below 0, in the first, a later and the last chunk; beside chunks of numbers alone."""
    plain, inf, nan = tensor, np.inf, np.nan

    def with_others(call: Given, number: int, rank: int, size: int) -> NDArray[Any]:
        made = plain(call, number, rank, size)
        for place, values in ((3, (inf, 1, -inf, 2)), (40, (nan, 1, 1, 1)), (41, (-0.0,) * 4), (-1, (1, -inf, -inf, 3))):
            made[place] = values[rank]
        return made

    monkeypatch.setattr("tests.unit.test_switchml_parts.tensor", with_others)
    world = World(TOPOLOGIES["racks"], library, loss, 1)
    with np.errstate(invalid="ignore"):
        world.run([Given(operation, 5 * K)] * 3)
    assert not world.wrong
