"""Bootstrap intervals of medians, held to what is known of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from inalab.testbed.record.statistics import Interval, median_interval


def test_interval_is_that_of_order_statistics() -> None:
    """For 1..99 the bootstrap median's distribution is binomial (Efron 1979): its quantiles are the bounds."""
    values = list(range(1, 100))
    cumulative = [1 - binom.cdf(49, 99, m / 99) for m in values]  # P(resampled median <= m): at least 50 of 99 draws are <= m
    low = next(m for m, p in zip(values, cumulative, strict=True) if p >= 0.025)
    high = next(m for m, p in zip(values, cumulative, strict=True) if p >= 0.975)
    interval = median_interval(values)
    assert interval.median == 50
    assert interval.low == pytest.approx(low, abs=1)
    assert interval.high == pytest.approx(high, abs=1)
    assert interval.n == 99


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    hits = sum(median_interval(rng.exponential(size=25).tolist(), confidence=0.9).holds(math.log(2)) for _ in range(100))
    assert 82 <= hits <= 98


def test_more_confidence_is_wider_and_equal_values_give_equal_bounds() -> None:
    values = np.random.default_rng(1).normal(10, 1, 40).tolist()
    narrow, wide = median_interval(values, confidence=0.5), median_interval(values, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert median_interval(values) == median_interval(values)


def test_constant_values_have_an_interval_of_no_width() -> None:
    assert median_interval([0.25] * 5) == Interval(0.25, 0.25, 0.25, 5)


@pytest.mark.parametrize(("values", "median"), [([3.0], 3.0), ([1.0, 2.0], 1.5)])
def test_few_values_have_no_bounds(values: list[float], median: float) -> None:
    interval = median_interval(values)
    assert (interval.median, interval.n, interval.known) == (median, len(values), False)
    assert not interval.holds(median)
    assert not interval.overlaps(interval)


def test_no_values_and_values_that_are_no_numbers() -> None:
    nothing = median_interval([])
    assert nothing.n == 0
    assert math.isnan(nothing.median)
    with pytest.raises(ValueError, match="finite"):
        median_interval([1.0, math.nan, 2.0])


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [((1, 2), (2, 3), True), ((1, 2), (2.1, 3), False), ((1, 9), (4, 5), True), ((5, 6), (1, 2), False)],
)
def test_overlap(a: tuple[float, float], b: tuple[float, float], common: bool) -> None:
    first, second = Interval(0, *a, 5), Interval(0, *b, 5)
    assert first.overlaps(second) is second.overlaps(first) is common
    assert first.holds(a[0]) and first.holds(a[1]) and not first.holds(a[1] + 0.1) and not first.holds(a[0] - 0.1)


def test_an_outlier_moves_neither_the_median_nor_its_bounds_beyond_the_values() -> None:
    interval = median_interval([3.0, 1.0, 1000.0, 2.0, 4.0])
    assert interval == Interval(3.0, 1.0, 1000.0, 5)
    many = median_interval([*range(1, 50), 10_000.0])
    assert many.median == 25.5
    assert many.high < 40
