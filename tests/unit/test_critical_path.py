"""The critical path of a step: by hand, against every order of sums, and against the schemes' bounds."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inalab.hosts.training.pipeline import BARRIER, BLOCKING, CROSS_BARRIER, scheduled
from inalab.schemes import registry
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.theory import pipelines
from inalab.testbed.theory.pipelines import carried, period
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks

LAYERS = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[st.integers(1, 20)] * 3), min_size=n, max_size=n))


def test_sums_in_order_and_by_urgency() -> None:
    assert carried([30, 20, 10], [5, 5, 50], urgent=False) == [70, 65, 60]
    assert carried([30, 20, 10], [5, 5, 50], urgent=True) == [35, 25, 70]


def test_a_heavy_last_layer_is_hidden_by_priority_alone() -> None:
    """Forward 10 and 10, backward 20 and 20; the last layer's sum takes 60, the first one's 10."""
    profile = [10.0, 10.0], [20.0, 20.0], [10.0, 60.0]
    assert period(BARRIER, *profile) == 20 + 20 + 70
    assert period(CROSS_BARRIER, *profile, urgent=False) == pytest.approx(20 + 20 + 60 + 10)
    # the first layer's gradient is there 20 after the last one's, and overtakes it: the last one ends 70 after it began
    assert period(CROSS_BARRIER, *profile, urgent=True) == pytest.approx(10 + 20 + 70)


@given(LAYERS)
@settings(max_examples=60)
def test_no_order_without_breaks_beats_the_most_urgent_first(layers: list[tuple[int, int, int]]) -> None:
    forward, backward, takes = (list(map(float, column)) for column in zip(*layers, strict=True))
    released = scheduled(0.0, [0.0] * len(layers), forward, backward).backward

    def next_ends(summed: list[float]) -> float:
        return scheduled(released[0], summed, forward, backward).ended

    best = next_ends(carried(released, takes, urgent=True))
    for order in permutations(range(len(layers))):
        now, summed = 0.0, [0.0] * len(layers)
        for layer in order:
            now = summed[layer] = max(now, released[layer]) + takes[layer]
        assert best <= next_ends(summed) + 1e-9


@given(LAYERS)
def test_each_pipeline_hides_more_than_the_one_before(layers: list[tuple[int, int, int]]) -> None:
    forward, backward, takes = (list(map(float, column)) for column in zip(*layers, strict=True))
    blocking = sum(forward) + sum(backward) + sum(takes)
    barrier, cross = (period(pipeline, forward, backward, takes) for pipeline in (BARRIER, CROSS_BARRIER))
    assert max(sum(forward) + sum(backward), sum(takes)) - 1e-9 <= cross <= barrier + 1e-9 <= blocking + 2e-9
    assert cross <= period(CROSS_BARRIER, forward, backward, takes, urgent=False) + 1e-9


def test_the_bound_of_one_tensor_is_compute_and_then_the_schemes_bound() -> None:
    plain = TrialSettings(racks=1, workers=4, workload="tensor-100000", compute_ms=200, scheme="ring", pipeline=BLOCKING)
    plan = plain.plan()
    ring = plain.of_scheme().bound(plan, plain.scheme_settings(), 100_000)
    assert pipelines.bound(plain) == pytest.approx(0.2 + ring)
    layered = plain.changed(workload="layers-4x25000", pipeline=CROSS_BARRIER)
    assert 0.2 < pipelines.bound(layered) < pipelines.bound(plain)
    assert pipelines.least_exchange(plain) == pytest.approx(ring)


def test_the_front_layer_is_first_in_the_times_of_a_trial() -> None:
    """Three quarters of the elements are the front layer's; a quarter of the time is the forward pass."""
    own = {"racks": 1, "workers": 4, "workload": "layers-75000+25000", "compute_ms": 200, "scheme": "ring", "forward_share": 0.25}
    chosen = TrialSettings(**own, pipeline=CROSS_BARRIER, background=1.0)
    forward, backward, takes = pipelines.of_settings(chosen)
    assert (sum(forward), sum(backward)) == (pytest.approx(0.05), pytest.approx(0.15))
    whole = chosen.of_scheme().bound(chosen.changed(background=0.0).plan(), chosen.scheme_settings(), 100_000)
    assert takes == pytest.approx([0.75 * whole, 0.25 * whole])


def test_a_stream_of_tensors_pays_for_one_window_of_exponents() -> None:
    """Four tensors of 100 chunks through 64 slots: 400 chunks, one window, and three more announcements."""
    scheme, plan = registry.find("switchml"), NetworkPlan(Racks(1, 4, 10.0, None))
    own = scheme.Settings(k=64, slots=64)
    chunk, bare = scheme.bits_on_wire(64) / 10e6, scheme.bits_on_wire(1) / 10e6
    assert sum(scheme.bounds_of_step(plan, own, [6400] * 4)) == pytest.approx(400 * chunk + (64 + 3) * bare)
    assert scheme.bounds_of_step(plan, own, [6400]) == pytest.approx([scheme.bound(plan, own, 6400)])
    assert scheme.bounds_of_step(plan, own, []) == []
    fixed = scheme.Settings(k=64, slots=64, scaling=1e6)
    assert sum(scheme.bounds_of_step(plan, fixed, [6400] * 4)) == pytest.approx(4 * scheme.bound(plan, fixed, 6400))
