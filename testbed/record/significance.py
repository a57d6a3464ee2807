"""Whether what differs between two runs could be chance: a p-value for each comparison, and how many of them were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

CONFIDENCE = 0.95  # that no difference is found by chance, in all comparisons of two runs together
LEVEL = 1 - CONFIDENCE
RESAMPLES = 9999  # of ranks that are tied


@dataclass(frozen=True)
class Evidence:
    """`p`: the chance of values that differ as much if nothing does; `least`: the smallest p that so many values can have."""

    p: float
    least: float
    seeds: int
    pairs: bool

    @property
    def empty(self) -> bool:
        """Whether the values are equal everywhere, so that there is nothing to test."""
        return math.isnan(self.p)

    def needed(self, comparisons: int) -> int:
        """How many seeds, in each run, can tell among so many comparisons."""
        least = _least_of_pairs if self.pairs else _least_of_ranks
        n = 1
        while least(n) > LEVEL / comparisons:
            n += 1
        return n


def by_pairs(differences: Sequence[float]) -> Evidence:
    """The sign test: of n pairs that differ, how many do so in one direction. n of n have a chance of 2^(1 − n)."""
    signs = [d > 0 for d in differences if d]
    p = float(scipy.stats.binomtest(sum(signs), len(signs)).pvalue) if signs else math.nan
    return Evidence(p, _least_of_pairs(len(differences)), len(differences), True)


def by_ranks(a: Sequence[float], b: Sequence[float]) -> Evidence:
    """Mann and Whitney's test between the values of different seeds, exact."""
    fewer, tied = min(len(a), len(b)), len({*a, *b}) < len(a) + len(b)
    method = scipy.stats.PermutationMethod(RESAMPLES, rng=np.random.default_rng(0)) if tied else "exact"
    p = math.nan if len({*a, *b}) == 1 else float(scipy.stats.mannwhitneyu(a, b, method=method).pvalue)
    return Evidence(p, min(1.0, 2 / math.comb(len(a) + len(b), len(a))), fewer, False)


def holm(values: Sequence[float]) -> list[float]:
    """The p-values, each corrected for their number: none of those up to L is a chance find, with a probability of 1 − L.

    Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    adjusted, highest = [0.0] * len(values), 0.0
    for place, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - place) * values[i]))
        adjusted[i] = highest
    return adjusted


@dataclass(frozen=True)
class Verdict:
    """Of one comparison among several: `different` is None where no values of so few seeds could tell; `p` is corrected."""

    different: bool | None
    p: float | None


def judged(evidence: Sequence[Evidence]) -> list[Verdict]:
    """A verdict for each comparison, all of them together at CONFIDENCE. Equal values are no difference, and no comparison."""
    tested = [i for i, e in enumerate(evidence) if not e.empty]
    found = holm([evidence[i].p for i in tested])
    best = holm([evidence[i].least for i in tested])  # what could have been found
    verdicts = [Verdict(False, None)] * len(evidence)
    for i, p, possible in zip(tested, found, best, strict=True):
        verdicts[i] = Verdict(p <= LEVEL, p) if possible <= LEVEL else Verdict(None, None)
    return verdicts


def _least_of_pairs(n: int) -> float:
    return min(1.0, 2.0 ** (1 - n))


def _least_of_ranks(n: int) -> float:
    return 2 / math.comb(2 * n, n)
