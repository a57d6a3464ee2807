"""Whether a job's sums are sums: samples of them against the sum, in float64, of what the workers gave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.sampling import Sample
from inalab.schemes.scheme import Scheme

LARGEST = 2.0**31  # from here on a sum of int32 wraps, or saturates
LARGEST_FLOAT = float(np.finfo(np.float32).max)  # from here on a sum of float32 may be infinite


class Sampled(NamedTuple):
    """What a worker, by rank, has sampled of a step or sum of this number."""

    number: int
    rank: int
    sample: Sample


class Comparison(NamedTuple):
    """Of sampled sums with what the workers gave: how many were compared, in how many elements, and what is wrong with the first
    wrong one, or ""."""

    sums: int
    elements: int
    wrong: str


def compared(
    sampled: Iterable[Sampled], workers: int | Mapping[int, int], scheme: Scheme, settings: Any, what: str = "step"
) -> Comparison:
    """Compare what all `workers` have sampled; how many those are, or in each step, where that changes.

    A sum is wrong where it is farther from the one in float64 than the scheme states; one of integers where it is not equal to
    it, unless it wraps. Steps (or `what` a sample is of) that not all workers tell of are left out, as are those with a number
    that is not finite, and those of which the scheme states nothing. Tensors of different sizes have no sum.
    """
    steps: dict[int, dict[int, Sample]] = defaultdict(dict)
    for number, rank, sample in sampled:
        steps[number][rank] = sample
    sums = elements = 0
    wrong = ""
    for step, samples in sorted(steps.items()):
        largest = float(np.max([sample.largest for sample in samples.values()]))  # NaN where any is
        if len(samples) < (workers if isinstance(workers, int) else workers[step]) or not np.isfinite(largest):
            continue
        if _sizes_differ(samples):
            wrong = wrong or f"in {what} {step + 1} the workers gave tensors of different sizes"
            continue
        total = _total(samples, largest, scheme, settings)
        stated = int(np.isfinite(total.allowed).sum())
        sums += bool(stated)
        elements += len(samples) * stated
        wrong = wrong or _first_wrong(samples, total, f"{what} {step + 1}", scheme)
    return Comparison(sums, elements, wrong)


class Total(NamedTuple):
    """What the workers gave in all, in float64, and how far from it a sum may be; infinitely where nothing is stated."""

    expected: NDArray[np.float64]
    allowed: NDArray[np.float64]


def _sizes_differ(samples: dict[int, Sample]) -> bool:
    """The elements that are drawn depend on the size alone, and the last one is among them."""
    return len({tuple(sample.elements) for sample in samples.values()}) > 1


def _total(samples: dict[int, Sample], largest: float, scheme: Scheme, settings: Any) -> Total:
    given = np.array([sample.given for sample in samples.values()])
    expected, magnitudes = given.sum(axis=0), np.abs(given).sum(axis=0)
    allowed = scheme.sum_error(settings, len(samples), largest, magnitudes)
    if any(sample.integers for sample in samples.values()):
        allowed = np.where(np.abs(expected) < LARGEST, 0.0, np.inf)
    return Total(expected, np.where(magnitudes < LARGEST_FLOAT, allowed, np.inf))


def _first_wrong(samples: dict[int, Sample], total: Total, where: str, scheme: Scheme) -> str:
    for rank, sample in sorted(samples.items()):
        got = np.array(sample.got)
        for at in np.flatnonzero(np.isfinite(total.allowed) & ~(np.abs(got - total.expected) <= total.allowed))[:1]:
            return (
                f"in {where} element {sample.elements[at]} of the sum is {got[at]:.9g} at worker {rank}, and the workers gave "
                f"{total.expected[at]:.9g} in all: {scheme.name} does not sum as exactly as it states"
            )
    return ""
