"""Stragglers: how much longer than its base time a worker's compute step takes, from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

# of each kind
PARAMETERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "slow": ("rank", "factor"),
    "exponential": ("mean",),
    "pareto": ("shape",),
    "bimodal": ("factor", "probability"),
    "lognormal": ("sigma",),
}
KINDS = tuple(PARAMETERS)


@dataclass(frozen=True)
class Straggler:
    """A distribution of slow-down factors. A step's virtual compute time is the base time times the factor.

    none         1
    slow         worker `rank` takes `factor` times as long, always
    exponential  shifted exponential: 1 + Exp with mean `mean`; E[max of n] = 1 + mean * H_n
    pareto       Pareto with minimum 1 and shape `shape`
    bimodal      `factor` with probability `probability`, else 1
    lognormal    exp(`sigma` * Z), Z standard normal
    """

    kind: str = "none"
    rank: int = 0
    factor: float = 3.0
    mean: float = 1.0
    shape: float = 2.0
    probability: float = 0.1
    sigma: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"straggler {self.kind} is unknown: choose one of {', '.join(KINDS)}")
        if self.factor < 1 or self.mean < 0 or self.shape <= 0 or self.sigma < 0 or not 0 <= self.probability <= 1:
            raise ValueError(f"the parameters of straggler {self.kind} are out of range: {self}")

    def slowdown(self, seed: int, rank: int, step: int) -> float:
        """The factor of one worker's step: the same for the same (seed, rank, step), whatever else happens."""
        rng = np.random.default_rng([seed, rank, step])
        draw: dict[str, Callable[[], float]] = {
            "none": lambda: 1.0,
            "slow": lambda: self.factor if rank == self.rank else 1.0,
            "exponential": lambda: 1.0 + rng.exponential(self.mean),
            "pareto": lambda: 1.0 + rng.pareto(self.shape),
            "bimodal": lambda: self.factor if rng.random() < self.probability else 1.0,
            "lognormal": lambda: math.exp(self.sigma * rng.standard_normal()),
        }
        return float(draw[self.kind]())


@dataclass(frozen=True)
class Slowing:
    """A worker's steps take `factor` times as long, from some seconds into the training or from its step of that number (from 1)
    on, for so many seconds."""

    rank: int
    factor: float
    at: float | None
    step: int | None
    lasts: float = math.inf


class Slowness:
    """The slowings of one worker."""

    def __init__(self, slowings: Iterable[Slowing], rank: int) -> None:
        self.begun = {slowing: slowing.at for slowing in slowings if slowing.rank == rank}  # when each has; None: not yet

    def factor(self, step: int, now: float) -> float:
        """Of the step of this number, from 0, that begins so many seconds into the training."""
        found = 1.0
        for slowing, begun in self.begun.items():
            if begun is None and slowing.step is not None and step + 1 >= slowing.step:
                begun = self.begun[slowing] = now
            if begun is not None and begun <= now < begun + slowing.lasts:
                found *= slowing.factor
        return found
