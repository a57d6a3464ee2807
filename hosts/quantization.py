"""Block floating point (SwitchML, section 3.7): floats as int32 with one exponent for each chunk of k.

For a chunk with max|x| < 2^e over all n workers the scale is (2^31 - 1) / (n * 2^e), so that the sum of n workers
cannot overflow. Exponents travel as one unsigned byte whose order is that of the exponents, because the switch takes
the maximum of bytes:

    0           every value is zero
    1 … 254     e = code - 126, that is -125 … 128; smaller e count as -125, where float32's denormals still
                keep 2^-149 * 2^125 * 2^31 / n = 128 / n steps each
    255         some value is NaN or infinite: the whole chunk of the sum becomes NaN, on every worker
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CODE_ZERO = 0
CODE_NOT_FINITE = 255
BIAS = 126
LARGEST = float(2**31 - 1)
MAX_WORKERS = 256  # beyond, rounding could carry a sum of n past 2^31 - 1


def block_exponents(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Exponent codes of the rows of x, shape (chunks, k) -> (chunks,)."""
    largest = np.abs(x).max(axis=1) if x.shape[1] else np.zeros(len(x), np.float32)
    _, e = np.frexp(largest)
    codes: NDArray[np.uint8] = np.clip(e + BIAS, 1, CODE_NOT_FINITE - 1).astype(np.uint8)
    codes[largest == 0] = CODE_ZERO
    codes[~np.isfinite(largest)] = CODE_NOT_FINITE
    return codes


def scales(codes: NDArray[np.uint8], workers: int) -> NDArray[np.float64]:
    """The factor of each chunk, shape (chunks,); 0 for chunks that carry no numbers (all zero, not finite)."""
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"{workers} workers: from 1 to {MAX_WORKERS} can be summed without overflow")
    factors = LARGEST / workers * np.exp2(-(codes.astype(np.float64) - BIAS))
    factors[(codes == CODE_ZERO) | (codes == CODE_NOT_FINITE)] = 0.0
    return factors


def quantize(x: NDArray[np.float32], codes: NDArray[np.uint8], workers: int) -> NDArray[np.int32]:
    """Rows of x as integers, rounded to nearest (ties to even); `codes` are the maxima over all workers."""
    with np.errstate(invalid="ignore"):
        scaled = x.astype(np.float64) * scales(codes, workers)[:, None]
    scaled[codes == CODE_NOT_FINITE] = 0.0
    return np.rint(scaled).astype(np.int32)


def dequantize(sums: NDArray[np.int32], codes: NDArray[np.uint8], workers: int) -> NDArray[np.float32]:
    """Sums over workers as floats; the same bits on every worker that has the same sums and codes."""
    factors = scales(codes, workers)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(factors > 0, 1.0 / factors, 0.0)
        floats = (sums.astype(np.float64) * inverse[:, None]).astype(np.float32)
    floats[codes == CODE_NOT_FINITE] = np.nan
    return floats


def scale(x: NDArray[np.float32], factor: float) -> NDArray[np.int32]:
    """x times a fixed factor, rounded to nearest; saturates at the ends of int32, and NaN becomes 0."""
    scaled = np.rint(np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf) * factor)
    return np.clip(scaled, -(2**31), 2**31 - 1).astype(np.int32)


def unscale(sums: NDArray[np.int32], factor: float) -> NDArray[np.float32]:
    """Sums of scaled values as floats. A sum that has overflowed has wrapped around, as integers in a switch do."""
    return (sums.astype(np.float64) / factor).astype(np.float32)
