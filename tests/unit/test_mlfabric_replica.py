"""MLfabric's replica over loopback: how far it is from the server, and how workers go on with it when the server has died."""

from __future__ import annotations

import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError, Operation, Sum, Update
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.mlfabric.replica import Replica
from inalab.hosts.mlfabric.server import Came, copy_of
from inalab.hosts.mlfabric.worker import MLfabric
from inalab.hosts.updates import wire
from inalab.hosts.updates.model import Model
from inalab.hosts.updates.wire import Header, Member
from inalab.hosts.updates.worker import Change
from tests.unit.test_mlfabric import Managed, idle
from tests.unit.test_updates import MODEL, done, together

ELEMENTS = 50_000  # of which the first tell which updates are in the model


def dies(server: Any) -> None:
    """As if its process were killed: nothing of what it has not sent comes any more."""
    for channel in server.channels.of.values():
        with suppress(OSError):
            channel.connection.socket.shutdown(socket.SHUT_RDWR)


def trained(
    group: Managed, steps: int, killed: str = "", after: float = 0.0, from_step: int = 0, cut_off: int = -1
) -> tuple[list[dict[int, Update]], np.ndarray[Any, Any]]:
    """What became of every worker's updates by number, and how often each is in the last model.

    A server is killed so many seconds `after` worker 0 has begun a step.
    Update k of a worker w has a one at w * steps + k, and zeros elsewhere, so its norm is 1.
    """
    first, together_ = np.zeros(ELEMENTS, dtype=np.int32), threading.Barrier(group.n)

    def kill() -> None:
        end = time.monotonic() + 10
        while not group.schedule.replication.ready and time.monotonic() < end:  # else the job ends
            time.sleep(0.001)
        dies(group.of(killed))

    timer = threading.Timer(after, kill)
    with group.workers() as workers:

        def work(rank: int) -> Any:
            rng, worker = random.Random(rank), workers[rank]
            done(worker, first, Operation.KEEP)
            worker.all_reduce(np.zeros(1, np.float32))
            wording = {}
            for step in range(steps):
                if killed and (rank, step) == (0, from_step):
                    timer.start()
                if (rank, step) == (cut_off, 2):
                    worker.channels[group.n + 1].connection.socket.shutdown(socket.SHUT_RDWR)
                idle(worker, lambda: together_.wait(20))
                idle(worker, lambda: time.sleep(0.02 * rng.random()))
                change = first.copy()
                change[rank * steps + step] = 1
                now = done(worker, change, Operation.CHANGE)
                assert now.update is not None
                wording[step] = now.update
            total = worker.all_reduce(np.full(3, rank, np.float32))
            assert total.tolist() == [group.n * (group.n - 1) / 2] * 3
            return wording, done(worker, first, Operation.FETCH).total

        found = together(group.n, work)
    timer.cancel()
    for _, last in found:
        assert np.array_equal(last, found[0][1])
    return [wording for wording, _ in found], found[0][1][: group.n * steps]


@pytest.mark.parametrize(("distance", "aggregate"), [(0.0, True), (1.0, False), (3.0, True), (10.0, True)])
def test_the_replica_is_within_its_bound(distance: float, aggregate: bool) -> None:
    group = Managed(4, distance=distance, aggregate=aggregate)
    wording, model = trained(group, 6)
    assert group.ended == group.in_order and model.tolist() == [1] * 24
    distances = [update.distance for mine in wording for update in mine.values()]
    assert all(d is not None and 0 <= d <= distance for d in distances)
    assert distance == 0 or max(d for d in distances if d is not None) > 0
    replica = group.of("server 1")
    lacks = model - replica.model.weights[:24]
    assert set(lacks.tolist()) <= {0, 1} and lacks.sum() <= distance


def test_in_a_chain_the_server_forwards_every_update() -> None:
    group = Managed(4, chain=True)
    wording, model = trained(group, 6)
    assert {update.distance for mine in wording for update in mine.values()} == {0.0}
    replica = group.of("server 1")
    assert model.tolist() == [1] * 24 == replica.model.weights[:24].tolist()
    assert sorted(replica.copies) == list(range(1, len(replica.copies) + 1))
    assert len(replica.copies) == sum(update.way == "server 0" for mine in wording for update in mine.values())


@pytest.mark.parametrize(
    ("distance", "after"), [(0.0, 0.05), (0.0, 0.33), (2.0, 0.0), (2.0, 0.2), (8.0, 0.1), (8.0, 0.5), (None, 0.1), (None, 0.33)]
)
def test_workers_go_on_with_the_replica(distance: float | None, after: float) -> None:
    """Whatever the server was doing when it died; what is lost is within the bound, and nothing is added twice."""
    group = Managed(4, chain=True) if distance is None else Managed(4, distance=distance)
    wording, model = trained(group, 8, "server 0", after)
    updates = {(rank, step): update for rank, mine in enumerate(wording) for step, update in mine.items()}
    assert len(updates) == 32 and all(update.applied_at is not None and update.delay >= 0 for update in updates.values())
    assert set(model.tolist()) <= {0, 1}
    lost = [at for at in updates if not model[at[0] * 8 + at[1]]]
    assert len(lost) <= (distance or 0.0)
    assert all(updates[at].way != "server 1" for at in lost)
    for mine in wording:
        ways = [mine[step].way for step in range(8)]
        assert "server 1" not in ways or "server 0" not in ways[ways.index("server 1") :], ways


def test_a_copy_that_comes_twice_counts_once() -> None:
    """From a worker that dies as it ends sending it, and from the server in its place."""
    replica, wording = Replica.__new__(Replica), []
    replica.model, replica.standing_by, replica.copies, replica.updates = Model(np.zeros(3, np.float32)), True, set(), [0, 0]
    replica._tell = lambda header, body=b"": wording.append(header)  # type: ignore[method-assign]
    members = [Member(1, 4, 0, 1.0), Member(0, 2, 0, 1.0)]
    for _ in range(2):
        header, octets = copy_of(7, [Came(members, np.ones(3, np.float32))])
        replica._add(header, bytearray(octets))
    assert replica.model.weights.tolist() == [1, 1, 1] and replica.model.version == 2 and replica.updates == [3, 5]
    header, octets = copy_of(8, [Came([Member(1, 3, 0, 1.0)], np.ones(3, np.float32))])  # an older one, which another host kept
    replica._add(header, bytearray(octets))
    assert replica.model.version == 3 and replica.updates == [3, 5]
    assert [(header.kind, header.number) for header in wording] == [(wire.HELD, 7), (wire.HELD, 8)]


@pytest.mark.parametrize(("updates", "again"), [(2, True), (3, False)])
def test_after_a_take_over_an_update_is_sent_again_unless_the_replica_has_it(updates: int, again: bool) -> None:
    """The replica has this worker's first ones; the third, computed on version 40, met version 41. The replica has version 38."""
    worker, asked = MLfabric.__new__(MLfabric), []
    worker.driver, worker.scheduler, worker.bodies = SOCKETS, 4, {4: memoryview(wire.pack_numbers((updates, 41)))}
    worker._announce = lambda change: asked.append("again")  # type: ignore[method-assign]
    worker._ask_to_fetch = lambda: asked.append("model")  # type: ignore[method-assign]
    change = Change(Sum(np.zeros(3, np.float32), (3,)), Member(0, 2, 40, 1.0), 0.0)
    worker._ask_again(change, Header(wire.ALONE, version=38))
    assert asked == ["again" if again else "model"]
    assert change.applied_at == (None if again else 41) and change.member.version == (38 if again else 40)


@pytest.mark.parametrize("operation", [Operation.KEEP, Operation.SUM])
def test_a_sum_that_had_come_in_part_when_the_server_died_is_not_added_to_itself(operation: Operation) -> None:
    """Nor is the model summed up again, which the replica has."""
    group, large = Managed(3, distance=1.0), np.arange(4_000_000, dtype=np.float32)
    begun, killed = threading.Barrier(4), threading.Barrier(4)

    def work(worker: MLfabric) -> Any:
        if operation is Operation.SUM:
            model = np.zeros(3, np.float32)
            worker.advance(worker.start(model, label=MODEL, operation=Operation.KEEP, overwrite=True))
        mine = large.copy() if worker.membership.rank == 0 else np.zeros_like(large)
        started = worker.start(mine, label=MODEL, operation=operation, overwrite=True)
        while group.n not in worker.tensors:  # until the first bytes of the result have come
            for node, events in worker.channels.ready(0.001):
                worker._serve(node, events)
        begun.wait(10)
        killed.wait(10)
        worker.advance(started)
        return started.total

    with group.workers() as workers, ThreadPoolExecutor(1) as killer:

        def kill() -> None:
            server = group.of("server 0")
            begun.wait(10)
            while not group.schedule.replication.ready:
                time.sleep(0.001)
            dies(server)
            killed.wait(10)

        gone = killer.submit(kill)
        for total in together(3, lambda rank: work(workers[rank])):
            assert np.array_equal(total, large)
        gone.result()
    assert operation is Operation.SUM or np.array_equal(group.of("server 1").model.weights, large)


def test_an_update_that_is_not_a_number_holds_nobody_up() -> None:
    group, change = Managed(3, distance=1.0), np.full(ELEMENTS, np.nan, np.float32)
    with group.workers() as workers:

        def work(rank: int) -> Any:
            done(workers[rank], np.zeros(ELEMENTS, np.float32), Operation.KEEP)
            found = [done(workers[rank], change, Operation.CHANGE) for _ in range(3)]
            workers[rank].all_reduce(np.zeros(1, np.float32))
            return found[-1]

        for last in together(3, work):
            assert np.isnan(last.total).all() and last.update.norm == np.inf
    assert group.ended == group.in_order


def test_the_server_goes_on_without_its_replica() -> None:
    group = Managed(3, distance=1.0)
    wording, model = trained(group, 8, "server 1", from_step=1)
    assert model.tolist() == [1] * 24 and group.ended["server 0"] == ""
    assert wording[0][7].distance is None and wording[0][0].distance is not None


def test_a_worker_that_does_not_reach_the_replica_ends_replication_and_nothing_else() -> None:
    group = Managed(3, distance=1.0)
    wording, model = trained(group, 6, cut_off=1)
    assert model.tolist() == [1] * 18 and group.ended == group.in_order
    assert wording[0][5].distance is None and wording[0][0].distance is not None


def test_without_the_model_the_replica_cannot_take_over() -> None:
    group = Managed(2, distance=1.0)
    with group.workers() as workers:
        dies(group.of("server 0"))
        with pytest.raises(AggregationError, match="server 0 is gone, and server 1 did not have the model yet"):
            together(2, lambda rank: done(workers[rank], np.zeros(ELEMENTS, np.float32), Operation.KEEP))
