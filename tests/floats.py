"""Block floating point as a formula over whole arrays (SwitchML, section 3.7), beside the loops of quantization.c, and those."""

from __future__ import annotations

import numpy as np

from inalab.hosts.cores import enum, library, pointer

CODE_ZERO, CODE_NOT_FINITE, CODE_UNKNOWN = (enum("exponent_code")[f"CODE_{name}"] for name in ("ZERO", "NOT_FINITE", "UNKNOWN"))
BIAS = enum("exponent_bias")["BIAS"]


def block_exponent(chunk: np.ndarray) -> int:
    """A chunk's exponent code, as the cores have it, and like it:"""
    return int(library().block_exponent(pointer(np.ascontiguousarray(chunk), "float[]"), len(chunk)))


def scales(workers: int) -> np.ndarray:
    """The factor of a chunk by its exponent code."""
    return np.array([library().scale_of(code, workers) for code in range(256)])


def steps(workers: int) -> np.ndarray:
    """What an integer 1 is worth by exponent code."""
    return np.array([library().step_of(code, workers) for code in range(256)])


def quantize(chunk: np.ndarray, scale: float, integers: np.ndarray) -> None:
    """A chunk's floats as integers, and zeros behind them."""
    lanes = np.ones(len(integers), ">u4")
    own = pointer(np.ascontiguousarray(chunk), "float[]")
    library().quantize(own, len(chunk), scale, pointer(lanes, "uint32_t[]"), len(integers))
    integers[:] = lanes.astype(np.uint32).view(np.int32)


def dequantize(sums: np.ndarray, step: float, chunk: np.ndarray) -> None:
    """A chunk's sums as floats."""
    lanes, found = sums.astype(">i4"), np.zeros(len(chunk), np.float32)
    library().dequantize(pointer(lanes, "uint32_t[]"), step, pointer(found, "float[]"), len(chunk))
    chunk[:] = found


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
    floats[codes == CODE_NOT_FINITE] = 0
    return floats
