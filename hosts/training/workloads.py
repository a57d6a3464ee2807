"""What can be trained, by name: a model, its data, its loss, how batches are drawn and how it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from hosts.training.datasets import VOCABULARY, Dataset, digits, noise, text

CONTEXT = 32  # characters that the language model sees
TEST_SEQUENCES = 64


class CharacterModel(nn.Module):
    """A character language model: embedding, one GRU, and the next character's logits. (batch, time) -> (batch, time, V)."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.gru = nn.GRU(32, hidden, batch_first=True)
        self.output = nn.Linear(hidden, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.gru(self.embedding(x))[0])  # type: ignore[no-any-return]


def mlp(hidden: tuple[int, ...]) -> nn.Module:
    """A multi-layer perceptron for digits: 64 inputs, ReLU layers, 10 classes."""
    layers: list[nn.Module] = []
    width = 64
    for h in hidden:
        layers += [nn.Linear(width, h), nn.ReLU()]
        width = h
    return nn.Sequential(*layers, nn.Linear(width, 10))


def cnn() -> nn.Module:
    """A small convolutional network for digits."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


class Tensor(nn.Module):
    """Parameters whose gradient is its input: a tensor to aggregate where what it is trained for does not matter."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(elements))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values @ x


@dataclass(frozen=True)
class Workload:
    """A model to train on a dataset; `learning_rate` and `batch` (per worker) are what it trains well with."""

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[], Dataset]
    learning_rate: float
    batch: int
    sequences: bool = False

    def sample(self, data: Dataset, batch: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch drawn with replacement; for text, `batch` sequences of CONTEXT characters."""
        if not self.sequences:
            rows = torch.from_numpy(rng.integers(0, len(data.train_x), batch))
            return data.train_x[rows], data.train_y[rows]
        starts = rng.integers(0, len(data.train_x) - CONTEXT, batch)
        cut = torch.from_numpy(starts[:, None] + np.arange(CONTEXT))
        return data.train_x[cut], data.train_y[cut]

    def loss(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy, in nats per sample (or per character)."""
        return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, data: Dataset) -> dict[str, float]:
        """test_loss and accuracy on the test set (for text, on sequences spread evenly over it)."""
        x, y = data.test_x, data.test_y
        if self.sequences:
            starts = np.linspace(0, len(x) - CONTEXT, TEST_SEQUENCES).astype(np.int64)
            cut = torch.from_numpy(starts[:, None] + np.arange(CONTEXT))
            x, y = x[cut], y[cut]
        logits = model(x).flatten(0, -2)
        y = y.flatten()
        loss, hits = nn.functional.cross_entropy(logits, y), (logits.argmax(1) == y).float()
        return {"test_loss": float(loss), "accuracy": float(hits.mean())}


@dataclass(frozen=True)
class Aggregation(Workload):
    """No training: each worker's tensor of `elements` normal numbers is summed in each step."""

    elements: int = 0

    def sample(self, data: Dataset, batch: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """The tensor, cut from a longer one at a place that is drawn."""
        start = int(rng.integers(0, len(data.train_x) - self.elements + 1))
        return data.train_x[start : start + self.elements], data.train_y

    def loss(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Its gradient is the tensor."""
        return model(x)  # type: ignore[no-any-return]

    def evaluate(self, model: nn.Module, data: Dataset) -> dict[str, float]:
        """There is nothing to evaluate."""
        return {}


WORKLOADS = {
    w.name: w
    for w in (
        Workload("digits-mlp", lambda: mlp((224,)), digits, learning_rate=0.1, batch=16),  # 16,810 parameters
        Workload("digits-mlp-large", lambda: mlp((512, 512)), digits, learning_rate=0.1, batch=16),  # 301,066
        Workload("digits-cnn", cnn, digits, learning_rate=0.05, batch=16),  # 13,706
        Workload("characters", CharacterModel, text, learning_rate=1.0, batch=8, sequences=True),  # 31,232
    )
}

TENSOR = "tensor-"
MOST_ELEMENTS = 20_000_000


def find(name: str) -> Workload:
    """The workload of that name, also tensor-N for tensors of N elements; ValueError says which there are."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    digits = name.removeprefix(TENSOR)
    if name.startswith(TENSOR) and digits.isdecimal() and 0 < (n := int(digits)) <= MOST_ELEMENTS:
        return Aggregation(name, lambda: Tensor(n), lambda: noise(n), learning_rate=1e-6, batch=1, elements=n)
    known = ", ".join(WORKLOADS)
    raise ValueError(f"workload {name} is unknown: choose one of {known}, or tensor-N for N elements, at most {MOST_ELEMENTS:,}")
