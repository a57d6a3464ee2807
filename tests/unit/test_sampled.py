"""Samples of sums, compared with what the workers gave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from inalab.hosts.sampling import ELEMENTS, SEED, STEPS, Sample, Sampling, ScriptSampling
from inalab.hosts.tally import Tally
from inalab.schemes import registry
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.launch_summary import checked_sums
from inalab.testbed.trial.sampled import Comparison, Sampled, compared
from tests import floats

RING, SWITCHML, ATP = (registry.find(name) for name in ("ring", "switchml", "atp"))


def records(given: list[list[float]], got: list[list[float]], step: int = 3, integers: bool = False) -> list[Sampled]:
    """Of workers that gave these elements of a tensor, and got these."""
    return [
        Sampled(step, rank, Sample([7 + n for n in range(len(own))], own, 8.0, its, integers))
        for rank, (own, its) in enumerate(zip(given, got, strict=True))
    ]


def judged(given: list[list[float]], got: list[list[float]], scheme: Any = RING, workers: int = 2) -> Comparison:
    return compared(records(given, got), workers, scheme, scheme.Settings())


def test_a_sum_is_a_sum() -> None:
    assert judged([[1.0, 2.0], [3.0, -2.0]], [[4.0, 0.0]] * 2) == (1, 4, "")
    tenth, third = np.float32(0.1), np.float32(1 / 3)
    assert judged([[float(tenth)], [float(third)]], [[float(tenth + third)]] * 2) == (1, 2, "")


@pytest.mark.parametrize("wrong", [2.0, 4.001, -4.0, math.nan, math.inf])
def test_what_is_no_sum_is_told_with_step_element_worker_and_both_values(wrong: float) -> None:
    sums, elements, wording = judged([[1.0, 2.0], [3.0, 2.0]], [[4.0, 4.0], [4.0, wrong]])
    assert (sums, elements) == (1, 4)
    assert wording == (
        f"in step 4 element 8 of the sum is {wrong:.9g} at worker 1, and the workers gave 4 in all: "
        "ring does not sum as exactly as it states"
    )


def test_the_first_wrong_step_is_told() -> None:
    both = [*records([[1.0], [1.0]], [[1.0], [1.0]], step=9), *records([[1.0], [1.0]], [[2.0], [1.0]], step=2)]
    sums, elements, wording = compared(both, 2, RING, RING.Settings())
    assert (sums, elements) == (2, 4) and wording.startswith("in step 3 element 7 of the sum is 1 at worker 1")


def test_steps_of_a_worker_that_died_and_of_a_model_that_diverged_are_left_out() -> None:
    assert judged([[1.0], [1.0]], [[9.0], [9.0]], workers=3) == (0, 0, "")
    for rank, largest in ((0, math.inf), (0, math.nan), (1, math.nan)):
        diverged = records([[1.0], [1.0]], [[9.0], [9.0]])
        diverged[rank].sample.largest = largest
        assert compared(diverged, 2, RING, RING.Settings()) == (0, 0, "")
    assert compared([], 2, RING, RING.Settings()) == (0, 0, "")


def test_tensors_of_different_sizes_have_no_sum_and_the_others_are_compared_all_the_same() -> None:
    for right in (0, 3):
        both = [*records([[1.0, 2.0], [1.0]], [[2.0], [2.0]], step=1), *records([[1.0], [1.0]], [[2.0], [2.0]], step=right)]
        wording = "in step 2 the workers gave tensors of different sizes"
        assert compared(both, 2, RING, RING.Settings()) == (1, 2, wording)


@pytest.mark.parametrize("workers", [2, 8, 64])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6, 1e-39])
def test_block_exponents_are_as_exact_as_switchml_states_and_hardly_more(workers: int, scale: float) -> None:
    draw = np.random.default_rng(workers)
    given = (draw.standard_normal((workers, 512)) * scale).astype(np.float32)
    given[:, 256:] *= np.float32(1e-9)  # beside large values small ones lose most: by the block's step alone
    code = max(floats.block_exponent(own) for own in given)
    factor, step = floats.scales(workers)[code], floats.steps(workers)[code]
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
    assert compared(records([[1.0], [1.0]], [[9.0], [9.0]]), 2, SWITCHML, SWITCHML.Settings(scaling=1e3)) == (0, 0, "")
    assert ATP.sum_error(ATP.Settings(), 4, 1.0, 0 * one) == SWITCHML.sum_error(SWITCHML.Settings(), 4, 1.0, 0 * one)
    assert ATP.sum_error(ATP.Settings(scaling=1e3), 4, 1.0, 0 * one) == pytest.approx(4 / 2 / 1e3)


def test_all_workers_draw_the_same_steps_and_elements_and_other_seeds_others() -> None:
    drawn = [Sampling(seed, 100, 5000).of_step for seed in (1, 1, 2)]
    assert drawn[0].keys() == drawn[1].keys() != drawn[2].keys()
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == STEPS and max(drawn[0]) < 100
    for elements in drawn[0].values():
        assert sorted(set(elements)) == elements and len(elements) <= ELEMENTS and {0, 4999} <= set(elements)


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
    assert sample.of_sum(layers) == Sample([0, 1, 2, 3, 4], [1.0, -9.0, 3.0, 4.0, 5.0], 9.0, [2.0, -18.0, 6.0, 8.0, 10.0])


# --- a script's sums


def test_all_workers_draw_the_same_sums_of_a_script_the_first_ones_and_ever_fewer() -> None:
    here, there = ScriptSampling(1), ScriptSampling(1)
    for number in range(400):
        elements = 1 + 37 * number % 500
        drawn = [sampling.before(torch.full((elements,), float(rank))) for rank, sampling in enumerate((here, there))]
        if drawn[0] is None or drawn[1] is None:
            assert number >= STEPS and drawn == [None, None]
            continue
        assert [begun for begun, _ in drawn] == [number, number]
        assert drawn[0][1].elements == drawn[1][1].elements and max(drawn[0][1].elements) == elements - 1
        assert drawn[0][1].given == [0.0] * len(drawn[0][1].elements)
    again = ScriptSampling(2)
    chosen = [number for number in range(4000) if again.before(torch.ones(1))]
    assert chosen[:STEPS] == list(range(STEPS)) and STEPS + 8 < len(chosen) < 60 and max(chosen) > 400


def test_a_sum_of_different_sizes_has_different_elements_and_does_not_change_those_of_the_next() -> None:
    drawn = []
    for size in (5000, 10):
        sampling = ScriptSampling(1)
        drawn.append([given for elements in (size, 7000) if (given := sampling.before(torch.ones(elements)))])
    (here, next_here), (there, next_there) = drawn
    assert here[1].elements != there[1].elements and next_here[1].elements == next_there[1].elements


def test_sums_without_elements_have_samples_and_a_sample_is_of_the_tensor_as_it_looks() -> None:
    sampling = ScriptSampling(1)
    empty = sampling.before(torch.ones(3, 0))
    assert empty is not None and (empty[1].elements, empty[1].largest) == ([], 0.0)
    drawn = sampling.before(torch.arange(6, dtype=torch.int32).view(2, 3).t())
    assert drawn is not None and drawn[0] == 1
    assert drawn[1].given == [0, 3, 1, 4, 2, 5] and drawn[1].integers


def test_a_script_is_sampled_where_its_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it did not say so before, as in a process that starts others."""
    monkeypatch.delenv(SEED, raising=False)
    assert ScriptSampling.from_environment() is None
    monkeypatch.setenv(SEED, "777")
    first, second = ScriptSampling.from_environment(), ScriptSampling(777)
    assert first is not None and first is ScriptSampling.from_environment() and first.draw.random() == second.draw.random()


def tallies(got: list[list[float]], given: list[list[float]], integers: bool = False) -> dict[int, Tally]:
    """Of workers that had one sum, their first."""
    made = {}
    for one in records(given, got, 0, integers):
        made[one.rank] = Tally()
        made[one.rank].sampled(0, one.sample)
    return made


RIGHT = [[3.0, 1.0]] * 2, [[1.0, 2.0], [2.0, -1.0]]
SETTINGS = TrialSettings(racks=1, workers=2, scheme="ring")
NOTHING_STATED = "no sum was checked: of those that were drawn ring states nothing, or not all workers tell"


def test_a_wrong_sum_of_a_script_is_told_with_its_number() -> None:
    assert checked_sums(tallies(*RIGHT), SETTINGS) == ("4 elements of 1 sum checked: as exact as ring states", False)
    wrong = checked_sums(tallies([[3.0, 1.0], [1.5, 0.5]], RIGHT[1]), SETTINGS)
    assert wrong.wrong and wrong.sentence == (
        "a sum is wrong: in sum 1 element 7 of the sum is 1.5 at worker 1, and the workers gave 3 in all: "
        "ring does not sum as exactly as it states"
    )


def test_tensors_of_different_sizes_in_a_script_are_told() -> None:
    found = checked_sums(tallies([[3.0], [3.0]], [[1.0, 2.0], [2.0]]), SETTINGS)
    assert found == ("a sum is wrong: in sum 1 the workers gave tensors of different sizes", True)


def test_an_empty_tensor_beside_others_is_of_another_size_and_alone_it_is_no_sum() -> None:
    found = checked_sums(tallies([[3.0], []], [[1.0], []]), SETTINGS)
    assert found == ("a sum is wrong: in sum 1 the workers gave tensors of different sizes", True)
    assert checked_sums(tallies([[], []], [[], []]), SETTINGS) == (NOTHING_STATED, False)


def test_sums_that_a_worker_does_not_tell_of_are_counted() -> None:
    found = tallies(*RIGHT)
    found[1].sampled(1, records([[1.0]], [[2.0]])[0].sample)
    assert checked_sums(found, SETTINGS) == (
        "4 elements of 1 sum checked: as exact as ring states; 1 sum left out, of which not all workers tell", False
    )  # fmt: skip


def test_sums_of_which_nothing_is_stated_are_not_counted() -> None:
    found = tallies(*RIGHT)
    for tally in found.values():
        tally.sampled(1, records([[3e38, 1.0]], [[0.0, 0.0]])[0].sample)
        tally.sampled(2, records([[3e38]], [[0.0]])[0].sample)
    assert checked_sums(found, SETTINGS).wrong  # in sum 2 element 8 is 0, and the workers gave 2
    found = tallies(*RIGHT)
    for tally in found.values():
        tally.sampled(1, records([[3e38]], [[math.nan]])[0].sample)
    assert checked_sums(found, SETTINGS) == ("4 elements of 1 sum checked: as exact as ring states", False)


def test_sums_of_integers_are_exact_until_they_wrap() -> None:
    one_more = checked_sums(tallies([[2.0**30 + 1]] * 2, [[2.0**30], [0.0]], integers=True), SETTINGS)
    assert one_more.wrong
    wrapped = checked_sums(tallies([[-(2.0**31)]] * 2, [[2.0**30], [2.0**30]], integers=True), SETTINGS)
    assert wrapped == (NOTHING_STATED, False)


def test_where_a_worker_is_missing_no_sum_was_checked() -> None:
    three = TrialSettings(racks=1, workers=3, scheme="ring")
    assert checked_sums(tallies([[9.0]] * 2, [[1.0]] * 2), three) == (NOTHING_STATED, False)
    assert checked_sums({}, three) == ("no sum was checked: none went over ring to its end", False)


def test_sums_that_float32_cannot_hold_are_left_out() -> None:
    assert judged([[3e38], [3e38]], [[np.inf], [np.inf]]) == (0, 0, "")
    assert judged([[3e38], [-3e38]], [[np.inf], [np.inf]]) == (0, 0, "")
