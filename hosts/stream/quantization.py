"""Floats as int32 by one fixed factor, in place of block exponents (quantization.c)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST = float(2**31 - 1)
MAX_WORKERS = 256  # with block exponents: beyond, rounding could carry a sum of n past 2^31 - 1


def scale(x: NDArray[np.float32], factor: float) -> NDArray[np.int32]:
    """x times a fixed factor, rounded to nearest; saturates at the ends of int32, and NaN becomes 0."""
    scaled = np.rint(np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf) * factor)
    return np.clip(scaled, -(2**31), 2**31 - 1).astype(np.int32)


def unscale(sums: NDArray[np.int32], factor: float) -> NDArray[np.float32]:
    """Sums of scaled values as floats. A sum that has overflowed has wrapped around, as integers in a switch do."""
    return (sums.astype(np.float64) / factor).astype(np.float32)
