"""Sums of a few floats without any error, whatever their sizes: each is a number of 280 bits, in lanes of integers that add up.

A chunk's floats share an exponent where they are summed as integers, so that a loss beside a count of tokens would lose digits, and
one element that is no number would spoil the others. Here each element has LANES integers of its own: digits of DIGIT bits, from
2^-149 on, which are the whole range of float32, and counts of what is no number or infinite. So many workers can add theirs without
an overflow: 2^11 of them. The sum is rounded once, to nearest (ties to even), and does not depend on any order. (Kulisch's
accumulator; Demmel and Nguyen, "Parallel reproducible summation", 2015, for why.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGIT = 20  # bits; the sign and eleven more are for the sum
DIGITS = 14  # 277 bits from the least denormal to the largest number
LANES = DIGITS + 2  # behind them: how many are no number; how many are infinite, +inf in the upper half and -inf in the lower one
SCALE = -149  # the first digit's lowest bit, as a power of two
INFINITE = 1 << 15


def spread(x: NDArray[np.float32]) -> NDArray[np.int32]:
    """Lanes (m, LANES) of numbers (m,)."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) & 0x7FFFFFFF
    biased, fraction = bits >> 23, bits & 0x7FFFFF
    finite = biased < 255
    mantissa = np.where(finite, fraction | (biased > 0).astype(np.uint32) << 23, 0).astype(np.int64)
    place = np.where(finite, np.maximum(biased, 1) - 1, 0).astype(np.int64)
    lanes = np.zeros((x.size, LANES), np.int32)
    shifted = mantissa << place % DIGIT  # 24 bits and up to 19 places: three digits
    sign, rows = np.where(np.signbit(x), -1, 1), np.arange(x.size)
    for digit in range(3):
        part = sign * (shifted >> DIGIT * digit & (1 << DIGIT) - 1)
        lanes[rows, np.minimum(place // DIGIT + digit, DIGITS - 1)] += part.astype(np.int32)
    lanes[:, DIGITS] = np.isnan(x)
    lanes[:, DIGITS + 1] = np.where(np.isposinf(x), INFINITE, np.isneginf(x).astype(np.int32))
    return lanes


def gathered(lanes: NDArray[np.int32]) -> NDArray[np.float32]:
    """Numbers (m,) of lanes (m, LANES) that were added."""
    return np.array([_number(row) for row in lanes.tolist()], np.float32)


def _number(lanes: list[int]) -> float:
    positive, negative = divmod(lanes[DIGITS + 1], INFINITE)
    if lanes[DIGITS] or (positive and negative):
        return math.nan
    if positive or negative:
        return math.inf if positive else -math.inf
    return rounded(sum(digit << DIGIT * i for i, digit in enumerate(lanes[:DIGITS])))


def rounded(units: int) -> float:
    """The float32 that is nearest to so many times 2^SCALE, as a float."""
    magnitude = abs(units)
    excess = max(magnitude.bit_length() - 24, 0)
    kept, rest, half = magnitude >> excess, magnitude & (1 << excess) - 1, (1 << excess) >> 1
    if excess and (rest > half or (rest == half and kept & 1)):
        kept += 1
    found = math.ldexp(kept, excess + SCALE)
    if found >= 2.0**128:
        found = math.inf
    return -found if units < 0 else found


def summed(total: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of a flat vector of lanes that were added."""
    return gathered(np.asarray(total, np.int32).reshape(-1, LANES))
