"""Block floating point as a formula over whole arrays (SwitchML, section 3.7), beside the loops of hosts.stream.quantization."""

from __future__ import annotations

import numpy as np

from inalab.hosts.stream.quantization import BIAS, CODE_NOT_FINITE, CODE_ZERO


def exponents(x: np.ndarray) -> np.ndarray:
    """Exponent codes of the rows of x, shape (chunks, k) -> (chunks,)."""
    largest = np.abs(x).max(axis=1, initial=0)
    _, e = np.frexp(largest)
    codes = np.clip(e + BIAS, 1, CODE_NOT_FINITE - 1).astype(np.uint8)
    codes[largest == 0] = CODE_ZERO
    codes[~np.isfinite(largest)] = CODE_NOT_FINITE
    return codes


def factors(codes: np.ndarray, workers: int) -> np.ndarray:
    """What floats are multiplied with, shape (chunks,)."""
    found = (2.0**31 - 1) / workers * np.exp2(-(codes.astype(np.float64) - BIAS))
    return np.where((codes == CODE_ZERO) | (codes == CODE_NOT_FINITE), 0.0, found)


def quantized(x: np.ndarray, codes: np.ndarray, workers: int) -> np.ndarray:
    """Rows of x as integers."""
    scaled = np.where((codes == CODE_NOT_FINITE)[:, None], 0.0, x).astype(np.float64) * factors(codes, workers)[:, None]
    return np.rint(scaled).astype(np.int32)


def dequantized(sums: np.ndarray, codes: np.ndarray, workers: int) -> np.ndarray:
    """Rows of sums as floats."""
    scale = factors(codes, workers)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(scale > 0, 1 / scale, 0.0)
        floats = (sums.astype(np.float64) * inverse[:, None]).astype(np.float32)
    floats[codes == CODE_NOT_FINITE] = np.nan
    return floats
