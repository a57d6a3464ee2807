"""MLfabric's workers, server and scheduler over loopback: what is applied, dropped and aggregated, and who may die."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.collective import AggregationError, Membership, Operation, Update
from hosts.mlfabric import reservations
from hosts.mlfabric.fabric import Fabric
from hosts.mlfabric.group import Ranks
from hosts.mlfabric.replica import Replica
from hosts.mlfabric.replication import Replication
from hosts.mlfabric.schedule import Schedule
from hosts.mlfabric.scheduler import Scheduler
from hosts.mlfabric.server import Came, OrderedServer
from hosts.mlfabric.worker import MLfabric
from hosts.updates import wire
from hosts.updates.wire import Header, Member
from tests.unit.test_updates import MODEL, Group, done, together

ELEMENTS = 50_000
HUNG = 1.5  # seconds


class Managed(Group):
    """With a scheduler, for which an update takes `takes` seconds on a link: workers are to send no faster."""

    def __init__(self, n: int, takes: float = 0.03, **options: Any) -> None:
        self.distance, self.chain = options.pop("distance", None), options.pop("chain", False)
        self.replicas = int(self.chain or self.distance is not None)
        hosts = n + 1 + self.replicas
        self.ranks = Ranks(n, bool(self.replicas))
        self.fabric = Fabric([0] * hosts, [4 * ELEMENTS / takes] * hosts, [0.0])
        self.options, self.lives, self.hung = options, 0.0, 0.0
        super().__init__(n)

    @property
    def control(self) -> list[str]:
        return [*self.peers, self.peers[self.n]]

    def servers(self) -> dict[str, Callable[[], Any]]:
        replica, distance = self.ranks.replica, self.distance or 0.0
        replication = None if replica is None else Replication(self.n, replica, distance, self.chain)
        bound = self.options.pop("bound", None)
        self.schedule = Schedule(self.fabric, self.n, bound, replication=replication, **self.options)

        def met(kind: type[OrderedServer], rank: int) -> Callable[[], Any]:
            membership = self.membership(rank)
            return lambda: kind.of_next_scheduled_group(
                membership, self.peers, self.control, 10.0, lambda: False, self.ranks, distance
            )

        manager = replace(self.membership(0), rank=self.ranks.scheduler)
        return {
            "server 0": met(OrderedServer, self.n),
            "scheduler": lambda: Scheduler.of_next_group(manager, self.control, 10.0, lambda: False, self.schedule),
        } | ({} if replica is None else {"server 1": met(Replica, replica)})

    def worker(self, rank: int, **more: Any) -> MLfabric:
        more |= {"ranks": self.ranks, "keeps": self.distance is not None}
        return MLfabric(self.membership(rank), 1, self.peers, self.control, 1.0, **more)


def idle(worker: MLfabric, until: Callable[[], Any]) -> None:
    """Let it serve others meanwhile, as a worker does that computes."""
    over = os.eventfd(0)

    def wait() -> None:
        try:
            until()
        finally:
            os.eventfd_write(over, 1)

    with ThreadPoolExecutor(1) as waiter:
        waited = waiter.submit(wait)
        worker.attend(over)
        waited.result()
    os.close(over)


def serve(worker: MLfabric, seconds: float) -> None:
    """Let it go on with its change for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and worker.change is not None:
        for node, events in worker.channels.ready(0.001):
            worker._serve(node, events)


def trained(
    group: Managed, steps: int, leaves: int | None = None, apart: tuple[int, int] = (-1, -1), hangs: int | None = None
) -> dict[int, list[Update]]:
    """What became of every worker's updates; their sum is in the model, but for those that were dropped.

    The worker `leaves` closes its connections some time after it has begun its last step, as one that dies does. Two workers
    that are to be `apart` lose theirs to each other. The worker that `hangs` does nothing for HUNG seconds in its last step.
    """
    first, together_ = np.arange(ELEMENTS, dtype=np.int32), threading.Barrier(group.n)
    same, models = threading.Lock(), dict[float, bytes]()  # the latter by version
    with group.workers() as workers:

        def work(rank: int) -> Any:
            rng, worker = random.Random(rank), workers[rank]
            done(worker, first if rank == 0 else np.zeros_like(first), Operation.KEEP)
            told = []
            if rank == apart[0]:
                worker.channels[apart[1]].socket.shutdown(socket.SHUT_RDWR)
            for step in range(steps):
                if leaves is None:
                    idle(worker, lambda: together_.wait(20))  # they compete also on a machine that is busy
                idle(worker, lambda: time.sleep(0.02 * rng.random()))
                change = np.full_like(first, rng.randrange(-1000, 1000) * (step + 1))
                if leaves == rank and step == steps - 1:
                    worker.start(change, label=MODEL, operation=Operation.CHANGE)
                    serve(worker, group.lives)
                    worker.close()
                    return [*told, (change, None)], None
                now = worker.start(change, label=MODEL, operation=Operation.CHANGE)
                if hangs == rank and step == steps - 1:
                    serve(worker, group.lives)
                    group.hung = time.monotonic()
                    time.sleep(HUNG)
                worker.advance(now)
                assert now.update is not None and now.total is not None
                told.append((change, now.update))
                assert now.update.applied_at is None or now.version > now.update.applied_at
                with same:  # whoever sent it
                    assert models.setdefault(now.version, now.total.tobytes()) == now.total.tobytes()
            worker.all_reduce(np.zeros(1, np.float32))
            return told, done(worker, first, Operation.FETCH)

        found = together(group.n, work)
    everything = [(change, update) for told, _ in found for change, update in told]
    applied = [change for change, update in everything if update is not None and update.applied_at is not None]
    maybe = [np.zeros_like(first), *(change for change, update in everything if update is None)]  # the last one of who left
    for _, last in found:
        if last is not None:
            assert any(np.array_equal(last.total, first + np.sum([*applied, more], axis=0, dtype=np.int32)) for more in maybe)
            assert last.version in (len(applied), len(applied) + len(maybe) - 1)
    return {rank: [update for _, update in told if update is not None] for rank, (told, _) in enumerate(found)}


@pytest.mark.parametrize(("order", "aggregate"), [(True, False), (True, True), (False, False), (False, True)])
def test_every_update_is_in_the_model_once(order: bool, aggregate: bool) -> None:
    group = Managed(4, order=order, aggregate=aggregate)
    updates = [update for mine in trained(group, 8).values() for update in mine]
    assert group.ended == group.in_order
    assert all(update.applied_at is not None and update.requested <= update.sent < update.applied for update in updates)
    direct = [update for update in updates if update.way == "server 0"]
    if not (order and aggregate):  # where nobody waits for a turn nobody can add others' updates
        assert len(direct) == len(updates) and sorted(update.applied_at for update in updates) == list(range(32))
    else:
        assert {update.way for update in updates} - {"server 0"} <= {f"worker {rank}" for rank in range(4)}
        assert sum(update.octets > 4 * ELEMENTS + wire.MEMBER.size for update in direct) > 0  # some carry others
    assert not group.schedule.reserved.jobs and not group.schedule.waiting and not group.schedule.members


@pytest.mark.parametrize("distribute", [True, False])
def test_workers_pass_on_the_model_that_they_have(distribute: bool) -> None:
    updates = [update for mine in trained(Managed(6, distribute=distribute), 8).values() for update in mine]
    others = {update.fetched_from for update in updates} - {"server 0"}
    assert (len(others) > 1) is distribute and others <= {f"worker {rank}" for rank in range(6)}


@pytest.mark.parametrize("aggregate", [False, True])
def test_no_update_is_later_than_the_bound_and_dropped_ones_are_not_sent(aggregate: bool) -> None:
    updates = [u for mine in trained(Managed(5, bound=2, aggregate=aggregate), 8).values() for u in mine]
    late = [update for update in updates if update.applied_at is None]
    assert late and all((u.sent, u.applied, u.octets, u.way, u.delay) == (None, None, 0, "", None) for u in late)
    delays = [update.delay for update in updates if update.delay is not None]
    assert len(delays) + len(late) == 40 and 0 <= min(delays) <= max(delays) <= 2


@pytest.mark.parametrize("lives", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15])
@pytest.mark.parametrize("leaves", [0, 2])
def test_others_go_on_when_a_worker_dies(leaves: int, lives: float) -> None:
    """Whether it waits then, sends its update, absorbs another's, or fetches the model."""
    group = Managed(4, takes=0.05)
    group.lives = lives
    updates = trained(group, 6, leaves)
    assert [len(updates[rank]) for rank in range(4)] == [5 if rank == leaves else 6 for rank in range(4)]
    for mine in updates.values():
        assert all(update.applied_at is not None for update in mine)


@pytest.mark.parametrize("lives", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15])
@pytest.mark.parametrize("hangs", [0, 2])
def test_others_go_on_while_a_worker_hangs(monkeypatch: pytest.MonkeyPatch, hangs: int, lives: float) -> None:
    """Whether it waits then, sends its update, absorbs another's, or fetches the model; it goes on, too."""
    monkeypatch.setattr(reservations, "LATE", 0.1)
    monkeypatch.setattr(Scheduler, "pulse", 0.05)
    group = Managed(4, takes=0.05)
    group.lives = lives
    updates = trained(group, 6, hangs=hangs)
    assert all(update.applied_at is not None for mine in updates.values() for update in mine)
    for rank in set(range(4)) - {hangs}:
        assert updates[rank][-1].applied < group.hung + HUNG
    assert not group.schedule.reserved.jobs and not group.schedule.waiting and not group.schedule.members


def test_workers_that_cannot_reach_each_other_train_on() -> None:
    group = Managed(4)
    updates = trained(group, 6, apart=(1, 3))
    assert all(update.applied_at is not None for mine in updates.values() for update in mine)
    assert {update.way for mine in updates.values() for update in mine[2:]} == {"server 0"}  # nobody adds updates any more
    assert group.ended == group.in_order


def test_who_is_gone_is_named() -> None:
    group = Managed(2)
    with group.workers() as workers:
        together(2, lambda rank: done(workers[rank], np.zeros(ELEMENTS, np.float32), Operation.KEEP))
        workers[0].channels[3].socket.shutdown(2)
        with pytest.raises(AggregationError, match="worker 0: job 3 cannot be completed: the scheduler is gone"):
            done(workers[0], np.zeros(ELEMENTS, np.float32), Operation.CHANGE)


def test_who_is_waited_for_is_named() -> None:
    worker = MLfabric.__new__(MLfabric)
    worker.membership, worker.ranks = Membership(3, 0, 4, [[0, 1, 2, 3]]), Ranks(4, True)
    assert worker._named([1, 2]) == "workers 1, 2" and worker._named([4, 5]) == "server 0 and server 1"
    assert worker._named([3, 5]) == "worker 3 and server 1"


def test_a_worker_takes_no_update_that_it_is_not_to_absorb() -> None:
    group = Managed(2)
    with group.workers() as workers:
        together(2, lambda rank: done(workers[rank], np.zeros(ELEMENTS, np.float32), Operation.KEEP))
        workers[1].channels[0].socket.send(Header(wire.UPDATE, members=1, size=8).pack() + bytes(8))
        time.sleep(0.1)
        with pytest.raises(AggregationError, match="worker 1 sent an invalid message"):
            done(workers[0], np.zeros(ELEMENTS, np.float32), Operation.CHANGE)


def test_a_model_that_comes_too_late_is_not_taken() -> None:
    """Who was to pass it on had died, and the server sent it once more."""
    group, first = Managed(2), np.zeros(ELEMENTS, np.float32)
    with group.workers() as workers:

        def change(rank: int) -> Any:
            return done(workers[rank], first + 1, Operation.CHANGE)

        together(2, lambda rank: done(workers[rank], first, Operation.KEEP))
        together(2, change)
        late = Header(wire.MODEL, number=1, size=first.nbytes, version=77)

        def change_again(rank: int) -> Any:
            if rank == 1:  # while the other waits for its own
                workers[1].channels.put(0, late, (first + 1000).tobytes())
                while not workers[1].channels[0].idle:
                    workers[1].channels.write(0)
            return change(rank)

        assert all(found.version <= 4 and found.total.max() <= 4 for found in together(2, change_again))
        with pytest.raises(AggregationError, match="worker 1 sent an invalid message: a model of 4 bytes"):
            workers[1].channels.put(0, Header(wire.MODEL, number=3, size=4), bytes(4))
            workers[1].channels.write(0)
            time.sleep(0.1)
            change(0)


@pytest.mark.parametrize("kind", [wire.APPLIED, wire.SKIPPED, wire.GRANT, wire.RESULT])
def test_the_scheduler_takes_from_workers_what_workers_say(kind: int) -> None:
    group = Managed(1)
    with group.workers() as (worker,):
        worker.channels[2].socket.send(Header(kind, ticket=7).pack())
        worker.channels[2].socket.settimeout(5)
        time.sleep(0.3)
    assert group.ended["scheduler"].startswith("the scheduler: job 3 cannot be completed: worker 0 sent an invalid message")


@given(st.permutations(range(6)), st.sets(st.integers(0, 5), max_size=3))
def test_the_server_applies_in_the_order_of_tickets_whenever_they_come(order: list[int], skipped: set[int]) -> None:
    server = OrderedServer.__new__(OrderedServer)
    server.next, server.come, server.skipped, server.lacking = 0, {}, set(), {}
    applied: list[int] = []
    server._apply = lambda members, elements, weight=1.0: applied.append(members[0].number)  # type: ignore[method-assign]
    for ticket in order:
        if ticket in skipped:
            server.skipped.add(ticket)
        else:
            server.come[ticket] = Came([Member(0, ticket, 0, 1.0)], np.zeros(1))
        server._apply_in_order()
    assert applied == [ticket for ticket in range(6) if ticket not in skipped] and server.next == 6
