"""Simulated steps whose layers are summed apart: by hand, and beside the same trials in virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inalab.hosts.training.pipeline import BARRIER, CROSS_BARRIER
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.theory import bounds, pipelines
from tests.unit.test_virtual import virtual

LAYERS = "layers-2x2000@4+3x10000@2+60000@1"
SETTINGS: dict[str, Any] = {
    "racks": 1, "workers": 4, "host_rate": 10.0, "k": 256, "slots": 8, "workload": LAYERS, "compute_ms": 100.0, "steps": 4, "costs": "none",
}  # fmt: skip


def test_a_workers_sums_come_last_layer_first_and_its_steps_as_the_pipeline_has_it() -> None:
    made = [Steps(np.array([[8.0, 8.0]]), 3.0, how, [0.125, 0.125], [0.25, 0.5]) for how in (BARRIER, CROSS_BARRIER)]
    for steps in made:
        assert steps.begin(0) == [9.0, 11.0]  # forward until 4 and 5; the last layer's gradient at 9, the first one's at 11
        assert (steps.layers, steps.sums, steps.layer(0), steps.layer(1), steps.layer(2)) == (2, 4, 1, 0, 1)
        steps.ended[0, :2] = 20.0, 12.0  # the last layer's sum is over after the first one's
    barrier, cross = made
    assert barrier.summed(0, 0) == [12.0, 20.0]
    assert barrier.begin(0) == [20.0 + 2 + 4, 20.0 + 2 + 4 + 2]
    assert cross.begin(0) == [20.0 + 1 + 4, 20.0 + 1 + 4 + 2]  # the first layer's forward pass is over at 13
    assert barrier.begin(0) == cross.begin(0) == []
    assert [at for plan in barrier.passes[0] for at in plan.backward[::-1]] == [9.0, 11.0, 26.0, 28.0]


def test_one_sum_comes_after_all_of_a_step() -> None:
    steps = Steps(np.array([[0.5, 0.25]]))
    assert steps.begin(0) == [0.5]
    steps.ended[0, 0] = 2.0
    assert steps.begin(0) == [2.25]


def simulated(**changes: Any) -> dict[str, Any]:
    return computed_trial(make_settings(TrialSettings, SETTINGS | changes), 1)


@pytest.mark.parametrize("scheme", ["switchml", "switchml-rdma", "atp"])
@pytest.mark.parametrize("pipeline", [BARRIER, CROSS_BARRIER])
@pytest.mark.parametrize("straggler", ["none", "exponential"])
def test_packets_take_as_long_as_in_virtual_time(scheme: str, pipeline: str, straggler: str) -> None:
    its = {"scheme": scheme, "pipeline": pipeline, "straggler": straggler}
    ran, computed = virtual(**SETTINGS, **its), simulated(**its)
    assert ran["valid"], ran["problems"]
    for name in ("period_median", "tat_median", "duration"):
        assert computed["metrics"][name] == pytest.approx(ran["metrics"][name], rel=0.01)
    assert len(computed["steps"]) == len(ran["steps"])
    for record, other in zip(computed["steps"], ran["steps"], strict=True):
        assert (record["step"], record["rank"]) == (other["step"], other["rank"])
        assert np.array(record["layers"]) == pytest.approx(np.array(other["layers"]), abs=0.006)


@pytest.mark.parametrize("scheme", ["ring", "ps", "ps-sharded", "byteps"])
def test_messages_come_after_one_another_and_overlap_with_compute(scheme: str) -> None:
    """A step takes as long as the critical path where links are shared without a rest; and less than when it does not overlap."""
    its = {"scheme": scheme, "pipeline": BARRIER}
    settings = make_settings(TrialSettings, SETTINGS | its)
    period, apart = (simulated(scheme=scheme, pipeline=how)["metrics"]["period_median"] for how in (BARRIER, "blocking"))
    assert pipelines.bound(settings) * 0.999 < period < 1.1 * pipelines.bound(settings)
    assert period < apart - 0.02
    largest = 0.99 * bounds.seconds(settings, 60_000)  # of the last layer's sum, during which all others are asked for
    for record in simulated(**its)["steps"]:
        *_, (_, _, released, summed) = record["layers"]
        assert summed - released > largest


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"scheme": "gloo", "pipeline": BARRIER}, "pipeline barrier of scheme gloo is not simulated: set pipeline=blocking"),
        ({"scheme": "byteps", "pipeline": CROSS_BARRIER}, "pipeline cross-barrier of scheme byteps is not simulated"),
    ],
)
def test_pipelines_that_are_not_simulated(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        simulated(**changes)
