"""Bounds and validity, each held to numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire
from inalab.hosts.training.pipeline import ASYNCHRONOUS, CROSS_BARRIER
from inalab.switches.loss import Loss, decisions, link_seed, threshold
from inalab.testbed.draw.curves import Tolerance, over_base, words
from inalab.testbed.measures import ATE, of_bound, retransmitted
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import Interval
from inalab.testbed.theory import bounds, pipelines
from inalab.testbed.trial.validity import MOST_SATURATED, SIGMAS, judge, loss_deviation
from tests.runs import invalid, record, trial

CHUNKS = 400
BITS = {64: (64 * 4 + 82) * 8, 256: (256 * 4 + 82) * 8}  # of a SwitchML packet: 58 bytes of headers, and 24 of the wire
BARE = 86 * 8  # and of one that has a tag in place of a vector


def settings(**change: Any) -> TrialSettings:
    return TrialSettings(**{"racks": 1, "workers": 4, "k": 64, "slots": 32, "host_rate": 10.0, "uplink_rate": 10.0, **change})


def test_bits_on_the_wire_count_headers_preamble_and_gap() -> None:
    for k, bits in BITS.items():
        assert wire.bits_on_wire(k) == bits


@pytest.mark.parametrize(
    ("change", "rate"),
    [
        ({}, 10.0),
        ({"uplink_rate": 1.0}, 10.0),  # one rack has no uplink
        ({"racks": 2, "uplink_rate": 4.0}, 4.0),
        ({"racks": 2, "host_rate": 3.0, "uplink_rate": 4.0}, 3.0),
    ],
)
def test_switchml_is_as_slow_as_its_slowest_link(change: dict[str, Any], rate: float) -> None:
    expected = (CHUNKS * BITS[64] + 32 * BARE) / (rate * 1e6)
    assert bounds.seconds(settings(**change), 64 * CHUNKS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("elements", "slots", "packets"), [(64 * 5, 32, 10), (64 * 5 - 63, 32, 10), (64 * 5 + 1, 32, 12), (64 * 50, 32, 82)]
)
def test_exponents_go_ahead_for_a_window_or_the_whole_tensor(elements: int, slots: int, packets: int) -> None:
    assert bounds.packets(settings(slots=slots), elements) == packets
    assert bounds.packets(settings(slots=slots, scaling=1e6), elements) == -(-elements // 64)
    assert bounds.packets(settings(slots=slots, scheme="atp"), elements) == -(-elements // 64)


@pytest.mark.parametrize(
    ("racks", "servers", "busiest"),
    # of a chunk's sums and results, into the rack that has most of it: a server's rack takes in the other racks' sums
    [(2, 1, 1.0), (4, 1, 3.0), (4, 2, 2.0), (4, 4, 1.5), (2, 2, 1.0), (3, 4, 1.5)],
)
def test_atps_uplinks_carry_the_sums_into_the_servers_racks(racks: int, servers: int, busiest: float) -> None:
    fast_hosts = settings(scheme="atp", racks=racks, servers=servers, host_rate=1000.0)
    whole = CHUNKS * atp_wire.bits_on_wire(64)
    assert bounds.seconds(fast_hosts, 64 * CHUNKS) == pytest.approx(busiest * whole / 10e6)
    slow_hosts = settings(scheme="atp", racks=racks, servers=servers, host_rate=1.0)
    assert bounds.seconds(slow_hosts, 64 * CHUNKS) == pytest.approx(whole / 1e6)


def test_atp_in_one_rack_has_no_uplink() -> None:
    alone = settings(scheme="atp", uplink_rate=0.1)
    assert bounds.seconds(alone, 64 * CHUNKS) == pytest.approx(CHUNKS * atp_wire.bits_on_wire(64) / 10e6)


def test_what_goes_up_a_racks_uplink() -> None:
    size = 4 * 64 * CHUNKS
    switchml = settings(racks=2, scaling=1e6)
    assert bounds.uplink_tensors(switchml, 64 * CHUNKS) == pytest.approx((64 * 4 + 58) / (64 * 4))
    with_exponents = bounds.uplink_tensors(settings(racks=2), 64 * CHUNKS)
    assert with_exponents == pytest.approx((CHUNKS * (64 * 4 + 58) + 32 * (4 + 58)) / CHUNKS / (64 * 4))
    tcp = 1514 / 1448
    for scheme, tensors in (("ring", 2 * 7 / 8), ("gloo", 2 * 7 / 8), ("ps-sharded", 2 * 4 * (1 - 1 / 2)), ("ps", 4.0)):
        found = bounds.uplink_tensors(settings(racks=2, scheme=scheme, background=1.0), size // 4)
        assert found == pytest.approx(tcp * tensors), scheme
    served = bounds.uplink_tensors(settings(racks=4, scheme="ps"), size // 4)
    assert served == pytest.approx(tcp * 12)  # results to twelve workers leave the server's rack, and four tensors each other rack


def test_a_trials_share_of_its_bound() -> None:
    chosen = settings()
    entry = trial() | {"settings": chosen.model_dump()}
    least = bounds.seconds(chosen, 25_600)
    entry["metrics"] |= {"elements": 25_600, "ate_per_second": 25_600 / (2 * least)}
    assert bounds.of_trial(entry) == pytest.approx(least)
    assert bounds.ate(entry) == pytest.approx(25_600 / least)
    assert of_bound(entry) == pytest.approx(0.5)
    layered = settings(workload="layers-2x6400", pipeline=CROSS_BARRIER)
    assert bounds.of_trial(entry | {"settings": layered.resolved()}) == pipelines.least_exchange(layered) != bounds.of_trial(entry)
    pulled = settings(scheme="async", pipeline=ASYNCHRONOUS)
    assert math.isnan(bounds.of_trial(entry | {"settings": pulled.resolved()})) and math.isnan(pipelines.bound(pulled))
    assert ATE(entry) == pytest.approx(25_600 / (2 * least) / 1e6)
    assert retransmitted(entry | {"metrics": {"retransmissions": 5, "packets_sent": 200}}) == pytest.approx(2.5)


def test_a_ratio_to_a_base_is_seed_by_seed_and_of_valid_trials() -> None:
    entries = [
        trial(name, seed, tat=tat * seed) | {"factors": {"p": name}} for name, tat in (("a", 1.0), ("b", 3.0)) for seed in (1, 2, 3)
    ]
    entries[1] = invalid(entries[1], "a problem")
    run = Run(None, record(), entries)  # type: ignore[arg-type]
    longer = over_base(run, lambda t: float(t["metrics"]["tat_median"]), p="a")
    assert longer(entries[3]) == longer(entries[5]) == pytest.approx(3.0)
    assert math.isnan(longer(entries[4]))


def test_tolerances_in_words() -> None:
    allowed = Tolerance(0.9, 1.1)
    assert allowed.words(Interval(0.9, 0.8, 1.0, 5), "of it") == "0.90 (0.80 to 1.00, n = 5) of it, within the stated 0.9 to 1.1"
    for median in (0.89, 1.11):
        assert "OUTSIDE the stated 0.9 to 1.1" in allowed.words(Interval(median, 0.8, 1.2, 5), "of it")
    assert words(Interval(1.0, math.nan, math.nan, 2)) == "1.00 (n = 2)"


@pytest.mark.parametrize("burst", [1.0, 4.0])
def test_the_deviation_of_achieved_loss_is_that_of_the_drawn_losses(burst: float) -> None:
    chosen = TrialSettings(loss=0.05, burst=burst)
    model = chosen.loss_model()
    assert model is not None
    rates = [np.mean(decisions(model, link_seed(seed, 1, 0), 2000)) for seed in range(120)]
    assert loss_deviation(chosen, 2000) == pytest.approx(float(np.std(rates)), rel=0.25)
    assert loss_deviation(chosen, 8000) == pytest.approx(loss_deviation(chosen, 2000) / 2)
    assert loss_deviation(chosen, 0) == loss_deviation(TrialSettings(), 2000) == 0.0


@pytest.mark.parametrize(
    ("sigmas", "valid"), [(0.9 * SIGMAS, True), (1.1 * SIGMAS, False), (-0.9 * SIGMAS, True), (-1.1 * SIGMAS, False)]
)
def test_achieved_loss_may_be_five_deviations_off(sigmas: float, valid: bool) -> None:
    chosen, packets = TrialSettings(loss=0.1), 10_000
    assert SIGMAS == 5
    metrics = {
        "padding_min": 0.0, "saturated": MOST_SATURATED, "saturated_by": "", "queue_drops": 0, "retransmissions": 0, "packets_sent": 1,
        "loss_achieved": 0.1 + sigmas * math.sqrt(0.1 * 0.9 / packets), "loss_packets": packets, "model_digest": "ab",
    }  # fmt: skip
    assert (judge(metrics, chosen) == []) is valid


@pytest.mark.parametrize(
    ("change", "excused"),
    [
        ({}, False),
        ({"straggler": "slow"}, True),
        ({"scheme": "atp"}, True),
        ({"faults": "down h0 at 1"}, True),
        ({"scheme": "ring"}, False),
    ],
)
def test_packets_sent_again_are_excused_where_something_makes_them(change: dict[str, Any], excused: bool) -> None:
    metrics = {
        "padding_min": 0.0, "saturated": 0.0, "saturated_by": "", "queue_drops": 0, "retransmissions": 50, "packets_sent": 1000,
        "loss_achieved": 0.0, "loss_packets": 0, "model_digest": "ab",
    }  # fmt: skip
    assert (judge(metrics, TrialSettings(**change)) == []) is excused


def test_loss_models_have_their_parameters() -> None:
    model = Loss.gilbert_elliott(0.2, 4)
    assert (model.leave, model.good, model.bad) == (0.25, 0.0, 1.0)
    assert model.enter == pytest.approx(0.25 * 0.2 / 0.8)
    assert model.mean == pytest.approx(0.2)
    assert Loss.bernoulli(0.3).mean == 0.3
    assert Loss(good=0.1, bad=0.5, enter=0.1, leave=0.3).mean == pytest.approx(0.1 * 0.75 + 0.5 * 0.25)
    for mean, burst in ((1.0, 2.0), (-0.1, 2.0), (0.1, 0.5), (0.9, 2.0)):
        with pytest.raises(ValueError, match="loss"):
            Loss.gilbert_elliott(mean, burst)
    assert [threshold(p) for p in (0.0, 0.5, 1.0)] == [0, 2**31, 2**32 - 1]
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="is not a probability"):
            threshold(wrong)
