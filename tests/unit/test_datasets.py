"""The data that is trained on and judged by: what is in the test set is never trained on, and y belongs to x."""

from __future__ import annotations

import numpy as np
import torch

from hosts.training.datasets import Dataset, digits, noise, text
from hosts.training.stragglers import Straggler
from hosts.training.workloads import CONTEXT, TEST_SEQUENCES, WORKLOADS


def rows(x: torch.Tensor) -> list[bytes]:
    return [row.numpy().tobytes() for row in x]


def test_digits_are_split_once_and_scaled() -> None:
    from sklearn.datasets import load_digits

    data, whole = digits(), load_digits()
    images = rows(torch.from_numpy((whole.data / 16).astype(np.float32)))
    labels = dict(zip(images, whole.target, strict=True))
    assert (data.train_x.shape, data.test_x.shape) == ((1437, 64), (360, 64))
    assert sorted(rows(data.train_x) + rows(data.test_x)) == sorted(images)
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert [labels[row] for row in rows(x)] == y.tolist()


def test_the_next_character_is_what_follows_in_the_text() -> None:
    data = text()
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert len(x) == len(y)
        assert x[1:].equal(y[:-1])
    assert round(len(data.test_x) / (len(data.train_x) + len(data.test_x)), 3) == 0.1
    assert int(data.train_x.max()) < 128


def test_noise_has_the_elements_and_room_to_move() -> None:
    assert len(noise(100).train_x) == 100 + 4096
    assert noise(100).train_x.equal(noise(101).train_x[:4196])


def test_accuracy_is_that_of_the_test_set() -> None:
    """A model that is right on all of the test set and wrong on all of the training set."""
    x = torch.arange(8.0).reshape(8, 1)
    data = Dataset("made", x, torch.zeros(8, dtype=torch.int64), x, torch.ones(8, dtype=torch.int64), "")

    class Right(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tensor([0.0, 9.0]).expand(len(x), 2)

    found = WORKLOADS["digits-mlp"].evaluate(Right(), data)
    assert found["accuracy"] == 1.0
    assert found["test_loss"] < 0.001


def test_text_is_judged_from_its_beginning_to_its_end() -> None:
    codes = torch.arange(1000) % 128
    data = Dataset("made", codes, codes, codes, codes, "")
    seen: list[torch.Tensor] = []

    class Watching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return torch.nn.functional.one_hot(x, 128).float()

    assert WORKLOADS["characters"].evaluate(Watching(), data)["accuracy"] == 1.0
    assert seen[0].shape == (TEST_SEQUENCES, CONTEXT)
    assert (int(seen[0][0, 0]), int(seen[0][-1, -1])) == (int(codes[0]), int(codes[-1]))


def test_each_worker_and_each_step_draws_for_itself() -> None:
    model = Straggler("exponential")
    drawn = {(rank, step): model.slowdown(4, rank, step) for rank in range(4) for step in range(4)}
    assert len(set(drawn.values())) == 16
    assert drawn[1, 2] != model.slowdown(5, 1, 2)
