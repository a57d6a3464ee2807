"""Lab 6: block floating point, its error bound, and the values at its ends."""

import math
import random
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.student import StudentModule, expect_array
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Quantize", language="Python", hours=3, files=["quantize.py"])

ZERO, SMALLEST, LARGEST, NOT_FINITE = -128, -124, 128, 129
BLOCK = 32
WORKERS = (1, 2, 3, 8, 16, 255)
DRAW = random.SystemRandom()
Block = NDArray[np.float32]


def exponents(module: StudentModule, blocks: Sequence[Block]) -> list[int]:
    found = module.call_each("exponent", [[block] for block in blocks])
    for e in found:
        if not isinstance(e, int) or isinstance(e, bool):
            raise Failure(f"exponent() must return an integer, and returns {e!r}")
    return found


def true_exponent(block: Block) -> int:
    """What exponent() is to return."""
    largest = float(np.max(np.abs(block)))
    if not math.isfinite(largest):
        return NOT_FINITE
    return ZERO if largest == 0 else max(SMALLEST, math.frexp(largest)[1])


def quantized(module: StudentModule, blocks: Sequence[Block], e: int) -> list[NDArray[np.int32]]:
    """Every worker's integers."""
    found = module.call_each("quantize", [[block, e, len(blocks)] for block in blocks])
    return [expect_array(value, len(block), "i", "quantize()") for value, block in zip(found, blocks, strict=True)]


def total(bench: Workbench, blocks: Sequence[Block], e: int) -> tuple[list[int], Block]:
    """The sums before they are cut to 32 bits, and what dequantize() makes of them."""
    integers = quantized(bench.module(), blocks, e)
    sums = [sum(int(part[lane]) for part in integers) for lane in range(len(blocks[0]))]
    wrapped = np.array([(s + 2**31) % 2**32 - 2**31 for s in sums], np.int32)
    return sums, dequantized(bench, wrapped, e, len(blocks))


def dequantized(bench: Workbench, sums: NDArray[np.int32], e: int, workers: int) -> Block:
    """What dequantize() makes of sums, in a confinement of its own: what quantize() saw, it gets as integers or not at all."""
    found = bench.module(label="dequantize").call("dequantize", sums, e, workers)
    return expect_array(found, len(sums), "f", "dequantize()").astype(np.float32)


def drawn(workers: int, scale: float) -> list[Block]:
    """Normal values, drawn anew each time, so that no function can know them but from what it gets."""
    draw = np.random.default_rng()
    return [(draw.standard_normal(BLOCK) * scale).astype(np.float32) for _ in range(workers)]


def bounded(bench: Workbench, blocks: Sequence[Block], what: str) -> None:
    """The error of a sum must be at most half a step for each worker, and what float32 rounds."""
    e, workers = max(true_exponent(block) for block in blocks), len(blocks)
    _, back = total(bench, blocks, e)
    exact = np.sum([block.astype(np.float64) for block in blocks], axis=0)
    step = workers * math.ldexp(1.0, e) / (2**31 - 1)
    bound = workers * step / 2 + np.abs(exact) * 2.0**-24 + 2.0**-150
    wrong = np.flatnonzero(~(np.abs(back.astype(np.float64) - exact) <= bound))
    if len(wrong):
        at = int(wrong[0])
        raise Failure(
            f"{what}: the error of a sum of {workers} must be at most {workers}/2 steps",
            f"element {at}: {' + '.join(repr(float(b[at])) for b in blocks[:4])}{' + …' if workers > 4 else ''} = {exact[at]!r}\n"
            f"    dequantize() has {float(back[at])!r}\n"
            f"    the error is {abs(float(back[at]) - exact[at]):.3g}, the step {step:.3g}, the bound {bound[at]:.3g}",
        )


@lab.task("the exponent is the smallest that is large enough", points=15)
def exponent(bench: Workbench) -> None:
    blocks = []
    drawn_values = [math.ldexp(DRAW.uniform(-1, 1), DRAW.randrange(-120, 128)) for _ in range(20)]
    for value in (1.0, 0.5, 0.75, -4.0, 3.9999, 1e-3, 6e4, 2.0**-124, 2.0**-125, 1e-40, 1e-45, 3.4e38, -(2.0**127), *drawn_values):
        block = np.zeros(BLOCK, np.float32)
        block[7], block[9] = value, value / 3
        blocks.append(block)
    for block, e in zip(blocks, exponents(bench.module(), blocks), strict=True):
        right = true_exponent(block)
        if e != right:
            value = float(block[7])
            why = f"the smallest with {abs(value):g} < 2^e" if right > SMALLEST else "no exponent lies below that"
            raise Failure(f"the largest value of a block is {value:g}: its exponent is {right}, {why}; exponent() returns {e}")


@lab.task("the sum of all workers never overflows, and uses the room there is", points=20)
def no_overflow(bench: Workbench) -> None:
    for workers in WORKERS:
        for e in (0, 5, -30):
            largest = np.nextafter(np.float32(2.0**e), np.float32(0))
            for sign in (1, -1):
                lanes = np.array([1, *(DRAW.uniform(-1, 1) for _ in range(3))]) * sign * largest
                sums, _ = total(bench, [lanes.astype(np.float32)] * workers, e)
                if not all(-(2**31) <= s < 2**31 for s in sums):
                    raise Failure(
                        f"{workers} workers with values just below 2^{e}: their sum is {sums[0]}, which 32 bits do not hold"
                    )
                if abs(sums[0]) < 2**30:
                    raise Failure(
                        f"{workers} workers with values just below 2^{e}: their sum is {sums[0]}; the scale wastes bits: "
                        "it could come close to 2^31"
                    )
                if not np.allclose(np.array(sums) / sums[0], lanes / lanes[0], atol=1e-5):
                    raise Failure(
                        f"{workers} workers with the values {', '.join(f'{lane:g}' for lane in lanes)}: their sums are "
                        f"{', '.join(map(str, sums))}, which are not in proportion"
                    )


@lab.task("the error of a sum is at most half a step for each worker", points=20)
def error_bound(bench: Workbench) -> None:
    for workers in WORKERS:
        for scale in (1.0, 1e-4, 3e5):
            bounded(bench, drawn(workers, scale), f"normal values of scale {scale:g}")
    steps = [np.full(BLOCK, 0.75 + n / 2**32, np.float32) for n in range(4)]
    bounded(bench, steps, "values between two steps")
    mixed = [block * np.float32(10.0**-n) for n, block in enumerate(drawn(6, 1.0))]
    bounded(bench, mixed, "workers whose values differ in size")


@lab.task("zeros", points=10)
def zeros(bench: Workbench) -> None:
    module, nothing = bench.module(), np.zeros(BLOCK, np.float32)
    (e, negative) = exponents(module, [nothing, -nothing])
    if (e, negative) != (ZERO, ZERO):
        raise Failure(
            f"a block of zeros has the exponent ZERO ({ZERO}), also of negative ones; exponent() returns {e} and {negative}"
        )
    _, back = total(bench, [nothing] * 3, ZERO)
    if np.any(back != 0):
        raise Failure(f"the sum of three blocks of zeros is zeros; dequantize() has {back[0]!r}")
    bounded(bench, [nothing, *drawn(2, 1e-3)], "one worker's block is zeros, the others' are not")


@lab.task("NaN and infinity reach every worker, and stop nobody", points=15)
def not_finite(bench: Workbench) -> None:
    module = bench.module()
    for value in (math.nan, math.inf, -math.inf):
        block = drawn(1, 1.0)[0]
        block[11] = value
        (e,) = exponents(module, [block])
        if e != NOT_FINITE:
            raise Failure(f"a block with {value} in it has the exponent NOT_FINITE ({NOT_FINITE}); exponent() returns {e}")
        _, back = total(bench, [drawn(1, 1.0)[0], block], NOT_FINITE)
        if not np.all(np.isnan(back)):
            raise Failure(
                f"one worker's block has {value} in it: every element of the sum must be NaN; dequantize() has {back[0]!r}"
            )


@lab.task("the largest and the smallest floats", points=10)
def extremes(bench: Workbench) -> None:
    most = float(np.finfo(np.float32).max)
    large = np.array([most, -most / 2, *(DRAW.uniform(-1, 1) * most for _ in range(BLOCK - 2))], np.float32)
    bounded(bench, [large, -large / 4], "values up to the largest float")
    tiny = np.array([1e-45, 2e-45, 1e-40, 1.1754944e-38, *(DRAW.uniform(-1, 1) * 1e-38 for _ in range(BLOCK - 4))], np.float32)
    bounded(bench, [tiny] * 3, "values down to the smallest float")


@lab.task("a model trains as with floats", points=10)
def trains(bench: Workbench) -> Share:
    seed = secrets.randbits(32)
    exact, yours = trained(None, None, seed), trained(bench, None, seed)
    share = by_degrees(yours, full=0.99 * exact, none=0.5 * exact)
    return Share(share, f"accuracy {yours:.3f} with your sums, {exact:.3f} with floats; full points from 99 % of it")


# --- what is trained: softmax regression on the digits, four workers with a quarter of each batch

STEPS, RATE, TRAINED_BY = 60, 1.0, 4


def trained(bench: Workbench | None, forced: int | None, seed: int = 1) -> float:
    """The test accuracy after training with the student's sums (without a bench: with floats), or with one `forced` exponent."""
    images, labels = digits()
    weights = np.zeros((65, 10), np.float32)
    draw = np.random.default_rng(seed)
    for _ in range(STEPS):
        batch = draw.choice(1400, 128, replace=False)
        gradients = [gradient(weights, images[part], labels[part]) for part in np.split(batch, TRAINED_BY)]
        weights -= np.float32(RATE / TRAINED_BY) * summed(bench, gradients, forced).reshape(weights.shape)
    guessed = np.argmax(images[1400:] @ weights, axis=1)
    return float(np.mean(guessed == labels[1400:]))


def digits() -> tuple[Block, NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return np.hstack([images / 16, np.ones((len(images), 1))]).astype(np.float32), labels


def gradient(weights: Block, images: Block, labels: NDArray[np.int64]) -> Block:
    scores = images @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    found: Block = (images.T @ chances / len(labels)).astype(np.float32).reshape(-1)
    return found


def summed(bench: Workbench | None, gradients: Sequence[Block], forced: int | None) -> Any:
    """The sum of gradients, in one block: in floats, or as a switch would add the student's integers."""
    if bench is None:
        return np.sum(gradients, axis=0)
    e = max(exponents(bench.module(), gradients)) if forced is None else forced
    integers = quantized(bench.module(), gradients, e)
    sums = np.sum(integers, axis=0, dtype=np.int32)  # which wraps around
    return dequantized(bench, sums, e, len(gradients))
