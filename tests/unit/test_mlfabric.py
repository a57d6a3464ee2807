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
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.collective import AggregationError, Membership, Operation, Update
from inalab.hosts.mlfabric import reservations
from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.group import Ranks
from inalab.hosts.mlfabric.replica import Replica
from inalab.hosts.mlfabric.replication import Replication
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.scheduler import Scheduler
from inalab.hosts.mlfabric.server import Came, OrderedServer
from inalab.hosts.mlfabric.worker import MLfabric
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group as Nodes
from inalab.hosts.updates import wire
from inalab.hosts.updates.wire import Header, Member
from tests.played import Played
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
            group = Nodes(self.membership(rank), self.peers, patience=10.0)
            return lambda: kind.of_next_scheduled_group(group, lambda: False, self.control, self.ranks, distance)

        manager = Nodes(replace(self.membership(0), rank=self.ranks.scheduler), self.control, patience=10.0)
        return {
            "server 0": met(OrderedServer, self.n),
            "scheduler": lambda: Scheduler.of_next_group(manager, lambda: False, self.schedule),
        } | ({} if replica is None else {"server 1": met(Replica, replica)})

    def worker(self, rank: int, **more: Any) -> MLfabric:
        group = Nodes(self.membership(rank), self.peers, 1, **more)
        return MLfabric(group, self.control, 1.0, self.ranks, self.distance is not None)


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
            wording = []
            if rank == apart[0]:
                worker.channels[apart[1]].connection.socket.shutdown(socket.SHUT_RDWR)
            for step in range(steps):
                if leaves is None:
                    idle(worker, lambda: together_.wait(20))  # they compete also on a machine that is busy
                idle(worker, lambda: time.sleep(0.02 * rng.random()))
                change = np.full_like(first, rng.randrange(-1000, 1000) * (step + 1))
                if leaves == rank and step == steps - 1:
                    worker.start(change, label=MODEL, operation=Operation.CHANGE)
                    serve(worker, group.lives)
                    worker.close()
                    return [*wording, (change, None)], None
                now = worker.start(change, label=MODEL, operation=Operation.CHANGE)
                if hangs == rank and step == steps - 1:
                    serve(worker, group.lives)
                    group.hung = time.monotonic()
                    time.sleep(HUNG)
                worker.advance(now)
                assert now.update is not None and now.total is not None
                wording.append((change, now.update))
                assert now.update.applied_at is None or now.version > now.update.applied_at
                with same:  # whoever sent it
                    assert models.setdefault(now.version, now.total.tobytes()) == now.total.tobytes()
            worker.all_reduce(np.zeros(1, np.float32))
            return wording, done(worker, first, Operation.FETCH)

        found = together(group.n, work)
    everything = [(change, update) for wording, _ in found for change, update in wording]
    applied = [change for change, update in everything if update is not None and update.applied_at is not None]
    maybe = [np.zeros_like(first), *(change for change, update in everything if update is None)]  # the last one of who left
    for _, last in found:
        if last is not None:
            assert any(np.array_equal(last.total, first + np.sum([*applied, more], axis=0, dtype=np.int32)) for more in maybe)
            assert last.version in (len(applied), len(applied) + len(maybe) - 1)
    return {rank: [update for _, update in wording if update is not None] for rank, (wording, _) in enumerate(found)}


def updates_of(group: Managed) -> list[Any]:
    """All updates of a training, each of which is in the model once."""
    updates = [update for mine in trained(group, 8).values() for update in mine]
    assert group.ended == group.in_order
    assert all(u.applied_at is not None and u.requested <= u.turn <= u.sent < u.applied for u in updates)
    assert not group.schedule.reserved.jobs and not group.schedule.waiting and not group.schedule.members
    return updates


def test_where_nobody_waits_for_a_turn_nobody_adds_others_updates() -> None:
    updates = updates_of(Managed(4, order=False, aggregate=False))
    assert {update.way for update in updates} == {"server 0"}
    assert sorted(update.applied_at for update in updates) == list(range(32))


def test_where_updates_wait_some_carry_others() -> None:
    """On a machine that is busy enough no two may wait at once: then it is tried again."""
    for _ in range(9):
        updates = updates_of(Managed(4, order=True, aggregate=True))
        assert {update.way for update in updates} - {"server 0"} <= {f"worker {rank}" for rank in range(4)}
        if any(update.octets > 4 * ELEMENTS + wire.MEMBER.size for update in updates if update.way == "server 0"):
            return
    raise AssertionError("no update carries another")


def test_no_update_is_later_than_the_bound_and_dropped_ones_are_not_sent() -> None:
    updates = [u for mine in trained(Managed(5, bound=2), 8).values() for u in mine]
    late = [update for update in updates if update.applied_at is None]
    assert late and all((u.turn, u.sent, u.applied, u.octets, u.way, u.delay) == (None, None, None, 0, "", None) for u in late)
    delays = [update.delay for update in updates if update.delay is not None]
    assert len(delays) + len(late) == 40 and 0 <= min(delays) <= max(delays) <= 2


@pytest.mark.parametrize(("leaves", "lives"), [(0, 0.0), (2, 0.03), (2, 0.06), (0, 0.1)])
def test_others_go_on_when_a_worker_dies(leaves: int, lives: float) -> None:
    """Whether it waits then, sends its update, absorbs another's, or fetches the model."""
    group = Managed(4, takes=0.05)
    group.lives = lives
    updates = trained(group, 6, leaves)
    assert [len(updates[rank]) for rank in range(4)] == [5 if rank == leaves else 6 for rank in range(4)]
    for mine in updates.values():
        assert all(update.applied_at is not None for update in mine)


@pytest.mark.parametrize(("hangs", "lives"), [(0, 0.0), (2, 0.03), (0, 0.1)])
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
        workers[0].channels[3].connection.socket.shutdown(2)
        with pytest.raises(AggregationError, match="worker 0: job 3 cannot be completed: the scheduler is gone"):
            done(workers[0], np.zeros(ELEMENTS, np.float32), Operation.CHANGE)


def test_who_is_waited_for_is_named() -> None:
    worker = MLfabric.__new__(MLfabric)
    worker.membership, worker.ranks = Membership(3, 0, 4, [[0, 1, 2, 3]]), Ranks(4, True)
    assert worker._named([1, 2]) == "workers 1, 2" and worker._named([4, 5]) == "server 0 and server 1"
    assert worker._named([3, 5]) == "worker 3 and server 1"


# --- a server, a worker and the scheduler, whose others a test plays

ONES = np.ones(4, np.float32).tobytes()


def one(rank: int, number: int = 0, version: int = 0) -> bytes:
    """A worker's update."""
    return Member(rank, number, version, 1.0).pack() + ONES


def keeping(workers: int, distance: float | None = None) -> Played:
    """A server that keeps a model of zeros."""
    ranks = Ranks(workers, distance is not None)
    made = OrderedServer(Nodes(Membership(3, workers, workers), []), Meeting(1), ranks, distance or 0.0)
    played = Played(made, range(ranks.scheduler + 1))
    for rank in range(workers):
        played.say(rank, Header(wire.KEEP, elements=4), bytes(16))
    return played


def kinds(found: list[tuple[int, Header, bytes]]) -> list[tuple[int, int]]:
    """To whom, and of what kind."""
    return [(rank, header.kind) for rank, header, _ in found]


def test_the_server_skips_neither_what_waits_for_its_turn_nor_what_it_has_applied() -> None:
    played = keeping(2)
    update, skip = Header(wire.UPDATE, members=1), Header(wire.SKIP)
    assert kinds(played.say(1, update._replace(ticket=1), one(1))) == [(3, wire.APPLIED)]
    assert played.say(3, skip._replace(ticket=1)) == []
    assert kinds(played.say(0, update, one(0))) == [(0, wire.APPLIED), (1, wire.APPLIED), (3, wire.APPLIED)]
    assert played.say(3, skip) == [] and played.node.model.weights.tolist() == [2] * 4
    assert kinds(played.say(3, skip._replace(ticket=2))) == [(3, wire.SKIPPED)]
    assert kinds(played.say(0, update._replace(ticket=2), one(0, 1))) == [(3, wire.LATE)]
    with pytest.raises(ValueError, match="ticket 1, which is used"):
        played.say(1, update._replace(ticket=1), one(1, 1))
    assert played.node.model.version == 2


@pytest.mark.parametrize("alone", [False, True])
def test_what_waits_for_the_replica_is_applied_once_it_is_there_or_gone(alone: bool) -> None:
    """What waits for its turn does not count for the distance before that."""
    played = keeping(3, distance=1.0)
    update = Header(wire.UPDATE, members=1)
    played.say(2, update._replace(ticket=2), one(2))
    applied = played.say(0, update, one(0))
    assert [(rank, header.norm) for rank, header, _ in applied] == [(0, 1.0), (5, 0.0)]
    assert [rank for rank, _ in kinds(played.say(1, update._replace(ticket=1), one(1)))] == [5]  # the scheduler alone
    if alone:
        found = played.say(5, Header(wire.ALONE, rank=3))
        assert kinds(found) == [(1, wire.APPLIED), (2, wire.APPLIED)] and {h.norm for _, h, _ in found} == {wire.NO_REPLICA}
    else:
        found = played.say(5, Header(wire.HELD), wire.pack_numbers([0]))
        assert kinds(found) == [(1, wire.APPLIED)] and played.node.model.version == 2


def played_worker(ranks: Ranks, keeps: bool = False) -> Played:
    """Worker 0, which has a model of zeros, and asks the scheduler for a turn with an update of ones."""
    with mock.patch.object(MLfabric, "_meet", lambda *wording: Meeting(1)):
        worker = MLfabric(Nodes(Membership(3, 0, ranks.workers), [], 1), [], 1.0, ranks, keeps)
    played = Played(worker, range(1, ranks.scheduler + 1))
    worker.start(np.zeros(4, np.float32), label=MODEL, operation=Operation.KEEP)
    played.say(ranks.server, Header(wire.RESULT), bytes(16))
    worker.start(np.ones(4, np.float32), label=MODEL, operation=Operation.CHANGE)
    return played


def test_a_worker_that_is_to_send_again_sends_its_own_update_and_no_others() -> None:
    """What it had added is not in its own, and it keeps for the replica only what the server has not thrown away."""
    played = played_worker(Ranks(2, True), keeps=True)
    server, scheduler = 2, 4
    assert kinds(played.messages)[-1] == (scheduler, wire.REQUEST)
    (arrived,) = played.say(1, Header(wire.UPDATE, members=1), one(1, 7))
    assert (arrived[0], arrived[1].kind, arrived[1].rank, arrived[1].number) == (scheduler, wire.ARRIVED, 1, 7)
    (both,) = played.say(scheduler, Header(wire.GRANT, rank=server, ticket=3), bytes((0, 1)))
    (own,) = played.say(scheduler, Header(wire.GRANT, rank=server, ticket=4), bytes((0,)))
    for (rank, header, body), members, value in ((both, 2, 2), (own, 1, 1)):
        assert (rank, header.kind, header.members) == (server, wire.UPDATE, members)
        assert np.frombuffer(body, np.float32, offset=members * wire.MEMBER.size).tolist() == [value] * 4
    assert list(played.node.kept_back) == [4]


def test_a_worker_waits_for_a_model_with_its_own_update() -> None:
    played = played_worker(Ranks(2))
    played.say(1, Header(wire.UPDATE, members=1), one(1))
    ((rank, fetch, _),) = played.say(2, Header(wire.APPLIED, version=8, norm=wire.NO_REPLICA))
    assert (rank, fetch.kind, fetch.number, fetch.version) == (3, wire.FETCH, 1, 9)
    ((rank, wording, _),) = played.say(1, Header(wire.MODEL, number=1, version=9), ONES)
    assert (rank, wording.kind, wording.number, wording.version) == (3, wire.MODEL, 1, 9)
    assert played.say(2, Header(wire.MODEL, number=1, version=77), ONES) == []  # the server sent it, too
    started = played.node.start(np.ones(4, np.float32), label=MODEL, operation=Operation.CHANGE)
    with pytest.raises(ValueError, match="a grant for the updates of workers"):  # of what came before this change
        played.say(3, Header(wire.GRANT, rank=2), bytes((0, 1)))
    assert played.say(2, Header(wire.MODEL, number=1, version=77), ONES) == []
    played.say(3, Header(wire.GRANT, rank=1), bytes((0,)))  # which dies
    ((rank, fetch, _),) = played.say(3, Header(wire.DROP))
    assert (fetch.number, fetch.version) == (2, 10)  # newer than what it was computed on
    played.say(1, Header(wire.MODEL, number=2, version=11), ONES)
    u = started.update
    assert (u.sent, u.applied_at, u.octets, u.way, u.delay, u.fetched_from) == (None, None, 0, "", None, "worker 1")
    passed = played.say(3, Header(wire.PASS, rank=1, number=5, ticket=2))
    assert [(rank, header.kind, header.number, header.version, body) for rank, header, body in passed] == [
        (1, wire.MODEL, 5, 11, ONES)
    ]


@pytest.mark.parametrize(
    ("rank", "header", "octets"),
    [
        (1, Header(wire.UPDATE, members=1), 8),
        (1, Header(wire.UPDATE, members=2), 2 * wire.MEMBER.size + 16),
        (1, Header(wire.MODEL, number=1), 4),
        (1, Header(wire.APPLIED), 0),
        (3, Header(wire.APPLIED), 0),
        (3, Header(wire.PASS, rank=1), 0),  # it has no model yet
        (3, Header(wire.GRANT, rank=2), 0),
    ],
)
def test_a_worker_takes_nothing_that_others_cannot_send(rank: int, header: Header, octets: int) -> None:
    with pytest.raises(ValueError, match=rf"a (message {header.kind} with|model of) {octets} bytes"):
        played_worker(Ranks(2)).say(rank, header, bytes(octets))


@pytest.mark.parametrize(
    ("rank", "kind"), [(0, wire.APPLIED), (0, wire.SKIPPED), (0, wire.GRANT), (0, wire.RESULT), (2, wire.REQUEST), (2, wire.HELD)]
)
def test_the_scheduler_takes_from_each_what_it_says(rank: int, kind: int) -> None:
    schedule = Schedule(Fabric([0] * 3, [16.0] * 3, [0.0]), 2, None)
    with pytest.raises(ValueError, match=f"a message {kind} with 0 bytes"):
        Played(Scheduler(Nodes(Membership(3, 3, 2), []), Meeting(1), schedule), range(3)).say(rank, Header(kind, ticket=7))


def test_after_a_take_over_a_worker_tells_the_last_result_and_asks_for_a_turn_again() -> None:
    """What it had absorbed others send again, too."""
    played = played_worker(Ranks(2, True))
    played.say(1, Header(wire.UPDATE, members=1), one(1))
    found = played.say(4, Header(wire.ALONE, rank=3, ticket=2), wire.pack_numbers((0, 0)))
    assert kinds(found) == [(4, wire.TAKEN), (3, wire.RESULT), (4, wire.REQUEST)] and found[1][2] == bytes(16)
    assert played.say(1, Header(wire.UPDATE, members=1, ticket=1), one(1)) == []  # before it knew, too
    assert played.say(1, Header(wire.MODEL, number=1, version=7, ticket=1), ONES) == []
    with pytest.raises(ValueError, match="a grant for the updates of workers"):
        played.say(4, Header(wire.GRANT, rank=3, ticket=2), bytes((0, 1)))


def test_the_scheduler_hears_who_has_what_and_tells_who_is_to_send_what() -> None:
    """Worker 2 adds the update of worker 1, and passes on the model."""
    schedule = Schedule(Fabric([0] * 4, [16.0] * 4, [0.0]), 3, None)
    played = Played(Scheduler(Nodes(Membership(3, 4, 3), []), Meeting(1), schedule), range(4))
    for worker in range(3):
        played.say(worker, Header(wire.REQUEST, load=16.0, norm=1.0))
    assert [(rank, h.kind, h.rank, h.ticket, h.rate, list(body)) for rank, h, body in played.messages] == [
        (0, wire.GRANT, 3, 0, 16.0, [0]), (1, wire.GRANT, 2, 1, 16.0, [1]),
    ]  # fmt: skip
    assert played.say(2, Header(wire.ARRIVED, rank=1, number=0)) == []
    ((rank, grant, ranks),) = played.say(3, Header(wire.APPLIED, ticket=0))
    assert (rank, grant.kind, grant.rank, grant.ticket, list(ranks)) == (2, wire.GRANT, 3, 1, [1, 2])
    assert played.say(3, Header(wire.APPLIED, ticket=1)) == []
    ((rank, fetch, _),) = played.say(2, Header(wire.FETCH, number=1, load=16.0, version=3))
    assert (rank, fetch.kind, fetch.number) == (2, wire.FETCH, 1)
    assert played.say(1, Header(wire.FETCH, number=1, load=16.0, version=2)) == []
    assert played.say(0, Header(wire.FETCH, number=1, load=16.0, version=1)) == []
    found = played.say(2, Header(wire.MODEL, number=1, version=3))
    assert [(rank, h.kind, h.number, h.rank, h.ticket) for rank, h, _ in found] == [
        (1, wire.FETCH, 1, 0, 0), (2, wire.PASS, 1, 0, 0),
    ]  # fmt: skip


def test_the_scheduler_hears_nothing_from_workers_that_do_not_know_of_a_take_over() -> None:
    replication = Replication(2, 3, 1.0, ready=True)
    schedule = Schedule(Fabric([0] * 4, [16.0] * 4, [0.0]), 2, None, replication=replication)
    played = Played(Scheduler(Nodes(Membership(3, 4, 2), []), Meeting(1), schedule), range(4))
    played.say(0, Header(wire.REQUEST, load=16.0, norm=1.0))
    played.node._leave(2, ConnectionResetError())
    ((rank, alone, _),) = played.messages[1:]
    assert (rank, alone.kind, alone.rank, alone.ticket, alone.version) == (3, wire.ALONE, 3, 1, 0)
    assert played.say(1, Header(wire.REQUEST, load=16.0, norm=1.0)) == []  # which it will ask the replica again
    wording = played.say(3, Header(wire.TAKEN), wire.pack_numbers((1, 0)))
    assert [(rank, h.kind, h.rank, wire.numbers(body)) for rank, h, body in wording] == [
        (0, wire.ALONE, 3, [1, 0]), (1, wire.ALONE, 3, [0, 0]),
    ]  # fmt: skip
    assert played.say(1, Header(wire.TAKEN)) == []
    assert kinds(played.say(1, Header(wire.REQUEST, load=16.0, norm=1.0))) == [(1, wire.GRANT)]


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
