"""Block floating point: no overflow, bounded error, and the corner cases of floats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from inalab.hosts.collective import Membership
from inalab.hosts.stream.quantization import MAX_WORKERS, scale, unscale
from inalab.hosts.switchml.worker import SwitchML
from tests import floats
from tests.floats import CODE_NOT_FINITE, CODE_ZERO, block_exponent, dequantize, quantize, scales, steps

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
workers_and_chunks = st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), arrays(np.float32, (n, 3, 4), elements=finite)))


def exponents(x: np.ndarray) -> np.ndarray:
    """Of the rows of x."""
    return np.array([block_exponent(np.ascontiguousarray(chunk)) for chunk in x], np.uint8)


def quantized(x: np.ndarray, codes: np.ndarray, workers: int) -> np.ndarray:
    """Rows of x as integers, with the exponents that all workers have agreed on."""
    integers = np.empty(x.shape, np.int32)
    for chunk, code, row in zip(np.ascontiguousarray(x), codes, integers, strict=True):
        quantize(chunk, scales(workers)[code], row)
    return integers


def dequantized(sums: np.ndarray, codes: np.ndarray, workers: int) -> np.ndarray:
    """Rows of sums as floats."""
    found = np.empty(sums.shape, np.float32)
    for chunk, code, row in zip(np.ascontiguousarray(sums), codes, found, strict=True):
        dequantize(chunk, steps(workers)[code], row)
    return found


def summed(x: np.ndarray) -> np.ndarray:
    """The sum over workers as hosts and switches make it; x is (workers, chunks, k)."""
    n = len(x)
    codes = np.max([exponents(w) for w in x], axis=0)
    integers = np.array([quantized(w, codes, n) for w in x], np.int64)
    total = integers.sum(axis=0)
    assert np.abs(total).max(initial=0) <= 2**31 - 1, "a sum of n workers overflows int32"
    return dequantized(total.astype(np.int32), codes, n)


@given(workers_and_chunks)
def test_sum_is_close_and_never_overflows(case: tuple[int, np.ndarray]) -> None:
    n, x = case
    exact = x.astype(np.float64).sum(axis=0)
    largest = np.abs(x).astype(np.float64).max(axis=(0, 2))
    step = 2 * largest * n / (2**31 - 1) + 2.0**-124 * n / 2**31  # one unit of a chunk's scale, at most
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(summed(x) - exact)
    tolerance = n * step[:, None] + np.abs(exact) * 2.0**-23 + 2.0**-149
    beyond = np.abs(exact) > np.finfo(np.float32).max  # the sum itself is infinite in float32
    assert ((error <= tolerance) | beyond).all()


@given(arrays(np.float32, (2, 8), elements=finite))
def test_one_worker_keeps_24_bits_of_the_largest(x: np.ndarray) -> None:
    codes = exponents(x)
    back = dequantized(quantized(x, codes, 1), codes, 1)
    rows = np.arange(len(x))
    top = np.abs(x).argmax(axis=1)
    np.testing.assert_allclose(back[rows, top], x[rows, top], rtol=2e-7, atol=2.0**-149)


def test_all_zero_chunk() -> None:
    x = np.zeros((2, 1, 4), np.float32)
    assert exponents(x[0])[0] == CODE_ZERO
    assert (summed(x) == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_chunk_with_a_value_that_is_not_finite_has_no_exponent(bad: float) -> None:
    x = np.ones((2, 4), np.float32)
    x[0, 2] = bad
    first, second = exponents(x)
    assert (first, second) == (CODE_NOT_FINITE, 126)


def test_denormals_keep_their_steps() -> None:
    tiny = np.float32(2.0**-149)
    x = np.full((2, 1, 4), 5 * tiny, np.float32)
    assert (summed(x) == 10 * tiny).all()


def test_ends_of_the_exponent_range() -> None:
    largest = np.finfo(np.float32).max
    assert exponents(np.full((1, 4), largest, np.float32))[0] == CODE_NOT_FINITE - 1
    np.testing.assert_allclose(summed(np.full((1, 1, 4), largest, np.float32)), largest, rtol=1e-6)
    assert exponents(np.full((1, 4), np.float32(2.0**-149), np.float32))[0] == 1


def test_ties_round_to_even() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5]], np.float32)
    integers = np.empty((1, 4), np.int32)
    quantize(x[0], 1.0, integers[0])
    assert integers.tolist() == [[0, 2, 2, 0]]


def test_more_workers_than_can_be_summed_are_refused() -> None:
    everybody = Membership(0, 0, MAX_WORKERS + 1, [list(range(rank, MAX_WORKERS + 1, 16)) for rank in range(16)])
    with pytest.raises(ValueError, match="257 workers: from 1 to 256 can be summed"):
        SwitchML(everybody, 1, 4, 32)


def test_a_fixed_factor_rounds_saturates_and_wraps_around_in_the_sum() -> None:
    x = np.array([0.0, 0.4, 0.6, -1.5, 1e9, -1e9, np.nan, np.inf], np.float32)
    scaled = scale(x, 10.0)
    assert scaled.tolist() == [0, 4, 6, -15, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    np.testing.assert_allclose(unscale(scaled[:4], 10.0), x[:4], atol=0.05)
    assert unscale(np.array([2**31 - 1], np.int32) + np.int32(1), 1.0)[0] == -(2.0**31)


def test_chunks_that_carry_no_numbers_are_zeros_on_the_wire() -> None:
    codes = np.array([CODE_ZERO, CODE_NOT_FINITE, 125], np.uint8)
    assert list(scales(1)[codes]) == [0.0, 0.0, 2.0**31 - 1]
    x = np.array([[0.25, 0.5], [np.nan, 0.5], [0.5, -0.5]], np.float32)
    assert quantized(x, codes, 1).tolist() == [[0, 0], [0, 0], [2**30, -(2**30)]]
    back = dequantized(np.full((3, 2), 2**30, np.int32), codes, 1)
    assert list(back[0]) == list(back[1]) == [0, 0]
    assert list(back[2]) == [0.5, 0.5]


def test_a_chunk_without_elements_is_zero() -> None:
    assert block_exponent(np.zeros(0, np.float32)) == CODE_ZERO


anything = arrays(np.float32, (4, 37), elements=st.floats(width=32))


@given(anything, st.integers(1, MAX_WORKERS))
def test_the_loops_are_the_formula(x: np.ndarray, workers: int) -> None:
    codes = floats.exponents(x)
    assert exponents(x).tolist() == codes.tolist()
    integers = floats.quantized(x, codes, workers)
    assert quantized(x, codes, workers).tolist() == integers.tolist()
    found, right = dequantized(integers, codes, workers), floats.dequantized(integers, codes, workers)
    assert found.view(np.uint32).tolist() == right.view(np.uint32).tolist()


def test_a_short_chunk_is_filled_up_with_zeros() -> None:
    integers = np.full(4, 7, np.int32)
    quantize(np.array([1, -1], np.float32), 2.0, integers)
    assert integers.tolist() == [2, -2, 0, 0]
    quantize(np.array([np.nan], np.float32), 0.0, integers)
    assert integers.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("workers", [1, MAX_WORKERS])
def test_as_many_workers_as_can_be_summed(workers: int) -> None:
    assert scales(workers)[125] == (2**31 - 1) / workers


def test_a_fixed_factor_saturates_at_the_end_that_is_near() -> None:
    x = np.array([-np.inf, np.inf, -1e30, 1e30], np.float32)
    assert scale(x, 2.0).tolist() == [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1]
