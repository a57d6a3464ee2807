"""An architecture as a table: how many parameters each layer has and what it computes, and how fast a GPU was seen to train it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

MOST_LAYERS, MOST = 1000, 10**12


@dataclass(frozen=True)
class LayerShape:
    """A layer's trainable parameters, and the multiply-adds of its forward pass for one sample."""

    name: str
    elements: int
    multiply_adds: float


@dataclass(frozen=True)
class Timing:
    """Milliseconds that one GPU computes in a step, on so many samples (None: not stated); `source`: who measured it, with what."""

    step: float
    batch: int | None
    source: str

    @classmethod
    def of_rate(cls, samples_per_second: float, batch: int, source: str) -> Timing:
        """Of a GPU that trains so many samples a second, in batches."""
        return cls(1000 * batch / samples_per_second, batch, source)


@dataclass(frozen=True)
class Architecture:
    """Layers, front first, and timings by GPU. A file of one's own defines one as ARCHITECTURE.

    A step's time is shared among the layers by their multiply-adds; `forward` is the forward pass's part of it.
    """

    name: str
    layers: tuple[LayerShape, ...]
    timings: dict[str, Timing]
    forward: float | None = None  # unless it is known, a third

    @property
    def elements(self) -> int:
        return sum(layer.elements for layer in self.layers)

    def check(self) -> None:
        """Raise ValueError for a table that cannot be."""
        its = self.layers
        if not 1 <= len(its) <= MOST_LAYERS or not all(isinstance(la.elements, int) and 0 < la.elements <= MOST for la in its):
            raise ValueError(f"{self.name} needs from 1 to {MOST_LAYERS} layers, each with from 1 to {MOST:,} elements")
        if not all(0 <= la.multiply_adds < math.inf for la in its) or not any(la.multiply_adds for la in its):
            raise ValueError(f"{self.name} has layers whose multiply-adds are no numbers, or none has any")
        if not all(0 < t.step < math.inf and (t.batch is None or t.batch > 0) for t in self.timings.values()):
            raise ValueError(f"{self.name} has times or batches that are not above 0")

    def part(self, of: int) -> Architecture:
        """The same with layers of one element in so many, for links that are slower by as much."""
        return replace(self, layers=tuple(replace(la, elements=-(-la.elements // of)) for la in self.layers))

    def step(self, gpu: str, batch: int | None = None) -> float:
        """Milliseconds on this GPU, in proportion to the batch where that is another. ValueError where that is not known."""
        timing = self.timing(gpu)
        if batch is None:
            return timing.step
        if timing.batch is None:
            raise ValueError(f"the batch of {self.name} on gpu {gpu} is not stated: leave batch out")
        return timing.step * batch / timing.batch

    def timing(self, gpu: str) -> Timing:
        """Raises ValueError where none was seen on this GPU."""
        if gpu not in self.timings:
            known = f"choose one of {', '.join(self.timings)}" if self.timings else "set compute_ms"
            raise ValueError(f"no time of {self.name} on gpu {gpu} is known: {known}")
        return self.timings[gpu]


def convolution(name: str, inputs: int, outputs: int, kernel: int, side: int, norm: bool = False) -> LayerShape:
    """Of a square kernel, into a picture of side² pixels; with a bias, or with batch normalization behind it."""
    weights = inputs * outputs * kernel**2
    return LayerShape(name, weights + outputs * (2 if norm else 1), weights * side**2)


def linear(name: str, inputs: int, outputs: int, times: float = 1) -> LayerShape:
    """With a bias; applied so many times to a sample."""
    return LayerShape(name, inputs * outputs + outputs, inputs * outputs * times)


def joined(name: str, parts: Iterable[LayerShape]) -> LayerShape:
    """Several that count as one layer."""
    parts = list(parts)
    return LayerShape(name, sum(p.elements for p in parts), sum(p.multiply_adds for p in parts))
