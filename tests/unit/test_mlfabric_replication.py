"""What the scheduler has sent to the replica, and what becomes of updates when the server dies, against a model of all hosts."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.replication import MOST, Replication
from inalab.hosts.mlfabric.reservations import LATE
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Drop, Fetch, Held, Replicate
from tests.mlfabric_world import World
from tests.properties import examples

TRAINING = ("compute", "die", "part", "hang", "look")  # events that are no messages


class Replicated(World):
    """The server applies nothing by which more than `distance` updates would be missing at the replica, which is the host behind it.
    The server dies after `crash` seconds, if it does and the replica has the model."""

    def __init__(
        self, n: int, steps: int, seed: int, distance: int, chain: bool, crash: float | None = None, **options: Any
    ) -> None:
        self.replication = Replication(n, n + 1, float(distance), chain)
        super().__init__(n, steps, seed, replication=self.replication, **options)
        self.distance = distance
        self.kept: dict[int, int] = {}  # by ticket: who sent it to the server
        self.lacking: set[int] = set()  # tickets that the server has, and does not know at the replica
        self.carried: dict[int, tuple[int, ...]] = {}  # by copy: its tickets
        self.at_replica: Counter[tuple[int, int]] = Counter()  # updates
        self.parts: dict[int, list[tuple[int, int, int]]] = {}  # by ticket
        self.orders: Counter[int] = Counter()  # of each copy
        self.lost: set[tuple[int, int]] = set()
        self.at(3 * self.rng.random(), "got", 0)
        if crash is not None:
            self.at(crash, "crash", None)

    def do(self, actions: list[Any]) -> None:
        for action in actions:
            match action:
                case Replicate():
                    self.orders[action.number] += 1
                    self.copy(action)
                case Held():
                    self.at(0.001, "known", action.tickets)
                case _:
                    super().do([action])

    def copy(self, order: Replicate) -> None:
        assert order.destination == self.n + 1 and order.tickets and order.source not in self.dead
        assert self.carried.setdefault(order.number, order.tickets) == order.tickets
        for ticket in order.tickets:
            assert order.source in (self.kept[ticket], self.server)
            assert order.source == self.server or not self.replication.chain
            instead = self.kept[ticket] in self.dead or self.orders[order.number] > 1  # of who died or was late
            assert instead or order.source != self.server or self.replication.chain
        takes = self.takes()
        if self.orders[order.number] == 1:  # else the first one's end ends it, too
            self.carry(order.source, order.destination, takes)
        self.at(takes, "copied", order)

    # --- events

    def copied(self, order: Replicate) -> Any:
        lost = order.source in self.hung or (order.source in self.dead and self.rng.random() < 0.5)
        if order.number not in self.carried or lost:
            return None  # it was there already, or will not come
        for ticket in self.carried.pop(order.number):
            self.at_replica.update((worker, number) for worker, number, _ in self.parts[ticket])
        self.at(0.001, "got", order.number)
        return None

    def got(self, number: int) -> Any:
        return self.schedule.held(number, self.now)

    def known(self, tickets: tuple[int, ...]) -> None:
        self.lacking.difference_update(tickets)
        self.apply()

    def come(self, wording: Any) -> Any:
        push, parts = wording
        before = set(self.arrived)
        if push.destination == self.server:
            self.parts[push.ticket], self.kept[push.ticket] = parts, push.worker
            self.lacking |= {push.ticket} if self.server == self.n else set()
        found = super().come(wording)
        if push.ticket not in set(self.arrived) - before and push.destination == self.server:
            self.lacking.discard(push.ticket)  # it has not come
        return found

    def apply(self) -> None:
        while self.next_ticket in self.arrived or self.next_ticket in self.skipped:
            missing = {t for t in self.lacking if t < self.next_ticket} | ({self.next_ticket} & self.lacking)
            if self.next_ticket in self.arrived and sum(len(self.parts[t]) for t in missing) > self.distance:
                return
            upto, later = self.next_ticket, {t: self.arrived.pop(t) for t in list(self.arrived) if t > self.next_ticket}
            skipped, self.skipped = self.skipped, self.skipped & {upto}
            super().apply()
            self.arrived |= later
            self.skipped |= skipped

    def crash(self, _: None) -> Any:
        if not self.replication.ready:
            return None
        self.server = self.n + 1
        self.schedule.take_over()
        self.events = [event for event in self.events if event[2] in TRAINING]
        self.lost = {key for key, fate in self.fate.items() if fate == "applied" and not self.at_replica[key]}
        for forgotten in (self.arrived, self.skipped, self.lacking):
            forgotten.clear()
        for worker, version in self.fetched.items():
            self.fetched[worker] = min(version, self.schedule.version)
        self.own = {w: (w, number, min(version, self.schedule.version)) for w, (_, number, version) in self.own.items()}
        self.next_ticket, self.version = self.schedule.first, self.schedule.version
        for worker in set(range(self.n)) - self.dead:
            if worker in self.own and self.done[worker] == self.own[worker][1]:
                self.do(self.ask_again(worker))
        return []

    def ask_again(self, worker: int) -> Any:
        _, number, version = self.own[worker]
        self.held[worker].clear()
        if self.at_replica[worker, number]:
            self.fate[worker, number] = "applied"
        if (worker, number) in self.fate:
            return self.fetch(worker, version + 1)
        return self.schedule.request(worker, number, version, 1.0, 1.0, self.now)


@examples(400)
@given(st.integers(0, 10**9))
def test_every_update_is_applied_once_and_what_the_replica_lacks_is_bounded(seed: int) -> None:
    """All is drawn from the seed: hypothesis would draw mostly few workers, one step and no deaths."""
    rng = random.Random(seed)
    n, steps, chain = rng.randint(1, 7), rng.randint(1, 6), rng.random() < 0.3
    bound, crash = 0 if chain else rng.randint(0, 12), rng.choice([None, rng.uniform(3, 12)])
    deaths, late = rng.randint(0, min(2, n - 1)), rng.choice([None, rng.randint(0, 12)])
    trouble: dict[str, Any] = {"deaths": deaths, "hangs": rng.choice([0, rng.randint(0, n - 1)]), "stalls": rng.choice([0.0, 0.1])}
    world = Replicated(n, steps, seed, bound, chain, crash, bound=late, aggregate=rng.random() < 0.7, **trouble).run()
    for worker in set(range(n)) - world.dead - world.hung:
        fates = {world.fate.get((worker, number)) for number in range(steps)}
        assert fates <= ({"applied"} if late is None else {"applied", "dropped"})
        assert world.done[worker] == steps
    assert len(world.lost) <= bound and all(delay >= 0 for delay in world.delays)
    assert late is None or all(delay <= late for delay in world.delays)
    assert max(world.at_replica.values(), default=0) <= 1  # none twice
    assert max(world.orders.values(), default=0) <= 1 + bool(world.dead or world.hung or trouble["stalls"])
    if not world.dead:
        for times in world.busy.values() if crash is None else ():
            assert all(after >= min(end, begin + LATE + 2.0) - 1e-9 for (begin, end), (after, _) in pairwise(sorted(times)))


@pytest.mark.parametrize(("distance", "copies"), [(0, 8), (3, 5), (8, 0)])
def test_no_copy_is_sent_before_the_bound_asks_for_it(distance: int, copies: int) -> None:
    replication = Replication(4, 5, float(distance), ready=True)
    for ticket in range(8):
        replication.came(ticket, ticket % 4, 1, 1.0, 10.0)
    sent = 0
    for holder in replication.due(0.0, (), ()):
        sent += len(replication.begin(holder)[1])
    assert copies <= sent <= copies + 1


@pytest.mark.parametrize(("busy", "due"), [((), [1]), ((1,), [0])])
def test_those_that_keep_most_go_first_unless_their_links_are_busy(busy: tuple[int, ...], due: list[int]) -> None:
    replication = Replication(4, 5, 2.0, ready=True)
    for ticket, holder in enumerate((0, 1, 1)):
        replication.came(ticket, holder, 1, 1.0, 10.0)
    assert replication.due(0.0, (), busy) == due


def test_what_is_planned_counts_before_it_is_in_the_model() -> None:
    replication = Replication(4, 5, 2.0, ready=True)
    replication.came(0, 0, 1, 1.0, 10.0)
    assert replication.due(1.0, (), ()) == [] and replication.due(1.5, (), ()) == [0]


def test_no_host_keeps_more_than_so_many_updates_however_small_they_are() -> None:
    replication = Replication(2, 3, 1e9, ready=True)
    for ticket in range(2 * MOST):
        replication.came(ticket, ticket // MOST, 1, 1e-9, 10.0)
        assert replication.due(0.0, (), ()) == [0] * (ticket + 1 >= MOST) + [1] * (ticket + 1 >= 2 * MOST)
    assert replication.begin(0) == (1, tuple(range(MOST))) and replication.due(0.0, (), ()) == [1]


def test_what_cannot_be_in_the_model_yet_is_known() -> None:
    replication = Replication(4, 5, 2.0, ready=True)
    for ticket in (0, 1, 2, 4):
        replication.came(ticket, ticket % 4, 3, 1.0, 10.0)
    assert replication.gated() == 6  # tickets 2 and 4
    replication.held(replication.begin(1)[0])
    assert replication.gated() == 3


@pytest.mark.parametrize(("distance", "copies"), [(2.0, 0), (1.5, 1)])
def test_updates_that_come_as_one_count_each_at_the_replica(distance: float, copies: int) -> None:
    """As soon as they are planned; and what waits for the replica is not applied when it takes over. Nor does a model of then count."""
    schedule = Schedule(Fabric([0] * 5, [1.0] * 5, [0.0]), 3, None, replication=Replication(3, 4, distance, ready=True))
    for worker in range(3):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)
    schedule.absorbed(1, 0, 2, 1.0)
    replicating = [action for action in schedule.applied(0, 1.0) if isinstance(action, Replicate)]
    assert [order.tickets for order in replicating] == [(0,)]  # for the two that are to come have a norm of 2
    schedule.held(1, 1.5)
    replicating = [action for action in schedule.applied(1, 2.0) if isinstance(action, Replicate)]
    assert len(replicating) == copies and schedule.version == 3
    schedule.fetch(0, 1, 1, 1.0, 2.0)
    schedule.fetched(0, 1, 1, 3.0)
    schedule.take_over()
    assert schedule.version == 3 - 2 * copies
    assert [schedule.fetch(worker, 2, 1, 1.0, 4.0) for worker in (1, 2)] == [[Fetch(1, 2, 1.0)], []]  # from nobody else yet


def test_updates_that_were_under_way_at_a_take_over_do_not_delay_themselves() -> None:
    schedule = Schedule(Fabric([0] * 6, [1.0] * 6, [0.0]), 4, 3, replication=Replication(4, 5, 0.0, chain=True, ready=True))
    for worker in range(4):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)
    schedule.applied(0, 1.0)  # it has come, and waits for the replica
    assert schedule.busy() == [1, 5]  # the server forwards it, and the next one sends
    schedule.take_over()
    assert schedule.version == 0
    for worker in range(4):
        assert not any(isinstance(action, Drop) for action in schedule.request(worker, 0, 0, 1.0, 1.0, 2.0))
