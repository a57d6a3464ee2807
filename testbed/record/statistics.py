"""Medians with bootstrap intervals: what plots draw and `inalab compare` decides by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

FEWEST = 3  # values; resampling two tells nothing about their spread
RESAMPLES = 4999
BATCH_VALUES = 1 << 20  # resampled values held in memory at once


class Interval(NamedTuple):
    """The median of n values, and between what bounds it lies; the bounds are NaN where n is too small to tell."""

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


def median_interval(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """The median and its bootstrap interval (percentile method, resampled from `seed`, so equal for equal values).

    Fewer than three values have a median and no bounds; no values have neither. ValueError for values that are not finite.

    The percentile method, because the jackknife that BCa corrects by is not consistent for a median (Efron and
    Tibshirani, An Introduction to the Bootstrap, section 11.6). Of few values the bounds are the least and the greatest, which
    hold the true median with a probability of 1 − 2/2ⁿ: 75 % for three, 94 % for five, whatever `confidence` asks for.
    """
    sample = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(sample).all():
        raise ValueError("a median's interval needs finite values")
    if sample.size < FEWEST:
        return Interval(float(np.median(sample)) if sample.size else math.nan, math.nan, math.nan, int(sample.size))
    bounds = scipy.stats.bootstrap(  # imported here, which takes half a second
        (sample,), np.median, confidence_level=confidence, n_resamples=RESAMPLES, method="percentile", vectorized=True,
        batch=max(1, BATCH_VALUES // sample.size), rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Interval(float(np.median(sample)), float(bounds.low), float(bounds.high), int(sample.size))
