"""Which sums are compared with what the workers gave: some elements of some sums, the same on all workers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

STEPS, ELEMENTS = 4, 64  # at most
STREAM = 15  # of random numbers that are no other's
SEED = "INALAB_CHECK_SUMS"  # the environment variable with the seed that a script's sums are drawn from


@dataclass
class Sample:
    """Of one sum: the elements, what this worker gave, the largest magnitude in its whole tensor, and what it got.

    A sum of `integers` has no error.
    """

    elements: list[int]
    given: list[float]
    largest: float
    got: list[float]
    integers: bool = False

    @classmethod
    def given_in(cls, layers: list[torch.Tensor], elements: list[int]) -> Sample:
        """What a worker gives, as tensors one behind the other."""
        extremes = [float(extreme) for layer in layers if layer.numel() for extreme in torch.aminmax(layer)]
        largest = float(np.max(np.abs(extremes), initial=0.0))
        return cls(elements, _at(layers, elements), largest, [], not layers[0].is_floating_point())

    def of_sum(self, sums: list[torch.Tensor]) -> Sample:
        """The sample with what the worker got."""
        return replace(self, got=_at(sums, self.elements))


class Sampling:
    """Of a training: draws steps, and elements for each of them, from its seed."""

    def __init__(self, seed: int, steps: int, elements: int) -> None:
        draw = np.random.default_rng([seed, STREAM])
        chosen = sorted(draw.choice(steps, min(STEPS, steps), replace=False).tolist())
        self.of_step = {step: _drawn(draw, elements) for step in chosen}

    def before(self, step: int, layers: list[torch.Tensor]) -> Sample | None:
        """What a worker gives in this step; None where it is not among those that were drawn."""
        return Sample.given_in(layers, self.of_step[step]) if step in self.of_step else None


class ScriptSampling:
    """Of a script, of which it is unknown how many sums it has: the first `STEPS`, and ever fewer of the later ones.

    The nth is drawn with probability STEPS / n, so of n sums some STEPS (1 + ln(n / STEPS)).

    A number is drawn for each, so that all workers draw the same ones, also after one whose tensors differ in size.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.draw = seed, np.random.default_rng([seed, STREAM])
        self.begun = 0

    @staticmethod
    def from_environment() -> ScriptSampling | None:
        """The one of this process; None where it was not requested."""
        return _sampling(int(os.environ[SEED])) if SEED in os.environ else None

    def before(self, tensor: torch.Tensor) -> tuple[int, Sample] | None:
        """The number of a sum that begins, from 0, and what a worker gives; None where it was not drawn."""
        self.begun += 1
        if self.draw.random() * self.begun >= STEPS:
            return None
        number, given = self.begun - 1, tensor.detach().reshape(-1)
        elements = _drawn(np.random.default_rng([self.seed, STREAM, number]), given.numel())
        return number, Sample.given_in([given], elements)


@cache
def _sampling(seed: int) -> ScriptSampling:
    """One for all groups of a process, whose sums it numbers."""
    return ScriptSampling(seed)


def _drawn(draw: np.random.Generator, elements: int) -> list[int]:
    """The first and the last, where chunks and packets end, and others; in rising order."""
    if elements <= ELEMENTS:
        return list(range(elements))
    inner = 1 + draw.choice(elements - 2, ELEMENTS - 2, replace=False)
    return [0, *np.sort(inner).tolist(), elements - 1]


def _at(layers: list[torch.Tensor], elements: list[int]) -> list[float]:
    """Elements of the tensors, as they are one behind the other; in rising order."""
    found: list[float] = []
    first = 0
    for layer in layers:
        inside = [element - first for element in elements if first <= element < first + layer.numel()]
        found += layer[inside].tolist()
        first += layer.numel()
    return found
