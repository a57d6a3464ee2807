"""Data-parallel training is SGD on the union of the workers' batches, and its records say what each step took."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hosts.collective import Counters
from hosts.training import trainer as training
from hosts.training.datasets import digits
from hosts.training.stragglers import Straggler
from hosts.training.trainer import MOMENTUM, NICENESS, Trainer, TrainingSettings, padded_sleep
from hosts.training.workloads import find, mlp

SEED = 5


def settings(**change: Any) -> TrainingSettings:
    plain: dict[str, Any] = {
        "workload": "digits-mlp", "steps": 6, "seed": SEED, "compute_ms": 1.0, "evaluate_every": 4, "straggler": Straggler(),
    }  # fmt: skip
    return TrainingSettings(**{**plain, **change})


class Group:
    """Workers of one process: all_reduce sums over the threads that call it."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier, self.parts = size, threading.Barrier(size), {}
        self.delay = 0.0

    def all_reduce(self, tensor: torch.Tensor) -> None:
        self.parts[threading.get_ident()] = tensor.clone()
        self.barrier.wait(20)
        total = sum(self.parts.values())
        self.barrier.wait(20)
        time.sleep(self.delay)
        tensor.copy_(total)


def trained(
    monkeypatch: pytest.MonkeyPatch, size: int = 2, delay: float = 0.0, counters: Callable[[], Counters] = Counters, **change: Any
) -> tuple[list[Trainer], list[list[dict[str, Any]]]]:
    """The trainers of `size` workers after training, and their records, by rank."""
    group = Group(size)
    group.delay = delay
    monkeypatch.setattr(training.dist, "all_reduce", group.all_reduce)
    trainers = [Trainer(settings(**change), rank, size) for rank in range(size)]
    records: list[list[dict[str, Any]]] = [[] for _ in range(size)]

    def work(rank: int) -> None:
        for record in trainers[rank].run(counters):
            records[rank].append(record)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(len(found) == trainers[0].settings.steps for found in records)
    return trainers, records


def reference(size: int, steps: int, batch: int = 16, rate: float = 0.1) -> torch.Tensor:
    """One process that takes the batches of all workers as one, with torch's own SGD; all its parameters."""
    data = digits()
    torch.manual_seed(SEED)
    model = mlp((224,))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    for step in range(steps):
        drawn = [np.random.default_rng([SEED, rank, step, 1]).integers(0, len(data.train_x), batch) for rank in range(size)]
        rows = torch.from_numpy(np.concatenate(drawn))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data.train_x[rows]), data.train_y[rows]).backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def parameters(trainer: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in trainer.parameters])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_workers_do_what_one_process_does_on_all_their_batches(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    trainers, _ = trained(monkeypatch, size)
    expected = reference(size, 6)
    for trainer in trainers:
        assert torch.allclose(parameters(trainer), expected, rtol=1e-4, atol=1e-5)
    assert len({trainer.digest() for trainer in trainers}) == 1


def test_batch_and_learning_rate_that_are_set_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    trainers, _ = trained(monkeypatch, batch=4, learning_rate=0.02)
    assert torch.allclose(parameters(trainers[0]), reference(2, 6, batch=4, rate=0.02), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(parameters(trainers[0]), reference(2, 6), rtol=1e-4, atol=1e-5)


def test_every_rank_step_and_seed_draws_a_batch_of_its_own() -> None:
    def gradient(rank: int, step: int, seed: int = SEED) -> torch.Tensor:
        torch.manual_seed(0)
        trainer = Trainer(settings(seed=seed), rank, 4)
        trainer.model.load_state_dict(start)
        return trainer._gradient(step)[0]

    start = Trainer(settings(), 0, 4).model.state_dict()
    drawn = [gradient(0, 0), gradient(1, 0), gradient(2, 0), gradient(0, 1), gradient(0, 0, SEED + 1)]
    for i, one in enumerate(drawn):
        assert not any(one.equal(other) for other in drawn[:i])
    assert gradient(1, 0).equal(drawn[1])


def test_replicas_start_equal_and_seeds_differ() -> None:
    digests = [Trainer(settings(seed=seed), rank, 2).digest() for seed, rank in ((1, 0), (1, 1), (2, 0))]
    assert digests[0] == digests[1] != digests[2]


def test_a_digest_changes_with_any_parameter() -> None:
    trainer = Trainer(settings(), 0, 1)
    digests = {trainer.digest()}
    for p in trainer.parameters:
        with torch.no_grad():
            p.view(-1)[-1] += 1e-3
        digests.add(trainer.digest())
    assert len(digests) == 1 + len(trainer.parameters)


def test_a_step_is_padded_to_its_virtual_time_and_the_sum_is_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Straggler("slow", rank=1, factor=4.0)
    _, records = trained(monkeypatch, 2, delay=0.02, steps=3, compute_ms=100.0, straggler=slow)
    for rank, virtual in ((0, 0.1), (1, 0.4)):
        for r in records[rank]:
            assert (r["rank"], r["elements"]) == (rank, 16_810)
            assert r["compute"] + r["padding"] == pytest.approx(virtual, abs=1e-6)
            assert virtual + r["tat"] <= r["ended"] - r["begun"] + 1e-6
            assert r["tat"] >= 0.02
    for fast, late in zip(records[0][1:], records[1][1:], strict=True):
        assert fast["tat"] > late["tat"] + 0.04  # it waits for the slow one
    for before, after in zip(records[0], records[0][1:], strict=False):
        assert before["ended"] == after["begun"]


def test_stragglers_are_drawn_for_each_rank_and_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Straggler("exponential", mean=0.5)
    _, records = trained(monkeypatch, 2, steps=3, compute_ms=20.0, straggler=model)
    for rank in (0, 1):
        virtual = [r["compute"] + r["padding"] for r in records[rank]]
        assert virtual == pytest.approx([0.020 * model.slowdown(SEED, rank, step) for step in range(3)], abs=1e-6)


def test_virtual_time_that_is_too_short_is_negative_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    _, records = trained(monkeypatch, 1, steps=2, compute_ms=1e-6)
    assert max(r["padding"] for r in records[0]) < 0


def test_evaluation_is_rank_0s_every_so_many_steps_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    trainers, records = trained(monkeypatch, steps=10)
    assert [r["step"] for r in records[0] if "accuracy" in r] == [3, 7, 9]
    assert not [r for r in records[1] if "accuracy" in r]
    last = find("digits-mlp").evaluate(trainers[0].model, digits())
    assert {key: records[0][-1][key] for key in last} == last
    assert not [r for r in records[0] if "error" in r]


def test_the_error_of_a_sum_is_relative_to_the_sum_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_reduce(tensor: torch.Tensor) -> None:  # two equal workers; float32 sums come out 1 % too large
        tensor.mul_(2.0 if tensor.dtype == torch.float64 else 2.02)

    monkeypatch.setattr(training.dist, "all_reduce", all_reduce)
    found = list(Trainer(settings(measure_error=True), 0, 2).run())
    assert [r["step"] for r in found if "error" in r] == [3, 5]
    assert [r["error"] for r in found if "error" in r] == pytest.approx([0.01, 0.01], rel=1e-4)


def test_round_trips_are_means_over_the_results_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.dist, "all_reduce", lambda tensor: None)
    told = iter([Counters(waited=1.0, results=10), Counters(waited=4.0, results=20), Counters(waited=4.0, results=20)])
    found = list(Trainer(settings(steps=3), 0, 1).run(lambda: next(told)))
    assert [r["rtt"] for r in found] == pytest.approx([0.1, 0.3, 0.0])


def test_sleep_lasts_until_the_time_is_there() -> None:
    begun = time.monotonic()
    padded_sleep(begun + 0.02)
    assert 0.02 <= time.monotonic() - begun < 2
    padded_sleep(begun - 5)  # over already


def test_threads_that_compute_give_way_to_those_that_communicate(monkeypatch: pytest.MonkeyPatch) -> None:
    computing: list[int] = []
    trainer = Trainer(settings(steps=2), 0, 1)
    gradient = trainer._gradient
    own = lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())  # noqa: E731

    def watched(step: int) -> Any:
        computing.append(own())
        return gradient(step)

    before = own()
    monkeypatch.setattr(trainer, "_gradient", watched)
    monkeypatch.setattr(training.dist, "all_reduce", lambda tensor: computing.append(own()))
    list(trainer.run())
    assert computing == [before + NICENESS, before + NICENESS, before, before + NICENESS, before]  # the first warms up
