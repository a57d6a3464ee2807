"""Block floating point (SwitchML, section 3.7): floats as int32 with one exponent for each chunk of k.

For a chunk with max|x| < 2^e over all n workers the scale is (2^31 - 1) / (n * 2^e), so that the sum of n workers
cannot overflow. Exponents travel as one unsigned byte whose order is that of the exponents, because the switch takes
the maximum of bytes:

    0           every value is zero
    1 … 253     e = code - 125, that is -124 … 128; smaller e count as -124, where float32's denormals still
                keep 2^-149 * 2^124 * 2^31 / n = 64 / n steps each
    254         some value is NaN or infinite: the whole chunk of the sum becomes NaN, on every worker
    255         of a chunk that some worker does not have yet: there is no exponent
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

CODE_ZERO = 0
CODE_NOT_FINITE = 254
CODE_UNKNOWN = 255
BIAS = 125
LARGEST = float(2**31 - 1)
MAX_WORKERS = 256  # beyond, rounding could carry a sum of n past 2^31 - 1


@compiled("u1(f4[::1])")
def block_exponent(chunk: NDArray[np.float32]) -> int:
    """The exponent code of a chunk."""
    largest = np.uint32(0)  # as bits: without their sign these are in the order of the floats, infinity and then NaN at the end
    for bits in chunk.view(np.uint32):
        largest = max(largest, np.uint32(bits & 0x7FFFFFFF))
    if largest == 0:
        return CODE_ZERO
    if largest >= 0x7F800000:
        return CODE_NOT_FINITE
    biased = int(largest >> 23)  # 2^(biased - 127) <= largest < 2^(biased - 126)
    return min(max(biased - 126 + BIAS, 1), CODE_NOT_FINITE - 1)


def scales(workers: int) -> NDArray[np.float64]:
    """The factor of a chunk by its exponent code, shape (256,); 0 for chunks that carry no numbers (all zero, not finite)."""
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"{workers} workers: from 1 to {MAX_WORKERS} can be summed without overflow")
    factors: NDArray[np.float64] = LARGEST / workers * np.exp2(-(np.arange(256.0) - BIAS))
    factors[[CODE_ZERO, CODE_NOT_FINITE]] = 0.0
    return factors


def steps(workers: int) -> NDArray[np.float64]:
    """What an integer 1 is worth in a chunk by its exponent code, shape (256,); NaN for chunks that are not finite."""
    factors = scales(workers)
    worth: NDArray[np.float64] = np.divide(1.0, factors, out=np.zeros(256), where=factors > 0)
    worth[CODE_NOT_FINITE] = np.nan
    return worth


@compiled("void(f4[::1], f8, i4[::1])")
def quantize(chunk: NDArray[np.float32], scale: float, integers: NDArray[np.int32]) -> None:
    """A chunk's floats as integers, rounded to nearest (ties to even), and zeros behind them."""
    for e in range(len(chunk)):
        integers[e] = np.int32(np.rint(np.float64(chunk[e]) * scale))
    if scale == 0:
        integers[:] = 0
    integers[len(chunk) :] = 0


@compiled("void(i4[::1], f8, f4[::1])")
def dequantize(sums: NDArray[np.int32], step: float, chunk: NDArray[np.float32]) -> None:
    """A chunk's sums over all workers as floats; the same bits on every worker that has the same sums and exponent."""
    for e in range(len(chunk)):
        chunk[e] = np.float32(np.float64(sums[e]) * step)


def scale(x: NDArray[np.float32], factor: float) -> NDArray[np.int32]:
    """x times a fixed factor, rounded to nearest; saturates at the ends of int32, and NaN becomes 0."""
    scaled = np.rint(np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf) * factor)
    return np.clip(scaled, -(2**31), 2**31 - 1).astype(np.int32)


def unscale(sums: NDArray[np.int32], factor: float) -> NDArray[np.float32]:
    """Sums of scaled values as floats. A sum that has overflowed has wrapped around, as integers in a switch do."""
    return (sums.astype(np.float64) / factor).astype(np.float32)
