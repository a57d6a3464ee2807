"""Medians with intervals that hold the true median with a known probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

FEWEST = 3  # values; two tell nothing about their spread


class Interval(NamedTuple):
    """The median of n values, and the bounds of its interval; the bounds are NaN where n is too small to tell."""

    median: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        """Whether there are bounds."""
        return not math.isnan(self.low)

    def overlaps(self, other: Interval) -> bool:
        """Whether the two have a value in common; False also where one has no bounds."""
        return self.low <= other.high and other.low <= self.high

    def holds(self, value: float) -> bool:
        """Whether `value` lies within the bounds; False also where there are none."""
        return self.low <= value <= self.high


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median and the interval between two order statistics that holds the true median with this confidence or more.

    The bounds are the kth least and the kth greatest value, with the largest k for which the chance that the true median is
    outside, 2 P(Binomial(n, 1/2) < k), is at most 1 - confidence (David and Nagaraja, Order Statistics, section 7.1). Of
    fewer than six values they are the least and the greatest, whatever `confidence` is: `coverage` says what they hold.
    Fewer than three values have a median and no bounds; no values have neither. ValueError for values that are not finite.
    """
    sample = sorted(map(float, values))
    if not all(map(math.isfinite, sample)):
        raise ValueError("a median's interval needs finite values")
    n = len(sample)
    if n < FEWEST:
        return Interval(median(sample) if n else math.nan, math.nan, math.nan, n)
    k = _rank(n, confidence)
    return Interval(median(sample), sample[k - 1], sample[n - k], n)


def coverage(n: int, confidence: float = 0.95) -> float:
    """The probability with which the interval of n independent values holds the true median; 0 where it has no bounds."""
    return 1 - 2 * _below(_rank(n, confidence), n) if n >= FEWEST else 0.0


def _rank(n: int, confidence: float) -> int:
    """The k for which the kth values from both ends bound the median."""
    k = 1
    while k < (n + 1) // 2 and 2 * _below(k + 1, n) <= 1 - confidence:
        k += 1
    return k


def _below(k: int, n: int) -> float:
    """The chance that fewer than k of n values are below their true median."""
    return sum(math.comb(n, i) for i in range(k)) / 2.0**n
