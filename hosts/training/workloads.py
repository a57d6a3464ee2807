"""What can be trained, by name: a model, its data, its loss, how batches are drawn and how it is judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from inalab.hosts.training.architectures import catalog
from inalab.hosts.training.datasets import VOCABULARY, Dataset, digits, noise, text

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


class Tensors(nn.Module):
    """Layers of such parameters, which share the input."""

    def __init__(self, elements: tuple[int, ...]) -> None:
        super().__init__()
        self.elements = elements
        for number, n in enumerate(elements):
            self.add_module(f"{number}", Tensor(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [layer(part) for layer, part in zip(self.children(), torch.split(x, list(self.elements)), strict=True)]
        return torch.stack(parts).sum()


@dataclass(frozen=True)
class Workload:
    """A model to train on a dataset; `learning_rate` and `batch` (per worker) are what it trains well with.

    `weights` are the compute times of its layers in relation to each other, front first; without them their multiply-adds are.
    """

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[], Dataset]
    learning_rate: float
    batch: int
    sequences: bool = False
    weights: tuple[float, ...] | None = None

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
        Workload("digits-mlp-deep", lambda: mlp((192,) * 3), digits, learning_rate=0.1, batch=16),  # 88,522
        Workload("digits-cnn", cnn, digits, learning_rate=0.05, batch=16),  # 13,706
        Workload("characters", CharacterModel, text, learning_rate=1.0, batch=8, sequences=True),  # 31,232
    )
}

TENSOR, LAYERS = "tensor-", "layers-"
MOST_ELEMENTS = 20_000_000  # of a tensor that workers have in memory
MOST_LAYERS = 1000
TERM = re.compile(r"(?:(\d+)x)?(\d+)(?:@(\d+(?:\.\d+)?))?")  # 4x10000@2: four layers of 10,000 elements and weight 2
PROFILES = {
    "vgg-like": "layers-2x2000@4+3x10000@4+120000@1+10000@1",  # most compute in front, most parameters at the back
    "resnet-like": "layers-16x10000",  # both spread evenly
    "transformer-like": "layers-48000@0.1+8x14000@1+48000@1",  # between two tables of tokens
}


def find(name: str) -> Workload:
    """The workload of that name, also tensor-N for tensors of N elements, and layers-N+N+… for tensors in layers.

    A term of layers may be COUNTxN, and N@WEIGHT for the layer's compute time in relation to the others' (1 where it is not said).
    The name of an architecture, or of its file, is for tensors in its layers, of as many elements as it has. ValueError says which
    there are.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    if (architecture := catalog.find(name)) is not None:
        whole = [(layer.elements, layer.multiply_adds) for layer in architecture.layers]
        return _aggregation(name, *zip(*whole, strict=True))
    layers = _layers(PROFILES.get(name, name))
    if layers and len(layers) <= MOST_LAYERS and min(layers)[0] > 0 and sum(n for n, _ in layers) <= MOST_ELEMENTS:
        elements, weights = zip(*layers, strict=True)
        if sum(weights) > 0:
            return _aggregation(name, elements, weights)
    known = ", ".join((*WORKLOADS, *PROFILES, *catalog.ARCHITECTURES))
    raise ValueError(
        f"workload {name} is unknown: choose one of {known}, tensor-N for N elements, at most {MOST_ELEMENTS:,}, "
        "or layers-N+N+… for such tensors in layers (docs/explanation/training.md)"
    )


def check_memory(name: str) -> None:
    """Raise ValueError for a workload that is more than workers have in memory."""
    workload = find(name)
    if isinstance(workload, Aggregation) and workload.elements > MOST_ELEMENTS:
        least = next(2**n for n in range(1, 64) if workload.elements <= MOST_ELEMENTS * 2**n)
        smaller = catalog.divided(name, least)
        raise ValueError(
            f"workload {name} has {workload.elements:,} elements, and workers hold {MOST_ELEMENTS:,}: set workload={smaller} "
            f"and divide the links' rates by {least}, or choose target simulated"
        )


def _layers(name: str) -> list[tuple[int, float]]:
    """Elements and weight of each layer, as a name says; none if it is no such name."""
    if name.startswith(TENSOR) and name.removeprefix(TENSOR).isdecimal():
        return [(int(name.removeprefix(TENSOR)), 1.0)]
    found: list[tuple[int, float]] = []
    for term in name.removeprefix(LAYERS).split("+") if name.startswith(LAYERS) else ():
        if (match := TERM.fullmatch(term)) is None or int(match[1] or 1) > MOST_LAYERS:
            return []
        found += [(int(match[2]), float(match[3] or 1))] * int(match[1] or 1)
    return found


def _aggregation(name: str, elements: tuple[int, ...], weights: tuple[float, ...]) -> Workload:
    total = sum(elements)
    model = partial(Tensor, total) if name.startswith(TENSOR) else partial(Tensors, elements)
    return Aggregation(name, model, partial(noise, total), learning_rate=1e-6, batch=1, weights=weights, elements=total)
