"""Stragglers, the retransmission timer and the workloads, without a network."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.hosts.stream.retransmission import RetransmissionTimer
from inalab.hosts.stream.timeline import Timeline
from inalab.hosts.training.replica import Replica
from inalab.hosts.training.stragglers import KINDS, Straggler
from inalab.hosts.training.workloads import WORKLOADS, find
from tests.summed import summed


@pytest.mark.parametrize("kind", KINDS)
def test_slowdowns_are_replayable_and_never_negative(kind: str) -> None:
    model = Straggler(kind)
    drawn = [model.slowdown(4, rank, step) for rank in range(4) for step in range(50)]
    assert drawn == [model.slowdown(4, rank, step) for rank in range(4) for step in range(50)]
    assert min(drawn) > 0
    if kind not in ("none", "slow"):
        assert len(set(drawn)) > 1


def test_distributions_have_their_means() -> None:
    def mean(model: Straggler) -> float:
        return float(np.mean([model.slowdown(1, rank, step) for rank in range(20) for step in range(300)]))

    assert mean(Straggler("exponential", mean=0.5)) == pytest.approx(1.5, rel=0.05)
    assert mean(Straggler("pareto", shape=4)) == pytest.approx(4 / 3, rel=0.05)
    assert mean(Straggler("bimodal", factor=3, probability=0.25)) == pytest.approx(1.5, rel=0.05)
    assert mean(Straggler("lognormal", sigma=0.5)) == pytest.approx(np.exp(0.125), rel=0.05)
    assert [Straggler("slow", rank=2, factor=3).slowdown(1, r, 0) for r in range(4)] == [1, 1, 3, 1]


def test_expected_maximum_of_shifted_exponentials() -> None:
    """E[max of n] = 1 + mean * H_n."""
    model = Straggler("exponential", mean=1.0)
    longest = [max(model.slowdown(9, rank, step) for rank in range(8)) for step in range(2000)]
    assert np.mean(longest) == pytest.approx(1 + sum(1 / i for i in range(1, 9)), rel=0.05)


def test_unknown_straggler_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of"):
        Straggler("lazy")


def test_timer_follows_round_trips_and_backs_off() -> None:
    timer = RetransmissionTimer(initial=0.1, shortest=0.01, longest=1.0)
    assert timer.timeout == 0.1
    for _ in range(50):
        timer.sample(np.full(16, 0.02))
    assert timer.srtt == pytest.approx(0.02, rel=0.01)
    assert timer.timeout == pytest.approx(0.04, rel=0.02)
    assert timer.timeouts == pytest.approx(timer.timeout * np.array([1, 2, 4]))
    calm = timer.timeout
    timer.needless(now=10.0)
    timer.needless(now=10.0)  # within the same timeout: counts once
    assert timer.timeout == pytest.approx(2 * calm)
    timer.sample(np.full(4, 0.02))
    assert timer.timeout == pytest.approx(calm, rel=0.05)


def test_timer_ignores_a_minority_of_late_results() -> None:
    timer = RetransmissionTimer()
    for _ in range(50):
        timer.sample(np.array([0.02] * 12 + [0.5] * 4))
    assert timer.timeout < 0.1


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_workloads_learn_and_are_seeded(name: str) -> None:
    def train(seed: int) -> tuple[Replica, float]:
        replica = Replica(name, seed, rank=0, workers=1)
        before = replica.evaluate()["test_loss"]
        for step in range(30):
            summed(replica, replica.gradient(step).layers[0])
        return replica, before

    one, before = train(3)
    after = one.evaluate()["test_loss"]
    assert after < before
    assert one.digest() == train(3)[0].digest()
    assert one.digest() != train(4)[0].digest()


def test_a_tensor_workload_gives_its_elements_and_nothing_to_evaluate() -> None:
    replica = Replica("tensor-5000", 3, rank=1, workers=4)
    (gradient,) = replica.gradient(0).layers
    assert gradient.shape == (5000,) and 0.9 < float(gradient.std()) < 1.1
    assert not gradient.equal(replica.gradient(1).layers[0])
    assert replica.evaluate() == {}
    for wrong in ("tensor-0", "tensor-x", "tensor-", "tensor-999999999", "mnist"):
        with pytest.raises(ValueError, match=f"workload {wrong} is unknown: choose one of .*, tensor-N"):
            find(wrong)


def test_a_timeline_counts_in_bins_and_keeps_the_last_window() -> None:
    timeline = Timeline()
    timeline.note(5.001, 4, sent=4)
    timeline.note(5.009, 2, results=2)
    timeline.note(5.011, 3, again=1)
    timeline.note(5.052, 0, results=3)
    assert timeline.since(5.0) == [(0.0, 4, 0, 2, 2), (0.01, 0, 1, 0, 3), (0.05, 0, 0, 3, 0)]
