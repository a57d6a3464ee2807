"""Intervals of medians, held to what is known of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import quantile_test

from inalab.testbed.record.statistics import Interval, coverage, median_interval


@pytest.mark.parametrize("n", [3, 5, 6, 8, 10, 25, 99])
def test_interval_is_scipys(n: int) -> None:
    """Where so few values can have the confidence at all; else it is from the least to the greatest."""
    values = np.random.default_rng(n).permutation(n) + 1.0
    expected = quantile_test(values, q=n / 2, p=0.5).confidence_interval(0.95)
    interval = median_interval(values.tolist())
    assert (interval.median, interval.n) == (float(np.median(values)), n)
    if math.isnan(expected.low):
        assert (interval.low, interval.high) == (1.0, n)
    else:
        assert (interval.low, interval.high) == (expected.low, expected.high)


def test_coverage_is_what_few_values_allow() -> None:
    assert [coverage(n) for n in (0, 2, 3, 4, 5, 6)] == [0.0, 0.0, 0.75, 0.875, 0.9375, 0.96875]
    assert all(coverage(n) >= 0.95 for n in range(6, 60))


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
