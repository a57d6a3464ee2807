"""The packets and windows that `inalab launch` chooses where nobody else does."""

from __future__ import annotations

import pytest

from inalab.testbed.plan.fitting import FEWEST, MOST, fitted, window
from inalab.testbed.plan.settings import TrialSettings
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks

BITS = 8848  # of a packet of 256 integers: 0.88 ms at 10 Mbit/s


@pytest.mark.parametrize(
    ("rate", "latency", "slots"),
    # at 10 Mbit/s four packet times and 2 ms are 5.5 ms, one and a half times that is 9.4 packets
    [(10.0, 0.0, 16), (1.0, 0.0, 8), (100.0, 0.0, 64), (1000.0, 0.0, 512), (10_000.0, 0.0, MOST), (10.0, 0.01, 64)],
)
def test_a_window_fills_the_way_up_and_down(rate: float, latency: float, slots: int) -> None:
    assert window(NetworkPlan(Racks(2, 4, rate, 2 * rate)), BITS, latency) == slots


def test_more_levels_need_more_and_links_without_a_rate_have_what_was_always_there() -> None:
    one, three = NetworkPlan(Racks(1, 4, 2.0, None)), NetworkPlan(Pods(4, 2, 2.0, 2.0, pods=2, core_rate=2.0))
    assert window(one, BITS) == FEWEST < window(three, BITS) == 16
    assert window(NetworkPlan(Racks(2, 2, None, None)), BITS) == 64


def test_what_is_given_stays_and_a_scheme_without_packets_has_nothing_to_fit() -> None:
    settings = TrialSettings(k=64, slots=7)
    assert (fitted(settings, ()).k, fitted(settings, ()).slots) == (256, 16)
    assert (fitted(settings, {"slots"}).k, fitted(settings, {"slots"}).slots) == (256, 7)
    assert (fitted(settings, {"k"}).k, fitted(settings, {"k"}).slots) == (64, 32)
    assert fitted(settings, {"k", "slots"}) == settings
    ring = settings.changed(scheme="ring")
    assert fitted(ring, ()) == ring
