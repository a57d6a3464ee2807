"""Weights that Summation Services keep, and training that waits for nobody."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from inalab.hosts.byteps.worker import BytePS
from inalab.hosts.collective import AggregationError, Label, Operation, Update
from inalab.hosts.training.asynchronous import AsynchronousTrainer
from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.hosts.training.replica import Replica, preload
from inalab.hosts.training.stragglers import Straggler
from inalab.hosts.training.trainer import TrainingSettings
from inalab.testbed.record import steps
from tests.fake_network import Clock
from tests.torch_groups import Doubling
from tests.unit.test_byteps import Hosts

WEIGHTS = Label("weights")


def kept(worker: BytePS, x: np.ndarray[Any, Any], operation: Operation) -> tuple[np.ndarray[Any, Any], float]:
    started = worker.start(x, label=WEIGHTS, operation=operation)
    worker.advance(started)
    assert started.total is not None
    return started.total, started.version


@pytest.mark.parametrize(("n", "k"), [(1, 0), (2, 1), (4, 2)])
def test_every_change_is_in_what_is_kept_once(n: int, k: int) -> None:
    first = np.arange(1000, dtype=np.int32).reshape(10, 100)
    with Hosts(n, k).workers() as workers:

        def work(rank: int) -> tuple[list[float], list[np.ndarray[Any, Any]], np.ndarray[Any, Any], float]:
            rng = np.random.default_rng(rank)
            worker = workers[rank]
            found, version = kept(worker, first if rank == 0 else np.zeros_like(first), Operation.KEEP)
            assert np.array_equal(found, first) and version == 0
            versions, changes = [0.0], []
            for _ in range(10):
                time.sleep(0.002 * rank)
                changes.append(rng.integers(-1000, 1000, first.shape, np.int32))
                found, version = kept(worker, changes[-1], Operation.CHANGE)
                versions.append(version)
            worker.all_reduce(np.zeros(1, np.float32))
            return versions, changes, *kept(worker, np.zeros_like(first), Operation.FETCH)

        with ThreadPoolExecutor(n) as pool:
            ended = list(pool.map(work, range(n)))
    expected = first + sum(np.sum(changes, axis=0) for _, changes, _, _ in ended)
    for versions, _, weights, version in ended:
        assert np.array_equal(weights, expected)
        assert version == 10 * n
        assert all(after - before >= 1 for before, after in pairwise(versions))


def test_what_became_of_a_change_is_told() -> None:
    with Hosts(2, 1).workers() as workers:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda worker: kept(worker, np.zeros(100, np.float32), Operation.KEEP), workers))
        for version, worker in enumerate([workers[0], workers[0], workers[1]]):
            started = worker.start(np.full(100, 2, np.float32), label=WEIGHTS, operation=Operation.CHANGE)
            worker.advance(started)
            wording = started.update
            assert wording is not None and wording.requested <= wording.sent < wording.applied
            assert (wording.computed_on, wording.applied_at, wording.delay) == ((version, version, 0) if version < 2 else (0, 2, 2))
            assert (wording.norm, wording.octets, wording.way, wording.fetched_from) == (20.0, 400, "all services", "all services")


def test_a_change_waits_for_nobody() -> None:
    with Hosts(2).workers() as workers:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda worker: kept(worker, np.zeros(100, np.float32), Operation.KEEP), workers))
        for number in range(1, 6):
            weights, version = kept(workers[0], np.ones(100, np.float32), Operation.CHANGE)
            assert (weights == number).all() and version == number


@pytest.mark.parametrize("size", [0, 99])
def test_what_is_not_kept_cannot_be_changed(size: int) -> None:
    with Hosts(1).workers() as (worker,):
        if size:
            kept(worker, np.zeros(size, np.float32), Operation.KEEP)
        with pytest.raises(ValueError, match="no tensor of 100 elements is kept under the name 'weights'"):
            worker.start(np.zeros(100, np.float32), label=WEIGHTS, operation=Operation.CHANGE)


def test_one_change_of_a_workers_is_under_way_at_a_time() -> None:
    with Hosts(1).workers() as (worker,):
        kept(worker, np.zeros(100, np.float32), Operation.KEEP)
        worker.start(np.zeros(100, np.float32), label=WEIGHTS, operation=Operation.CHANGE)
        with pytest.raises(ValueError, match="tensor 'weights' is being changed"):
            worker.start(np.zeros(100, np.float32), label=WEIGHTS, operation=Operation.CHANGE)


def test_workers_that_do_not_agree_on_what_is_kept_are_told() -> None:
    wording = []
    with Hosts(2).workers() as workers:

        def work(rank: int) -> None:
            try:
                kept(workers[rank], np.zeros(100, np.float32), (Operation.KEEP, Operation.SUM)[rank])
            except AggregationError as error:
                wording.append(str(error))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
    assert len(wording) == 2 and all("some workers want sum 0 to be kept, and others do not" in text for text in wording)


def test_a_scheme_that_sums_alone_says_so() -> None:
    with pytest.raises(ValueError, match="Doubling has no operation KEEP"):
        Doubling().start(np.zeros(1, np.float32), operation=Operation.KEEP)


# --- training


class Keeper:
    """What the services would answer to one worker after 5 ms; `others` come before each of its changes, but those of `lost`."""

    def __init__(self, others: int, clock: Clock | None = None, lost: Collection[int] = ()) -> None:
        self.others, self.clock, self.lost = others, clock or Clock(), lost
        self.version = self.changes = 0
        self.weights = torch.zeros(0)

    def begin(self, tensor: torch.Tensor, label: Label, operation: Operation = Operation.SUM) -> Any:
        update = None
        self.clock.sleep(0.005)
        if operation == Operation.KEEP:
            self.weights = tensor.clone()
        elif operation == Operation.CHANGE:
            if self.changes in self.lost:
                update = Update(0.0, None, 0.0, 0, 0.0, None, None, "", "")
            else:
                self.weights += tensor
                self.version += 1 + self.others
            self.changes += 1
            tensor.copy_(self.weights)
        elif operation == Operation.FETCH:
            tensor.copy_(self.weights)
        return SimpleNamespace(wait=lambda: True, tensor=tensor, version=float(self.version), update=update, ended=self.clock.now)


def settings(steps: int = 6, **more: Any) -> TrainingSettings:
    return TrainingSettings("digits-mlp", steps, 1, 20.0, 2, Straggler(), pipeline=ASYNCHRONOUS, **more)


def trained(others: int, lost: Collection[int] = ()) -> tuple[list[Any], Replica, Keeper]:
    keeper = Keeper(others, Clock(), lost)
    trainer = AsynchronousTrainer(settings(), 0, 1, keeper.clock)
    return list(trainer.run(keeper.begin)), trainer.replica, keeper


def test_a_step_is_a_change_and_its_delay_what_others_changed() -> None:
    records, replica, keeper = trained(others=3)
    assert [r.version for r in records] == [4, 8, 12, 16, 20, 24]
    assert {r.delay for r in records} == {3}
    assert [r.number for r in records if r.accuracy is not None] == [1, 3, 5]
    assert records[-1].train_loss < records[0].train_loss
    assert torch.equal(replica.weights(), keeper.weights)
    for r in records:
        assert (r.ended - r.begun, r.busy, r.tat, r.padding) == pytest.approx((0.025, 0.02, 0.005, 0.02))
    assert [r.ended for r in records[:-1]] == [r.begun for r in records[1:]]


def test_the_first_worker_gives_the_weights_and_the_last_one_evaluates() -> None:
    clock, given = Clock(), []

    def begin(keeper: Keeper, tensor: torch.Tensor, label: Label, operation: Operation = Operation.SUM) -> Any:
        if operation == Operation.KEEP:
            given.append(tensor.clone())
        return keeper.begin(tensor, label, operation)

    for rank in (0, 1):
        trainer = AsynchronousTrainer(settings(steps=2), rank, 2, clock)
        weights = trainer.replica.weights()
        records = list(trainer.run(partial(begin, Keeper(0, clock))))
        assert torch.equal(given[rank], weights if rank == 0 else torch.zeros_like(weights))
        assert [r.accuracy is not None for r in records] == [False, rank == 1]


def test_a_change_is_a_workers_share_of_the_optimizers() -> None:
    alone, one_of_four = (Replica("digits-mlp", 1, 0, workers) for workers in (1, 4))
    for replica in (alone, one_of_four):
        replica.gradient(0)
    assert torch.allclose(4 * one_of_four.change(), alone.change(), rtol=1e-4, atol=1e-7)


def test_workers_that_pulled_different_weights_at_the_end_pull_again() -> None:
    """Worker 1 pulls from what has died since, and has a change that its replica lacks."""
    together, marks, pulls = Barrier(2, timeout=30), np.zeros(2, np.float32), [0, 0]
    keepers = [Keeper(others=0), Keeper(others=0)]

    def begin(rank: int, tensor: torch.Tensor, label: Label, operation: Operation = Operation.SUM) -> Any:
        if label == Label("digests"):
            marks[rank] = tensor[rank]
            together.wait()
            tensor.copy_(torch.from_numpy(marks))
            together.wait()
        answer = keepers[rank].begin(tensor, label, operation)
        if operation == Operation.FETCH:
            pulls[rank] += 1
            tensor.fill_(2 if (rank, pulls[rank]) == (1, 1) else 1)
        return answer

    def train(rank: int) -> str:
        trainer = AsynchronousTrainer(settings(steps=2), rank, 2)
        list(trainer.run(partial(begin, rank)))
        return trainer.digest()

    preload("digits-mlp")  # what it imports, two threads must not import at once
    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(train, range(2)))
    assert digests[0] == digests[1] and pulls == [2, 2]


def test_a_worker_that_has_left_is_not_compared_with() -> None:
    """Its place is 0: it has heard that all are equal, or is dead."""
    pulls, keeper = 0, Keeper(others=0)
    keeper.weights = torch.zeros(16_810)

    def begin(tensor: torch.Tensor, label: Label, operation: Operation = Operation.SUM) -> Any:
        nonlocal pulls
        pulls += operation == Operation.FETCH
        return keeper.begin(tensor, label, operation)

    trainer = AsynchronousTrainer(settings(steps=1), 1, 2, Clock())
    list(trainer.run(begin))
    assert pulls == 1


@pytest.mark.parametrize("lost", [(), {0}, {1}, {0, 2, 3}])
def test_one_worker_alone_does_what_an_optimizer_does(lost: Collection[int]) -> None:
    """A change that is dropped leaves no momentum."""
    _, replica, _ = trained(others=0, lost=lost)
    alone = Replica("digits-mlp", 1, 0, 1)
    for step in range(6):
        alone.gradient(step)
        if step not in lost:
            alone.optimizers[0].step()
    assert torch.allclose(replica.weights(), alone.weights(), atol=1e-6)
    for own, same in zip(replica._velocity(), alone._velocity(), strict=True):
        assert own is not None and torch.allclose(own, same, atol=1e-6)


def record(rank: int, step: int, begun: float, ended: float) -> dict[str, Any]:
    return {
        "rank": rank,
        "step": step,
        "begun": begun,
        "ended": ended,
        "tat": 0.1,
        "compute": 0.4,
        "padding": 0.1,
        "version": step + 1,
    }


def test_steps_that_wait_for_nobody_are_each_by_themselves() -> None:
    fast, slow = [record(0, i, i, i + 1) for i in range(3)], [record(1, 0, 0, 2.5)]
    found = [fast[0], slow[0], *fast[1:]]
    assert steps.exchanges(found) == [[r] for r in found]
    assert steps.periods(found) == [1, 1, 1, 2.5]
    assert steps.aggregation_time([slow[0]]) == pytest.approx(0.1)
    assert steps.shares([[slow[0]]])["waiting_mean"] == 0
