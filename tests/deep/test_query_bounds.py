"""How many queries losses can cause, over trees, rates, latencies and losses in virtual time, up to 1,024 workers.

A loss can leave every worker without one result. Who asks about it, and is not answered, waits twice as long each time before the
next query. So each worker has a few queries for a loss: it takes eight doublings from the shortest wait to a second. Even without
losses, where a link is so slow that first timeouts expire, a worker asks about some of its first chunks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.costs import Costs, Known
from tests.replay import DELAY


def most_queries(workers: int, lost: int) -> int:
    """Of all workers, for two tensors of 8,000 elements, where so many packets are lost."""
    return workers * (12 + 8 * lost)


def check(elements: int, latency: float, seed: int, **changes: Any) -> None:
    """All sums come to their end (the simulator raises otherwise), for a price that has a bound. Links take `latency` seconds."""
    known = Known(Costs(delay=DELAY + latency, naps=True), 0.0, "as in tests.replay")
    trial = make_settings(TrialSettings, {"compute_ms": 1, "workload": f"tensor-{elements}", "straggler": "none"} | changes)
    found = computed_trial(trial, seed, known)
    lost = round(found["metrics"]["loss_achieved"] * found["metrics"]["loss_packets"])
    queries = sum(worker["counters"]["queries"] for worker in found["workers"])
    assert queries <= most_queries(len(found["workers"]), lost)


@settings(max_examples=40, deadline=None)
@given(
    scheme=st.sampled_from(["switchml", "atp"]), racks=st.integers(1, 4), workers=st.integers(1, 8),
    host_rate=st.sampled_from([0.3, 0.6, 1.0, 2.0, 10.0]), loss=st.sampled_from([0.0, 0.001, 0.01, 0.03]),
    burst=st.sampled_from([1, 8]), latency=st.sampled_from([0.0, 0.001, 0.05]), seed=st.integers(0, 999),
)  # fmt: skip
def test_queries_have_a_bound(**changes: Any) -> None:
    check(8_000, steps=2, **changes)


@pytest.mark.parametrize(
    ("scheme", "racks", "workers"), [("switchml", 32, 32), ("switchml", 4, 16), ("atp", 16, 16), ("atp", 4, 16)]
)
def test_queries_of_many_workers_have_a_bound(scheme: str, racks: int, workers: int) -> None:
    check(8_000, 0.0, 1, scheme=scheme, racks=racks, workers=workers, loss=0.01, steps=1)
