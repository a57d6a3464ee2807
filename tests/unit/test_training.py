"""Data-parallel training is SGD on the union of the workers' batches, and its records say what each step took."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from inalab.hosts.collective import Counters, Label
from inalab.hosts.drivers.sockets import NICENESS
from inalab.hosts.training.datasets import digits
from inalab.hosts.training.pace import padded_sleep
from inalab.hosts.training.replica import MOMENTUM, Replica
from inalab.hosts.training.stragglers import Straggler
from inalab.hosts.training.trainer import Trainer, TrainingSettings
from inalab.hosts.training.workloads import find, mlp
from tests.fake_network import Clock

SEED = 5


def settings(**change: Any) -> TrainingSettings:
    plain: dict[str, Any] = {
        "workload": "digits-mlp", "steps": 6, "seed": SEED, "compute_ms": 1.0, "evaluate_every": 4, "straggler": Straggler(),
    }  # fmt: skip
    return TrainingSettings(**{**plain, **change})


class Summed:
    """A sum under way, as torch.distributed.Work."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def wait(self) -> None:
        assert self.over.wait(30)

    def finish(self) -> None:
        self.over.set()


class Group:
    """Workers of one process; a sum takes `delay` seconds, of its tensor or of all, from when the last of them has begun it."""

    def __init__(self, size: int, delay: float | dict[str, float] = 0.0) -> None:
        self.size, self.delay, self.lock = size, delay, threading.Lock()
        self.begun: dict[str, dict[int, tuple[torch.Tensor, Summed]]] = {}  # by tensor and rank
        self.labels: list[list[Label]] = [[] for _ in range(size)]

    def begin(self, rank: int, tensor: torch.Tensor, label: Label) -> Summed:
        made = Summed()
        with self.lock:
            self.labels[rank].append(label)
            here = self.begun.setdefault(label.name, {})
            here[rank] = tensor, made
            if len(here) == self.size:
                seconds = self.delay[label.name] if isinstance(self.delay, dict) else self.delay
                threading.Timer(seconds, self._end, [self.begun.pop(label.name)]).start()
        return made

    @staticmethod
    def _end(sums: dict[int, tuple[torch.Tensor, Summed]]) -> None:
        total = sum(sums[rank][0] for rank in sorted(sums))
        for tensor, made in sums.values():
            tensor.copy_(total)
            made.finish()


def trained(
    size: int = 2, delay: float | dict[str, float] = 0.0, counters: Callable[[], Counters] = Counters, **change: Any
) -> tuple[list[Trainer], list[list[dict[str, Any]]]]:
    """The trainers of `size` workers after training, and their records, by rank."""
    group = Group(size, delay)
    trainers = [Trainer(settings(**change), rank, size) for rank in range(size)]
    records: list[list[dict[str, Any]]] = [[] for _ in range(size)]

    def work(rank: int) -> None:
        for record in trainers[rank].run(partial(group.begin, rank), counters):
            records[rank].append(record)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(len(found) == trainers[0].settings.steps for found in records)
    return trainers, records


class Played(SimpleNamespace):
    """A sum in virtual time, which passes where a worker computes."""

    def wait(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.clock.now = max(self.clock.now, self.ended)


def in_virtual_time(
    delays: dict[str, float],
    rank: int = 0,
    took: float = 0.0,
    pause: float = 0.0,
    **change: Any,
) -> list[dict[str, Any]]:
    """A worker's records where its sums take these delays, by label, its real computations `took`, and its caller a `pause`."""
    clock = Clock()
    trainer = Trainer(settings(**change), rank, 1, clock)
    trainer.replica.parameters[0].register_hook(lambda gradient: clock.sleep(took))
    records = []
    for record in trainer.run(lambda tensor, label: Played(clock=clock, ended=clock.now + delays[label.name])):
        records.append(record)
        clock.sleep(pause)
    return records


def alone(tensor: torch.Tensor, label: Label) -> Summed:
    """The sum of one worker."""
    made = Summed()
    made.finish()
    return made


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
    return torch.cat([p.detach().reshape(-1) for p in trainer.replica.parameters])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_workers_do_what_one_process_does_on_all_their_batches(size: int) -> None:
    trainers, _ = trained(size)
    expected = reference(size, 6)
    for trainer in trainers:
        assert torch.allclose(parameters(trainer), expected, rtol=1e-4, atol=1e-5)
    assert len({trainer.digest() for trainer in trainers}) == 1


def test_batch_and_learning_rate_that_are_set_are_used() -> None:
    trainers, _ = trained(batch=4, learning_rate=0.02)
    assert torch.allclose(parameters(trainers[0]), reference(2, 6, batch=4, rate=0.02), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(parameters(trainers[0]), reference(2, 6), rtol=1e-4, atol=1e-5)


def test_every_rank_step_and_seed_draws_a_batch_of_its_own() -> None:
    def gradient(rank: int, step: int, seed: int = SEED) -> torch.Tensor:
        torch.manual_seed(0)
        replica = Replica("digits-mlp", seed, rank, 4)
        replica.model.load_state_dict(start)
        return replica.gradient(step).layers[0]

    start = Replica("digits-mlp", SEED, 0, 4).model.state_dict()
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
    for p in trainer.replica.parameters:
        with torch.no_grad():
            p.view(-1)[-1] += 1e-3
        digests.add(trainer.digest())
    assert len(digests) == 1 + len(trainer.replica.parameters)


@pytest.mark.parametrize(("rank", "virtual"), [(0, 0.1), (1, 0.4)])
def test_a_step_is_padded_to_its_virtual_time_and_the_sum_is_timed_alone(rank: int, virtual: float) -> None:
    slow = Straggler("slow", rank=1, factor=4.0)
    records = in_virtual_time({"model": 0.02}, rank, took=0.03, compute_ms=100.0, straggler=slow)
    for r in records:
        assert (r.rank, r.elements) == (rank, 16_810)
        assert r.ended - r.begun == pytest.approx(virtual + 0.02)
        assert (r.busy, r.tat, r.compute, r.padding) == pytest.approx((virtual, 0.02, 0.03, virtual - 0.03))
    assert [r.ended for r in records[:-1]] == [r.begun for r in records[1:]]


def test_stragglers_are_drawn_for_each_rank_and_step() -> None:
    """And what the worker does besides takes no virtual time."""
    model = Straggler("exponential", mean=0.5)
    for rank in (0, 1):
        records = in_virtual_time({"model": 0.0}, rank, pause=0.003, compute_ms=20.0, straggler=model)
        assert [r.busy for r in records] == pytest.approx([0.020 * model.slowdown(SEED, rank, step) for step in range(6)])
        assert [r.ended for r in records[:-1]] == pytest.approx([r.begun for r in records[1:]], abs=1e-6)


def test_virtual_time_that_is_too_short_is_negative_padding() -> None:
    records = in_virtual_time({"model": 0.02}, took=0.05, compute_ms=10.0)
    assert [r.padding for r in records] == pytest.approx([-0.04] * 6)
    assert [r.ended - r.begun for r in records] == pytest.approx([0.07] * 6)


def test_evaluation_is_rank_0s_every_so_many_steps_and_at_the_end() -> None:
    trainers, records = trained(steps=10)
    assert [r.number for r in records[0] if r.accuracy is not None] == [3, 7, 9]
    assert not [r for r in records[1] if r.accuracy is not None]
    last = find("digits-mlp").evaluate(trainers[0].replica.model, digits())
    assert {key: getattr(records[0][-1], key) for key in last} == last
    assert not [r for r in records[0] if r.error is not None]


def test_the_error_of_a_sum_is_relative_to_the_sum_in_float64() -> None:
    def too_large(tensor: torch.Tensor, label: Label) -> Summed:  # by 1 %; two equal workers
        tensor.mul_(2.02)
        return alone(tensor, label)

    found = list(Trainer(settings(measure_error=True), 0, 2, all_reduce=lambda tensor: tensor.mul_(2.0)).run(too_large))
    assert [r.number for r in found if r.error is not None] == [3, 5]
    assert [r.error for r in found if r.error is not None] == pytest.approx([0.01, 0.01], rel=1e-4)


def test_round_trips_are_means_over_the_results_of_a_step() -> None:
    wording = iter([Counters(waited=1.0, results=10), Counters(waited=4.0, results=20), Counters(waited=4.0, results=20)])
    found = list(Trainer(settings(steps=3), 0, 1).run(alone, lambda: next(wording)))
    assert [r.rtt for r in found] == pytest.approx([0.1, 0.3, 0.0])


def test_sleep_lasts_until_the_time_is_there() -> None:
    class Restless(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(min(seconds, 0.3))

    clock = Restless()
    padded_sleep(clock.now + 1, clock)
    assert clock.now == 1001
    padded_sleep(clock.now - 5, clock)  # over already
    assert clock.now == 1001


def test_a_worker_is_ready_once_it_has_warmed_up() -> None:
    """Passes that are slow only in a new process do not hold up the first step."""
    trainer, seen = Trainer(settings(steps=1), 0, 1), []
    for name in ("gradient", "evaluate"):
        real = getattr(trainer.replica, name)
        setattr(trainer.replica, name, lambda *given, name=name, real=real: (seen.append(name), real(*given))[1])
    list(trainer.run(alone, on_ready=lambda: seen.append("ready")))
    assert seen == ["gradient", "evaluate", "ready", "gradient", "evaluate"]


def test_threads_that_compute_give_way_to_those_that_communicate() -> None:
    computing: list[int] = []
    trainer = Trainer(settings(steps=2), 0, 1)
    gradient = trainer.replica.gradient
    own = lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())  # noqa: E731

    def watched(step: int) -> Any:
        computing.append(own())
        return gradient(step)

    def begin(tensor: torch.Tensor, label: Label) -> Summed:
        computing.append(own())
        return alone(tensor, label)

    before = own()
    trainer.replica.gradient = watched  # type: ignore[method-assign]
    list(trainer.run(begin))
    nice = min(before + NICENESS, 19)
    assert computing == [nice, nice, before, nice, before]  # the first warms up


# --- layers


@pytest.mark.parametrize("pipeline", ["barrier", "cross-barrier"])
def test_pipelines_train_the_same_model_to_the_bit(pipeline: str) -> None:
    plain, _ = trained(3, workload="digits-mlp-large")
    layered, records = trained(3, delay=0.005, workload="digits-mlp-large", pipeline=pipeline, compute_ms=30.0)
    assert {trainer.digest() for trainer in layered} == {plain[0].digest()}
    assert [len(r.layers) for r in records[0]] == [3] * 6
    assert {r.elements for r in records[0]} == {301_066}


def test_sums_begin_with_the_last_layer_and_the_first_is_the_most_urgent() -> None:
    group = Group(1)
    list(Trainer(settings(steps=2, pipeline="barrier"), 0, 1).run(partial(group.begin, 0)))
    assert group.labels[0] == [Label("2", 1), Label("0", 0)] * 2


def test_a_layers_times_are_its_shares_of_the_virtual_time() -> None:
    """Of 90 ms: 30 forward, of which the first layer has 20, and then 60 backward, of which the last has 20."""
    shape = {"workload": "layers-100@2+50@1", "pipeline": "barrier", "compute_ms": 90.0}
    for r in in_virtual_time({"0": 0.01, "1": 0.08}, took=0.05, **shape):
        (first, last), begun = r.layers, r.begun
        assert [when - begun for when in first] == pytest.approx([0, 0.02, 0.09, 0.10])
        assert [when - begun for when in last] == pytest.approx([0.02, 0.03, 0.05, 0.13])
        assert (r.busy, r.tat) == pytest.approx((0.09, 0.08))
        assert r.ended == last[3]


@pytest.mark.parametrize(
    ("pipeline", "change", "period"),
    [
        ("blocking", {}, 0.48),
        ("barrier", {}, 0.36),
        ("cross-barrier", {}, 0.33),
        ("cross-barrier", {"forward": 0.5}, 0.33),
        ("barrier", {"forward": 0.5}, 0.375),
    ],
)
def test_how_much_of_the_communication_a_pipeline_hides(pipeline: str, change: dict[str, Any], period: float) -> None:
    """Two layers compute for 30 ms forward and 60 backward; the last one's sum takes 240 ms, the first one's 60.

    With a barrier a step waits for the last layer, whose gradient is there after 120 ms. Without, the first layer computes meanwhile.
    """
    delays = {"0": 0.06, "1": 0.24, "model": 0.3}
    records = in_virtual_time(delays, workload="layers-2x100", pipeline=pipeline, compute_ms=180.0, **change)
    assert np.diff([r.begun for r in records])[1:] == pytest.approx([period] * 4)
    assert [r.compute for r in records] == [0.0] * 6  # what it waited for in its forward pass is no computation
    for r in records:
        assert (r.busy, r.padding >= 0) == (pytest.approx(0.18), True)
        for number, (*_, begun, ended) in enumerate(r.layers or ()):
            assert ended - begun == pytest.approx(delays[f"{number}"])


def test_a_step_that_computes_for_too_long_moves_its_gradients() -> None:
    """The last layer's was due after 2 ms of 3, and comes after 50."""
    shape = {"workload": "layers-2x100", "pipeline": "barrier", "compute_ms": 3.0}
    for r in in_virtual_time({"0": 0.0, "1": 0.0}, took=0.05, **shape):
        assert r.padding == pytest.approx(-0.048)
        assert [layer[2] - r.begun for layer in r.layers] == pytest.approx([0.051, 0.05])
