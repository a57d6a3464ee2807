"""When a job's workers come to the sums of their steps, by when they had those of the step before (hosts.training.trainer).

Sums are numbered over all steps, in the order in which workers come to them: in each step the last layer's first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.training.pipeline import BLOCKING, Pass, ready, scheduled


class Steps:
    """Of workers that compute for so many seconds in each step, (workers, steps), from `start` on.

    `forward` and `backward` are the layers' parts of that, front first; without them there is one sum, behind all of it.
    """

    def __init__(
        self, compute: NDArray[np.float64], start: float = 0.0, pipeline: str = BLOCKING, forward: Sequence[float] = (0.0,),
        backward: Sequence[float] = (1.0,),
    ) -> None:  # fmt: skip
        self.compute, self.start, self.pipeline, self.forward, self.backward = compute, start, pipeline, forward, backward
        self.workers, self.steps = compute.shape
        self.layers = len(forward)
        self.sums = self.steps * self.layers
        self.passes: list[list[Pass]] = [[] for _ in range(self.workers)]  # of the steps that each worker has begun
        self.ended = np.zeros((self.workers, self.sums))  # when each worker had each sum

    def layer(self, number: int) -> int:
        """The layer of the sum of this number."""
        return self.layers - 1 - number % self.layers

    def begin(self, worker: int) -> list[float]:
        """When the worker, which has all sums of the step before, comes to those of its next step; empty behind the last."""
        begun = self.passes[worker]
        if len(begun) == self.steps:
            return []
        free, due = self.start, [self.start] * self.layers
        if begun:
            free, due = begun[-1].ended, ready(self.pipeline, self.summed(worker, len(begun) - 1))
        takes = float(self.compute[worker, len(begun)])
        begun.append(scheduled(free, due, [takes * part for part in self.forward], [takes * part for part in self.backward]))
        return begun[-1].backward[::-1]

    def summed(self, worker: int, step: int) -> list[float]:
        """When the worker had the sums of this step's layers, front first."""
        found: list[float] = self.ended[worker, step * self.layers : (step + 1) * self.layers].tolist()
        return found[::-1]
