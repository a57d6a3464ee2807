"""Samples of sums, compared with what the workers gave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from hosts.stream import quantization
from hosts.training.sampling import ELEMENTS, STEPS, Sampling
from schemes import registry
from testbed.trial.sampled import compared

RING, SWITCHML, ATP = (registry.find(name) for name in ("ring", "switchml", "atp"))


def records(given: list[list[float]], got: list[list[float]], step: int = 3) -> list[dict[str, Any]]:
    """Of workers that gave these elements of a tensor, and got these."""
    return [
        {"step": step, "rank": rank, "sample": {"elements": [7 + n for n in range(len(own))], "given": own, "largest": 8.0, "got": its}}
        for rank, (own, its) in enumerate(zip(given, got, strict=True))
    ]  # fmt: skip


def judged(given: list[list[float]], got: list[list[float]], scheme: Any = RING, workers: int = 2) -> tuple[int, str]:
    return compared(records(given, got), workers, scheme, scheme.Settings())


def test_a_sum_is_a_sum() -> None:
    assert judged([[1.0, 2.0], [3.0, -2.0]], [[4.0, 0.0]] * 2) == (4, "")
    tenth, third = np.float32(0.1), np.float32(1 / 3)
    assert judged([[float(tenth)], [float(third)]], [[float(tenth + third)]] * 2) == (2, "")


@pytest.mark.parametrize("wrong", [2.0, 4.001, -4.0, math.nan, math.inf])
def test_what_is_no_sum_is_told_with_step_element_worker_and_both_values(wrong: float) -> None:
    count, told = judged([[1.0, 2.0], [3.0, 2.0]], [[4.0, 4.0], [4.0, wrong]])
    assert count == 4
    assert told == (
        f"in step 4 element 8 of the sum is {wrong:.9g} at worker 1, and the workers gave 4 in all: "
        "ring does not sum as exactly as it states"
    )


def test_the_first_wrong_step_is_told_and_the_records_lose_their_samples() -> None:
    both = [*records([[1.0], [1.0]], [[1.0], [1.0]], step=9), *records([[1.0], [1.0]], [[2.0], [1.0]], step=2)]
    count, told = compared(both, 2, RING, RING.Settings())
    assert count == 4 and told.startswith("in step 3 element 7 of the sum is 1 at worker 1")
    assert not [record for record in both if "sample" in record]


def test_steps_of_a_worker_that_died_and_of_a_model_that_diverged_are_left_out() -> None:
    assert judged([[1.0], [1.0]], [[9.0], [9.0]], workers=3) == (0, "")
    for rank, largest in ((0, math.inf), (0, math.nan), (1, math.nan)):
        diverged = records([[1.0], [1.0]], [[9.0], [9.0]])
        diverged[rank]["sample"]["largest"] = largest
        assert compared(diverged, 2, RING, RING.Settings()) == (0, "")
    assert compared([{"step": 0, "rank": 0}], 2, RING, RING.Settings()) == (0, "")


@pytest.mark.parametrize("workers", [2, 8, 64])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6, 1e-39])
def test_block_exponents_are_as_exact_as_switchml_states_and_hardly_more(workers: int, scale: float) -> None:
    draw = np.random.default_rng(workers)
    given = (draw.standard_normal((workers, 512)) * scale).astype(np.float32)
    given[:, 256:] *= np.float32(1e-9)  # beside large values small ones lose most: by the block's step alone
    code = max(quantization.block_exponent(own) for own in given)
    factor, step = quantization.scales(workers)[code], quantization.steps(workers)[code]
    integers = np.rint(given.astype(np.float64) * factor).sum(axis=0)
    got = (integers * step).astype(np.float32)
    expected, magnitudes = given.astype(np.float64).sum(axis=0), np.abs(given.astype(np.float64)).sum(axis=0)
    allowed = SWITCHML.sum_error(SWITCHML.Settings(), workers, float(np.abs(given).max()), magnitudes)
    assert (np.abs(got - expected) <= allowed).all()
    assert scale < 1e-30 or (allowed < 1e-4 * magnitudes.max()).all()
    assert not (np.abs(got / workers - expected) <= allowed).all()  # a mean is none


def test_a_fixed_factor_states_nothing_for_switchml_and_half_a_step_each_for_atp() -> None:
    one = np.ones(1)
    assert SWITCHML.sum_error(SWITCHML.Settings(scaling=1e3), 4, 1.0, one) == math.inf
    assert compared(records([[1.0], [1.0]], [[9.0], [9.0]]), 2, SWITCHML, SWITCHML.Settings(scaling=1e3)) == (0, "")
    assert ATP.sum_error(ATP.Settings(), 4, 1.0, 0 * one) == pytest.approx(4 / 2 / 1e8)
    assert ATP.sum_error(ATP.Settings(scaling=1e3), 4, 1.0, 0 * one) == pytest.approx(4 / 2 / 1e3)


def test_all_workers_draw_the_same_steps_and_elements_and_other_seeds_others() -> None:
    drawn = [Sampling(seed, 100, 5000).of_step for seed in (1, 1, 2)]
    assert drawn[0].keys() == drawn[1].keys() != drawn[2].keys()
    assert all(np.array_equal(drawn[0][step], drawn[1][step]) for step in drawn[0])
    assert len(drawn[0]) == STEPS and max(drawn[0]) < 100
    for elements in drawn[0].values():
        assert len(set(elements.tolist())) == len(elements) <= ELEMENTS and {0, 4999} <= set(elements.tolist())


@pytest.mark.parametrize(("steps", "elements"), [(1, 1), (2, 3), (4, 63)])
def test_small_trainings_are_sampled_whole(steps: int, elements: int) -> None:
    drawn = Sampling(1, steps, elements).of_step
    assert sorted(drawn) == list(range(steps)) and all(len(chosen) == min(elements, ELEMENTS) for chosen in drawn.values())


def test_a_sample_is_of_the_layers_one_behind_the_other() -> None:
    sampling, layers = Sampling(1, 1, 5), [torch.tensor([1.0, -9.0]), torch.tensor([3.0, 4.0, 5.0])]
    sample = sampling.before(0, layers)
    assert sample is not None and sampling.before(7, layers) is None
    for layer in layers:
        layer *= 2  # as sums are written over what was given
    told = Sampling.after(sample, layers)
    assert told == {
        "elements": [0, 1, 2, 3, 4], "given": [1.0, -9.0, 3.0, 4.0, 5.0], "largest": 9.0, "got": [2.0, -18.0, 6.0, 8.0, 10.0],
    }  # fmt: skip
