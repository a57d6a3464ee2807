"""The retransmission timer, batch by batch, against numbers worked out by hand from RFC 6298 and its own rules."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.hosts.stream.retransmission import RetransmissionTimer


def timer_after(*batches: list[float], initial: float = 0.1, shortest: float = 0.01, longest: float = 1.0) -> RetransmissionTimer:
    timer = RetransmissionTimer(initial, shortest, longest)
    for batch in batches:
        timer.sample(np.array(batch))
    return timer


def test_the_first_batch_sets_the_estimate() -> None:
    timer = timer_after([0.02, 0.03, 0.04])
    assert (timer.srtt, timer.variation) == (pytest.approx(0.03), pytest.approx(0.015))
    assert timer.timeout == pytest.approx(0.03 + 4 * 0.015)


def test_an_empty_batch_changes_nothing() -> None:
    timer = timer_after([])
    assert timer.timeout == 0.1
    timer.sample(np.array([0.02]))
    timer.needless(now=10.0)
    timer.sample(np.array([]))
    assert timer.timeout == pytest.approx(0.12)


@pytest.mark.parametrize("n", [1, 5])
def test_the_estimate_rises_by_a_thirty_second_for_each_round_trip(n: int) -> None:
    timer = timer_after([0.02], [0.05] * n)
    assert timer.srtt == pytest.approx(0.02 + 0.03 * (1 - (31 / 32) ** n))
    assert timer.variation == pytest.approx(0.01 + (0.03 - 0.01) * (1 - (15 / 16) ** n))


def test_the_variation_is_the_distance_of_each_round_trip_from_the_estimate() -> None:
    timer = timer_after([0.02], [0.01, 0.03, 0.04])  # distances 0.01, 0.01 and 0.02; the median is above the estimate
    assert timer.srtt == pytest.approx(0.02 + 0.01 * (1 - (31 / 32) ** 3))
    assert timer.variation == pytest.approx(0.01)


@pytest.mark.parametrize("n", [1, 3])
def test_the_estimate_falls_by_a_quarter_for_each_round_trip(n: int) -> None:
    timer = timer_after([0.04], [0.03] * n)
    weight = 1 - (3 / 4) ** n
    assert timer.srtt == pytest.approx(0.04 - 0.01 * weight)
    assert timer.variation == pytest.approx(0.02 + (0.01 - 0.02) * weight)  # the distance, as it is the least


def test_a_fall_raises_no_variation() -> None:
    timer = timer_after([0.08], [0.01])
    assert timer.srtt == pytest.approx(0.08 - 0.07 / 4)
    assert timer.variation == pytest.approx(0.04 + (0.01 - 0.04) / 4)  # the new round trip is the least
    timer = timer_after([0.03], *([[0.03]] * 200), [0.02])
    before = timer_after([0.03], *([[0.03]] * 200)).variation
    assert before < 0.001
    assert timer.variation == pytest.approx(before)  # the variation itself is the least


def test_round_trips_beyond_four_times_the_shortest_of_late_count_as_that() -> None:
    timer = timer_after([0.02], [0.5])
    assert timer.srtt == pytest.approx(0.02 + (0.08 - 0.02) / 32)
    assert timer.variation == pytest.approx(0.01 + (0.06 - 0.01) / 16)


def test_of_late_is_sixty_four_batches() -> None:
    for batches, believed in ((62, 0.04), (63, 0.08)):  # with the one that is measured, 64 and 65 after the shortest
        timer = timer_after([0.01], *([[0.02]] * batches))
        before = timer.srtt
        timer.sample(np.array([0.5]))
        assert timer.srtt == pytest.approx(before + (believed - before) / 32)


def test_a_needless_one_doubles_the_timeout_once_within_a_timeout_and_twice_at_most() -> None:
    timer = timer_after([0.02], longest=9.0)
    calm = timer.timeout
    assert calm == pytest.approx(0.06)
    timer.needless(now=1.0)
    timer.needless(now=1.0 + 2 * calm - 0.001)  # still within the doubled timeout
    assert timer.timeout == pytest.approx(2 * calm)
    timer.needless(now=1.0 + 2 * calm + 0.001)
    assert timer.timeout == pytest.approx(4 * calm)
    timer.needless(now=9.0)
    assert timer.timeout == pytest.approx(4 * calm)
    timer.sample(np.array([0.02]))
    assert timer.timeout < calm


def test_a_timeout_is_two_round_trips_at_least_and_within_its_limits() -> None:
    steady = timer_after(*([[0.05]] * 300))
    assert steady.timeout == pytest.approx(0.1, rel=0.01)
    assert timer_after(*([[0.001]] * 300)).timeout == 0.01
    assert timer_after([0.9]).timeout == 1.0
    assert timer_after(initial=0.3).timeout == 0.3
    assert timer_after(initial=3.0).timeout == 1.0


def test_each_chunk_backs_off_by_itself_twice_at_most() -> None:
    timer = timer_after([0.02], longest=0.2)
    assert timer.timeouts == pytest.approx([0.06, 0.12, 0.2])
    timer = timer_after([0.02], longest=9.0)
    assert timer.timeouts == pytest.approx([0.06, 0.12, 0.24])


def test_what_a_timer_begins_with() -> None:
    timer = RetransmissionTimer()
    assert timer.timeout == 0.1
    timer.needless(now=0.05)  # within the first timeout since the beginning
    assert timer.timeout == 0.1
    assert RetransmissionTimer(initial=7.0).timeout == 1.0
    timer.sample(np.array([0.001]))
    assert timer.timeout == 0.01


def test_a_round_trip_as_long_as_the_estimate_calms_it_slowly() -> None:
    timer = timer_after([0.02], [0.02])
    assert timer.srtt == pytest.approx(0.02)
    assert timer.variation == pytest.approx(0.01 * 15 / 16)


def test_a_needless_one_counts_again_after_exactly_one_timeout() -> None:
    timer = RetransmissionTimer(initial=0.25)
    for now in (1.0, 1.5):
        timer.needless(now)
    assert timer.timeout == 1.0
