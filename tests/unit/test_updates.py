"""A model on one host, updates to it, and stale synchronous parallel; workers and the server over loopback."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Label, Membership, Operation, Sum, Update
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group as Nodes
from inalab.hosts.updates import wire
from inalab.hosts.updates.model import Model, behind, correction
from inalab.hosts.updates.server import ModelServer
from inalab.hosts.updates.wire import Header, Member
from inalab.hosts.updates.worker import ModelWorker
from tests.played import Played

MODEL = Label("model")
used = count()

# --- messages, and the model


@given(st.integers(0, 15), st.sampled_from(list(wire.DTYPES)), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_headers_come_back_as_they_were(kind: int, dtype: bytes, number: int, version: int) -> None:
    header = Header(kind, dtype, number, 2, wire.URGENT, 12, version=version, at=3.25, norm=1e-9)
    assert Header.unpack(header.pack()) == header and len(header.pack()) == Header.length()


@pytest.mark.parametrize("octets", [b"\x19f" + bytes(70), b"\x00x" + bytes(70), b"\x00f" + bytes(14) + b"\xff" * 4 + bytes(52)])
def test_what_is_no_header_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match="no message begins with"):
        Header.unpack(octets)


def test_members_stand_before_the_elements() -> None:
    all_ = [Member(3, 1, 2**40, 0.5), Member(0, 7, 0, 1e-9)]
    body = b"".join(member.pack() for member in all_) + b"elements"
    assert wire.members(memoryview(body), 2) == all_


def test_those_that_are_applied_at_once_do_not_delay_each_other() -> None:
    model = Model(np.zeros(3, np.float32))
    assert model.apply([Member(0, 0, 0, 1.0)], np.ones(3, np.float32)) == 0
    assert model.apply([Member(1, 0, 0, 1.0), Member(2, 0, 0, 1.0)], np.full(3, 4, np.float32), 0.5) == 1
    assert model.version == 3 and model.weights.tolist() == [3, 3, 3]


@pytest.mark.parametrize(("delay", "weight"), [(0, 1), (3, 1), (4, 0.8), (7, 0.5), (39, 0.1)])
def test_an_update_counts_for_less_once_it_is_later_than_usual(delay: int, weight: float) -> None:
    assert correction(delay, 4) == pytest.approx(weight)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 5))
def test_the_slowest_waits_for_nobody(clocks: list[int], staleness: int) -> None:
    waiting = {rank: behind(clocks, rank, staleness) for rank in range(len(clocks))}
    assert not waiting[int(np.argmin(clocks))]
    for rank, others in waiting.items():
        assert others == [other for other in waiting if clocks[other] < clocks[rank] - staleness]
        assert not behind(clocks, rank, staleness, absent=others)


# --- a server, and a worker, whose others a test plays

ONES = np.ones(4, np.float32).tobytes()


def update(rank: int, number: int = 0, version: int = 0, norm: float = 2.0) -> bytes:
    return Member(rank, number, version, norm).pack() + ONES


def keeping(workers: int, **options: Any) -> Played:
    """A server that keeps a model of as many as there are workers."""
    played = Played(ModelServer(Nodes(Membership(3, workers, workers), []), Meeting(1), **options), range(workers))
    for rank in range(workers):
        played.say(rank, Header(wire.KEEP, elements=4), ONES)
    return played


def of_kind(kind: int, found: list[tuple[int, Header, bytes]]) -> list[tuple[int, int]]:
    """To whom messages of a kind are sent, and their versions."""
    return [(rank, header.version) for rank, header, _ in found if header.kind == kind]


def test_no_update_reaches_what_is_on_its_way_to_slow_workers() -> None:
    played = keeping(2)
    for number in range(2):
        applied = played.say(0, Header(wire.UPDATE, members=1), update(0, number))
        assert of_kind(wire.APPLIED, applied) == [(0, number)]
        played.say(1, Header(wire.FETCH))
    models = [(rank, header.version, set(np.frombuffer(body, np.float32))) for rank, header, body in played.messages if body]
    assert models == [(0, 0, {2}), (1, 0, {2}), (1, 1, {3}), (1, 2, {4})]


def test_nobody_waits_for_a_worker_that_leaves_and_it_is_sent_nothing() -> None:
    played = keeping(3, staleness=0)
    for rank in (0, 2):
        played.say(rank, Header(wire.UPDATE, members=1), update(rank))
        assert played.say(rank, Header(wire.FETCH)) == []
    ((_, header, missing),) = played.say(0, Header(wire.ASK))
    assert header.kind == wire.WAITS and list(missing) == [1]
    played.node._leave(2, ConnectionResetError())
    played.node._leave(1, ConnectionResetError())
    assert of_kind(wire.MODEL, played.messages) == [(0, 2)]


def test_a_worker_is_told_whom_its_oldest_sum_waits_for_and_before_that_the_model() -> None:
    played = keeping(3, staleness=0)
    for number, ranks in ((1, (0,)), (2, (0, 1))):
        for rank in ranks:
            played.say(rank, Header(wire.GIVE, number=number, elements=4), ONES)
    assert [list(missing) for *_, missing in played.say(0, Header(wire.ASK))] == [[1, 2]]
    for rank in (0, 2):
        played.say(rank, Header(wire.UPDATE, members=1), update(rank))
    played.say(0, Header(wire.FETCH))
    assert [list(missing) for *_, missing in played.say(0, Header(wire.ASK))] == [[1]]


def test_a_norm_is_a_number_that_is_not_negative() -> None:
    played = keeping(1)
    for norm in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=f"an update of norm {norm:g}"):
            played.say(0, Header(wire.UPDATE, members=1), update(0, norm=norm))
    assert played.node.model.version == 0


def test_a_workers_updates_have_numbers_and_the_version_that_it_had() -> None:
    with mock.patch.object(ModelWorker, "_meet", lambda *wording: Meeting(1)):
        played = Played(ModelWorker(Nodes(Membership(3, 0, 2), [], 1)), range(2, 3))
    played.node.start(np.zeros(4, np.float32), label=MODEL, operation=Operation.KEEP)
    played.say(2, Header(wire.RESULT), ONES)
    wording = []
    for number, version in enumerate((5, 9), 1):
        started = played.node.start(np.zeros(4, np.float32), label=MODEL, operation=Operation.CHANGE)
        played.say(2, Header(wire.APPLIED, version=version - 1))
        with pytest.raises(ValueError, match="a message 6 with 16 bytes"):  # one that was fetched before
            played.say(2, Header(wire.MODEL, number=number - 1, version=99), ONES)
        played.say(2, Header(wire.MODEL, number=number, version=version), ONES)
        wording.append((started.version, started.update.computed_on, started.update.applied_at))
    assert wording == [(5, 0, 4), (9, 5, 8)]
    sent = [wire.members(memoryview(body), 1)[0] for _, header, body in played.messages if header.kind == wire.UPDATE]
    assert [(member.number, member.version) for member in sent] == [(0, 0), (1, 5)]


# --- workers and the server


class Group:
    """Workers and the server of a group, each on a loopback address of its own."""

    replicas = 0  # hosts behind the server

    def __init__(self, n: int, **server: Any) -> None:
        self.n, self.server = n, server
        first, pid = next(used) * 16, os.getpid()
        self.peers = [f"127.{pid >> 8 & 127 | 64}.{pid & 255}.{(first + i) % 250 + 1}" for i in range(n + 1 + self.replicas)]
        self.made: dict[str, Any] = {}  # by server: what it is
        self.ended: dict[str, str] = {}  # by server: "" where it was in order
        made = self.servers()
        self.in_order = dict.fromkeys(made, "")  # `ended` if all goes well
        self.threads = [threading.Thread(target=self._serve, args=wording, daemon=True) for wording in made.items()]

    def membership(self, rank: int) -> Membership:
        return Membership(3, rank, self.n, [list(range(self.n))])

    def servers(self) -> dict[str, Callable[[], Any]]:
        """How each server is made, by name."""
        group = Nodes(self.membership(self.n), self.peers, patience=10.0)
        met = partial(ModelServer.of_next_group, group, lambda: False, **self.server)
        return {"server 0": met}

    def worker(self, rank: int, **more: Any) -> ModelWorker:
        return ModelWorker(Nodes(self.membership(rank), self.peers, 1, **more))

    def of(self, name: str) -> Any:
        """This server, which may be made a little later than the workers are."""
        end = time.monotonic() + 10
        while name not in self.made and time.monotonic() < end:
            time.sleep(0.001)
        return self.made[name]

    def _serve(self, name: str, met: Callable[[], Any]) -> None:
        server = None
        try:
            server = self.made[name] = met()
            server.serve()
            self.ended[name] = ""
        except AggregationError as error:
            self.ended[name] = str(error)
        except BaseException as error:
            self.ended[name] = repr(error)
            raise
        finally:
            if server is not None:
                server.close()

    @contextmanager
    def workers(self, **more: Any) -> Iterator[list[ModelWorker]]:
        for thread in self.threads:
            thread.start()
        with ThreadPoolExecutor(self.n) as pool:
            made = list(pool.map(lambda rank: self.worker(rank, **more), range(self.n)))
        try:
            yield made
        finally:
            for worker in made:
                with suppress(OSError, ValueError):
                    worker.close()
            for thread in self.threads:
                thread.join(20)


def done(worker: ModelWorker, x: NDArray[Any], operation: Operation, label: Label = MODEL) -> Sum:
    started = worker.start(x, label=label, operation=operation)
    worker.advance(started)
    return started


def together(n: int, work: Any) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, range(n)))


def trained(group: Group, steps: int, pause: float = 0.002) -> tuple[list[Any], list[list[Update]], list[list[float]], list[Sum]]:
    """Every worker's changes, what became of them, when it had the model after each, and the model at the end."""
    first = np.arange(1000, dtype=np.int32).reshape(10, 100)
    with group.workers() as workers:

        def work(rank: int) -> Any:
            rng, worker = random.Random(rank), workers[rank]
            kept = done(worker, first if rank == 0 else np.zeros_like(first), Operation.KEEP)
            assert np.array_equal(kept.total, first) and kept.version == 0
            changes, updates, fetched = [], [], []
            for step in range(steps):
                time.sleep(pause * rng.random() * (1 + 3 * (rank == 0)))
                changes.append(np.full_like(first, rng.randrange(-1000, 1000) * (step + 1)))
                now = done(worker, changes[-1], Operation.CHANGE)
                fetched.append(time.monotonic())
                assert now.update is not None and now.version >= now.update.applied_at + 1
                updates.append(now.update)
            worker.all_reduce(np.zeros(1, np.float32))
            return changes, updates, fetched, done(worker, first, Operation.FETCH)

        found = together(group.n, work)
    changes, updates, fetched, last = zip(*found, strict=True)
    expected = first + sum(np.sum(mine, axis=0) for mine in changes)
    for model in last:
        assert np.array_equal(model.total, expected) and model.version == group.n * steps and model.update is None
    assert group.ended == group.in_order
    return list(changes), list(updates), list(fetched), list(last)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_update_is_in_the_model_once_and_its_delay_is_told(n: int) -> None:
    changes, updates, _, _ = trained(Group(n), 20)
    everybody = sorted((update for mine in updates for update in mine), key=lambda update: update.applied_at)
    assert [update.applied_at for update in everybody] == list(range(20 * n))
    assert [update.applied for update in everybody] == sorted(update.applied for update in everybody)
    for mine, given_ in zip(updates, changes, strict=True):
        for update, change in zip(mine, given_, strict=True):
            assert update.delay == update.applied_at - update.computed_on >= 0
            assert update.norm == pytest.approx(np.linalg.norm(change)) and update.octets == change.nbytes + wire.MEMBER.size
            assert update.requested <= update.sent <= update.applied and update.way == "server 0"


@pytest.mark.parametrize("staleness", [0, 1, 4])
def test_nobody_is_further_ahead_than_stale_synchronous_parallel_allows(staleness: int) -> None:
    """By the times of the workers alone: who has the model after k updates, has waited for k - s of each other."""
    _, updates, fetched, _ = trained(Group(4, staleness=staleness), 25)
    for rank in range(4):
        for k, when in enumerate(fetched[rank], 1):
            for other in range(4):
                assert sum(update.applied <= when for update in updates[other]) >= k - staleness
    most = max(
        k - sum(update.applied <= when for update in updates[other])
        for rank in range(4)
        for k, when in enumerate(fetched[rank], 1)
        for other in range(4)
    )
    assert most == staleness  # somebody was as far ahead as is allowed


def test_late_updates_count_for_less_where_it_is_asked_for() -> None:
    group = Group(2, corrected=True)
    with group.workers() as workers:
        together(2, lambda rank: done(workers[rank], np.zeros(10, np.float32), Operation.KEEP))
        for _ in range(3):
            assert done(workers[0], np.ones(10, np.float32), Operation.CHANGE).update.delay == 0
        late = done(workers[1], np.ones(10, np.float32), Operation.CHANGE)
        assert late.update.delay == 3 and late.total == pytest.approx(np.full(10, 3.5))  # 2 / (1 + 3)


def test_floats_are_summed_in_the_order_of_ranks() -> None:
    parts = [(np.random.default_rng(rank).standard_normal(999) * 10.0**rank).astype(np.float32) for rank in range(3)]
    with Group(3).workers() as workers:
        found = together(3, lambda rank: workers[rank].all_reduce(parts[rank]))
    assert all(np.array_equal(total, (parts[0] + parts[1]) + parts[2]) for total in found)


# --- what cannot be


def test_what_is_not_kept_cannot_be_changed() -> None:
    unkept = pytest.raises(ValueError, match="no tensor of 100 elements is kept under the name 'model'")
    with Group(1).workers() as (worker,), unkept:
        worker.start(np.zeros(100, np.float32), label=MODEL, operation=Operation.CHANGE)


@pytest.mark.parametrize(("size", "sentence"), [(99, "no tensor of 99 elements is kept"), (100, "is being changed: one change")])
def test_one_change_of_the_model_that_is_kept_is_under_way(size: int, sentence: str) -> None:
    with Group(1).workers() as (worker,):
        done(worker, np.zeros(100, np.float32), Operation.KEEP)
        worker.start(np.zeros(100, np.float32), label=MODEL, operation=Operation.CHANGE)
        with pytest.raises(ValueError, match=sentence):
            worker.start(np.zeros(size, np.float32), label=MODEL, operation=Operation.CHANGE)


def test_one_model_is_kept() -> None:
    with Group(1).workers() as (worker,):
        done(worker, np.zeros(100, np.float32), Operation.KEEP)
        with pytest.raises(ValueError, match="tensor 'model' is kept, and no other can be"):
            worker.start(np.zeros(9, np.float32), label=Label("other"), operation=Operation.KEEP)


@pytest.mark.parametrize(
    ("sizes", "dtypes", "operations"),
    [
        ((9, 10), (np.float32, np.float32), (Operation.SUM, Operation.SUM)),
        ((9, 9), (np.float32, np.int32), (Operation.SUM, Operation.SUM)),
        ((9, 9), (np.float32, np.float32), (Operation.SUM, Operation.KEEP)),
    ],
)
def test_workers_that_sum_different_tensors_are_told(sizes: Any, dtypes: Any, operations: Any) -> None:
    group, wording = Group(2), []

    def work(rank: int) -> None:
        try:
            done(workers[rank], np.zeros(sizes[rank], dtypes[rank]), operations[rank])
        except AggregationError as error:
            wording.append(str(error))

    with group.workers() as workers:
        together(2, work)
    assert len(wording) == 2 and all("the workers sum different tensors: " in text for text in wording)
    assert group.ended["server 0"].startswith("server 0: job 3 cannot be completed: ")


@pytest.mark.parametrize("late", [False, True])
def test_others_go_on_without_a_worker_that_leaves(late: bool) -> None:
    """Also those that would wait for it; and sums are those of who is left, whether it leaves before they begin or after."""
    group = Group(3, staleness=0)
    with group.workers() as workers:
        together(3, lambda rank: done(workers[rank], np.zeros(10, np.float32), Operation.KEEP))
        if not late:
            workers[2].close()
            together(2, lambda rank: [done(workers[rank], np.ones(10, np.float32), Operation.CHANGE) for _ in range(3)])
        else:
            threading.Timer(0.2, workers[2].close).start()
        sums = together(2, lambda rank: workers[rank].all_reduce(np.full(3, rank + 1, np.float32)))
    assert all(total.tolist() == [3, 3, 3] for total in sums)
    assert group.ended == {"server 0": ""}


def test_without_a_worker_there_is_no_model() -> None:
    with Group(2).workers() as workers:
        workers[1].close()
        with pytest.raises(AggregationError, match=r"worker 1 (left before sum 0|is gone)") as caught:
            done(workers[0], np.ones(3, np.float32), Operation.KEEP)
    assert caught.value.missing == (1,)


def test_a_worker_knows_whom_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    with Group(2, staleness=0).workers(patience=1.0) as workers:
        together(2, lambda rank: done(workers[rank], np.zeros(10, np.float32), Operation.KEEP))
        with pytest.raises(AggregationError, match=r"the model waits for worker 1, for 1 s") as caught:
            done(workers[0], np.ones(10, np.float32), Operation.CHANGE)
    assert caught.value.missing == (1,) and "worker 0: job 3: the model waits for worker 1" in caplog.text


def test_garbage_is_named_by_everyone() -> None:
    group = Group(2)
    with group.workers() as workers:
        workers[1].channels[2].connection.socket.send(b"\xff" * 99)
        with pytest.raises(AggregationError, match="worker 1 sent an invalid message: no message begins with ffff"):
            workers[0].all_reduce(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (Header(wire.MODEL), b""),
        (Header(wire.FETCH, size=4), b"abcd"),
        (Header(wire.FETCH), b""),  # nothing is kept
        (Header(wire.GIVE, size=3, elements=1), b"abc"),
        (Header(wire.UPDATE, members=1, size=wire.MEMBER.size), bytes(wire.MEMBER.size)),
    ],
)
def test_messages_that_do_not_fit_are_refused(header: Header, body: bytes) -> None:
    group = Group(2)
    with group.workers() as workers:
        workers[1].channels[2].connection.socket.send(header.pack() + body)
        with pytest.raises(AggregationError, match="worker 1 sent an invalid message"):
            workers[0].all_reduce(np.zeros(1, np.float32))


@pytest.mark.parametrize("member", [Member(0, 0, 0, 1.0), Member(1, 0, 9, 1.0)])
def test_an_update_is_of_its_sender_and_of_a_version_that_there_was(member: Member) -> None:
    group = Group(2)
    with group.workers() as workers:
        together(2, lambda rank: done(workers[rank], np.zeros(2, np.float32), Operation.KEEP))
        octets = member.pack() + bytes(8)
        workers[1].channels[2].connection.socket.send(Header(wire.UPDATE, members=1, size=len(octets)).pack() + octets)
        with pytest.raises(AggregationError, match="worker 1 sent an invalid message: an update of worker"):
            workers[0].all_reduce(np.zeros(1, np.float32))
