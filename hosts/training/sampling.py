"""Which sums of a training are compared with what the workers gave: some elements of some steps, the same on all workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

STEPS, ELEMENTS = 4, 64  # at most
STREAM = 15  # of random numbers that are nobody else's


@dataclass
class Sample:
    """Of one sum: the elements, what this worker gave, the largest magnitude in its whole tensor, and what it got."""

    elements: list[int]
    given: list[float]
    largest: float
    got: list[float]


class Sampling:
    """Draws steps, and elements for each of them, from a training's seed."""

    def __init__(self, seed: int, steps: int, elements: int) -> None:
        draw = np.random.default_rng([seed, STREAM])
        chosen = sorted(draw.choice(steps, min(STEPS, steps), replace=False).tolist())
        self.of_step: dict[int, NDArray[np.int64]] = {step: self._drawn(draw, elements) for step in chosen}

    @staticmethod
    def _drawn(draw: np.random.Generator, elements: int) -> NDArray[np.int64]:
        """The first and the last, where chunks and packets end, and others."""
        if elements <= ELEMENTS:
            return np.arange(elements)
        inner = 1 + draw.choice(elements - 2, ELEMENTS - 2, replace=False)
        return np.concatenate([[0, elements - 1], np.sort(inner)])

    def before(self, step: int, layers: list[torch.Tensor]) -> Sample | None:
        """What a worker gives in this step; None where it is not among those that were drawn."""
        if step not in self.of_step:
            return None
        elements = self.of_step[step].tolist()
        extremes = [float(extreme) for layer in layers for extreme in torch.aminmax(layer)]
        return Sample(elements, _at(layers, elements), float(np.max(np.abs(extremes))), [])

    @staticmethod
    def after(sample: Sample, sums: list[torch.Tensor]) -> dict[str, Any]:
        """The sample with what the worker got, for the step's record."""
        sample.got = _at(sums, sample.elements)
        return asdict(sample)


def _at(layers: list[torch.Tensor], elements: list[int]) -> list[float]:
    """Elements of the tensors, as they are one behind the other; in rising order."""
    found: list[float] = []
    first = 0
    for layer in layers:
        inside = [element - first for element in elements if first <= element < first + layer.numel()]
        found += layer[inside].tolist()
        first += layer.numel()
    return found
