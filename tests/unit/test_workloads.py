"""Models, data, batches and judgement of what is trained."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from inalab.hosts.training.datasets import VOCABULARY, digits, noise, text
from inalab.hosts.training.stragglers import Straggler
from inalab.hosts.training.workloads import CONTEXT, MOST_ELEMENTS, TEST_SEQUENCES, WORKLOADS, Aggregation, find

SIZES = {"digits-mlp": 16_810, "digits-mlp-large": 301_066, "digits-mlp-deep": 88_522, "digits-cnn": 13_706, "characters": 31_232}


@pytest.mark.parametrize("name", SIZES)
def test_models_have_the_size_that_is_stated(name: str) -> None:
    assert sum(p.numel() for p in find(name).model().parameters()) == SIZES[name]
    assert set(SIZES) == set(WORKLOADS)


def test_digits_to_test_are_none_that_are_trained() -> None:
    data = digits()
    assert (len(data.train_x), len(data.test_x)) == (1437, 360)
    assert data.train_x.shape[1] == 64 and float(data.train_x.max()) == 1.0 and float(data.train_x.min()) == 0.0
    from sklearn.datasets import load_digits

    images = [row.tobytes() for row in (load_digits().data / 16).astype(np.float32)]
    labels, split = dict(zip(images, load_digits().target, strict=True)), []
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        split += (rows := [row.numpy().tobytes() for row in x])
        assert [labels[row] for row in rows] == y.tolist()
    assert sorted(split) == sorted(images)


def test_text_predicts_the_next_character() -> None:
    data = text()
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert len(x) == len(y) and x[1:].equal(y[:-1]) and int(x.max()) < VOCABULARY
    assert len(data.test_x) == pytest.approx(0.1 * (len(data.train_x) + len(data.test_x)), rel=0.01)
    workload = find("characters")
    x, y = workload.sample(data, 8, np.random.default_rng(1))
    assert x.shape == y.shape == (8, CONTEXT)
    assert x[:, 1:].equal(y[:, :-1])
    joined = data.train_x.numpy().tobytes()
    assert all(row.numpy().tobytes() in joined for row in x)
    assert len({row.numpy().tobytes() for row in x}) > 1


def test_a_batch_is_drawn_with_its_labels() -> None:
    data, workload = digits(), find("digits-mlp")
    x, y = workload.sample(data, 400, np.random.default_rng(1))
    labels = {row.numpy().tobytes(): int(label) for row, label in zip(data.train_x, data.train_y, strict=True)}
    assert [labels[row.numpy().tobytes()] for row in x] == y.tolist()
    rows = np.random.default_rng(1).integers(0, len(data.train_x), 400)
    assert x.equal(data.train_x[torch.from_numpy(rows)])


class Answers(nn.Module):
    """Says the class that a row's first number is, with all its weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 50.0 * nn.functional.one_hot(x[:, 0].long(), 10).float()


def test_evaluation_counts_the_right_answers_of_the_test_set() -> None:
    from dataclasses import replace

    y = torch.arange(10)
    x = torch.zeros(10, 64)
    x[:, 0] = torch.where(y < 7, y, (y + 1) % 10)
    found = find("digits-mlp").evaluate(Answers(), replace(digits(), test_x=x, test_y=y))
    assert found["accuracy"] == pytest.approx(0.7)
    assert found["test_loss"] == pytest.approx(0.3 * 50, rel=1e-3)


def test_evaluation_of_text_is_spread_over_all_of_it() -> None:
    seen: list[torch.Tensor] = []

    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return torch.zeros(*x.shape, VOCABULARY)

    data = text()
    found = find("characters").evaluate(Constant(), data)
    assert found["test_loss"] == pytest.approx(math.log(VOCABULARY))
    (x,) = seen
    assert x.shape == (TEST_SEQUENCES, CONTEXT)
    assert x[0].equal(data.test_x[:CONTEXT]) and x[-1].equal(data.test_x[-CONTEXT:])


def test_loss_is_a_mean_in_nats() -> None:
    uniform = find("digits-mlp").loss(nn.Linear(64, 10, bias=False).requires_grad_(False), torch.zeros(5, 64), torch.arange(5))
    assert float(uniform) == pytest.approx(math.log(10))


def test_a_tensor_is_its_own_gradient() -> None:
    workload = find("tensor-1000")
    assert isinstance(workload, Aggregation)
    data, model = workload.data(), workload.model()
    x, y = workload.sample(data, 1, np.random.default_rng(3))
    workload.loss(model, x, y).backward()
    (parameter,) = model.parameters()
    assert parameter.grad is not None and parameter.grad.equal(x) and x.shape == (1000,)
    places = {float(workload.sample(data, 1, np.random.default_rng(s))[0][0]) for s in range(50)}
    assert len(places) > 40
    assert len(noise(1000).train_x) == 1000 + 4096
    with pytest.raises(ValueError, match="unknown"):
        find(f"tensor-{MOST_ELEMENTS + 1}")


@pytest.mark.parametrize(
    "change",
    [{"factor": 0.99}, {"mean": -0.1}, {"shape": 0.0}, {"sigma": -0.1}, {"probability": 1.1}, {"probability": -0.1}],
)
def test_stragglers_out_of_range_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        Straggler("slow", **change)  # type: ignore[arg-type]


def test_slowdowns_differ_by_seed_rank_and_step() -> None:
    model = Straggler("exponential")
    drawn = {model.slowdown(seed, rank, step) for seed in range(4) for rank in range(4) for step in range(4)}
    assert len(drawn) == 64
    assert min(Straggler("pareto").slowdown(1, 0, s) for s in range(200)) >= 1.0
    assert {Straggler("bimodal", factor=7, probability=0.5).slowdown(1, 0, s) for s in range(50)} == {1.0, 7.0}
    assert Straggler("lognormal", sigma=0).slowdown(1, 2, 3) == 1.0
