"""Lab 6: floats as integers that a switch can add, with one exponent for each block (block floating point)."""

import numpy as np

ZERO = -128  # the exponent of a block of zeros: below all others
SMALLEST, LARGEST = -124, 128  # exponents of blocks of numbers
NOT_FINITE = 129  # of a block with NaN or infinity in it: above all others


def exponent(block):
    """The smallest e with |x| < 2^e for every x of the block (float32); ZERO and NOT_FINITE for blocks that have none."""
    largest = np.max(np.abs(block), initial=0.0)
    if not np.isfinite(largest):
        return NOT_FINITE
    if largest == 0:
        return ZERO
    _, e = np.frexp(largest)
    return max(int(e), SMALLEST)


def factor(e, workers):
    """What floats are multiplied by, such that the sum of all workers' integers fits into 32 bits."""
    return (2.0**31 - 1) / (workers * 2.0**e)


def quantize(block, e, workers):
    """The block as integers (int32). `e` is the largest exponent of all workers' blocks; too large values saturate."""
    if e in (ZERO, NOT_FINITE):
        return np.zeros(len(block), np.int32)
    scaled = np.rint(block.astype(np.float64) * factor(e, workers))
    return np.clip(scaled, -(2**31) + 1, 2**31 - 1).astype(np.int32)


def dequantize(sums, e, workers):
    """The workers' sum as float32; NaN in every element if any worker's block was not finite."""
    if e == NOT_FINITE:
        return np.full(len(sums), np.nan, np.float32)
    if e == ZERO:
        return np.zeros(len(sums), np.float32)
    return (sums / factor(e, workers)).astype(np.float32)
