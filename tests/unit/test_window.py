"""The window that a trial has unless it is set, and the packets of `inalab launch`."""

from __future__ import annotations

from typing import Any

import pytest

from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.plan.window import FEWEST, MOST, window
from inalab.testbed.trial.launch import with_large_packets
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


@pytest.mark.parametrize(
    ("change", "slots"),
    [
        ({}, 32),
        ({"slots": 7}, 7),
        ({"k": 256}, 16),
        ({"host_rate": 100.0}, 32),
        ({"host_rate": 100.0, "uplink_rate": 100.0}, 128),
        ({"scheme": "atp"}, 32),
        ({"scheme": "ring"}, None),
    ],
)
def test_a_window_follows_the_network_unless_it_is_set(change: dict[str, Any], slots: int | None) -> None:
    settings = TrialSettings().changed(**change)
    assert settings.chosen_slots() == settings.resolved()["slots"] == slots
    assert getattr(settings.scheme_settings(), "slots", None) == slots
    assert settings.changed(host_rate=1.0).chosen_slots() == (slots if slots in (7, None) else 8)


def test_jobs_have_windows_of_their_own() -> None:
    settings = TrialSettings(racks=1, jobs='[{"slots": 5}, {}]')  # type: ignore[arg-type]
    assert [admitted.settings.slots for admitted in settings.admitted(settings.plan())] == [5, 16]
    assert settings.resolved()["slots"] == 5


def test_a_scripts_packets_are_the_largest() -> None:
    assert with_large_packets(TrialSettings(), (), 256).k == 256
    assert with_large_packets(TrialSettings(), {"k"}, 256).k == 64
    assert with_large_packets(TrialSettings(scheme="ring"), (), 256).k == 64
