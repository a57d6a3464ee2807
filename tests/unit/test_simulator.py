"""The simulator of SwitchML: closed forms where nothing takes time but links, and its twin in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.plan.settings import SettingsError, TrialSettings, make_settings
from testbed.simulator.events import pop, push
from testbed.simulator.plans import network_of, sum_of
from testbed.simulator.switchml import Costs, Network, simulate
from tests.replay import DELAY, replay
from tests.simulated_switchml import Twin

TIME = 1e-5  # seconds of a packet on a link


def one_rack(workers: int, time: float = TIME) -> Network:
    return Network(np.zeros(workers, np.int64), np.full(workers, time), np.zeros(0))


def racks(number: int, workers: int, time: float = TIME, uplink: float = TIME) -> Network:
    return Network(np.repeat(np.arange(number), workers), np.full(number * workers, time), np.full(number, uplink))


def test_events_come_in_order_of_time_and_then_of_arrival() -> None:
    draw = np.random.default_rng(1)
    heap, size, given = (np.zeros(500), np.zeros(500, np.int64), np.zeros(500, np.int64)), 0, []
    for order in range(500):
        time = float(draw.integers(20))
        given.append((time, order, order * 3))
        size = push(*heap, size, time, order, order * 3)
    taken = []
    while size:
        taken.append((float(heap[0][0]), int(heap[1][0]), int(heap[2][0])))
        size = pop(*heap, size)
    assert taken == sorted(given)


@pytest.mark.parametrize("workers", [2, 4, 16, 64])
@pytest.mark.parametrize(("packets", "slots", "delay"), [(1000, 64, 1e-5), (1, 64, 1e-5), (777, 128, 5e-4), (1000, 1000, 0.0)])
def test_a_window_that_fills_the_link_takes_the_links_bound(workers: int, packets: int, slots: int, delay: float) -> None:
    """All packets up one after the other, and the last one's way through the switch and back: however many workers there are."""
    assert min(slots, packets) * TIME >= 2 * (TIME + delay) or packets <= slots
    ended = simulate(one_rack(workers), packets, slots, np.zeros(workers), Costs(delay=delay)).ended
    assert ended == pytest.approx(np.full(workers, packets * TIME + TIME + 2 * delay), rel=1e-9)


@pytest.mark.parametrize("slots", [1, 2, 5, 10])
def test_a_small_window_takes_a_round_trip_for_every_window(slots: int) -> None:
    """Little's law: slots / round trip packets a second, where that is less than the link's rate."""
    delay, packets = 1e-3, 40 * slots
    trip = 2 * (TIME + delay)
    assert slots * TIME < trip
    ended = simulate(one_rack(4), packets, slots, np.zeros(4), Costs(delay=delay)).ended
    exact = (packets // slots - 1) * trip + slots * TIME + TIME + 2 * delay
    assert ended == pytest.approx(np.full(4, exact), rel=1e-9)
    assert packets / ended[0] == pytest.approx(slots / trip, rel=1e-3 + 1 / 40)


@pytest.mark.parametrize("number", [2, 3, 8])
def test_two_levels_add_the_uplinks_delay_and_not_its_time(number: int) -> None:
    delay, packets = 1e-5, 2000
    ended = simulate(racks(number, 4), packets, 64, np.zeros(4 * number), Costs(delay=delay)).ended
    assert ended == pytest.approx(np.full(4 * number, (packets - 1) * TIME + 4 * (TIME + delay)), rel=1e-9)


def test_the_slowest_link_decides() -> None:
    network = racks(2, 3)
    network.links[4] = 3 * TIME
    ended = simulate(network, 3000, 64, np.zeros(6)).ended
    assert ended == pytest.approx(np.full(6, 3 * 3000 * TIME), rel=1e-3)
    oversubscribed = racks(2, 3, uplink=2 * TIME)
    assert simulate(oversubscribed, 3000, 64, np.zeros(6)).ended == pytest.approx(np.full(6, 2 * 3000 * TIME), rel=1e-3)


def test_a_late_worker_holds_up_all() -> None:
    begun = np.array([0.0, 0.0, 0.5, 0.0])
    ended = simulate(one_rack(4), 1000, 64, begun).ended
    assert ended == pytest.approx(np.full(4, 0.5 + 1001 * TIME), rel=1e-9)


def test_a_busy_host_or_switch_decides_where_it_is_slower_than_the_link() -> None:
    hosts = simulate(one_rack(4), 5000, 64, np.zeros(4), Costs(host=TIME)).ended  # it sends and receives each packet
    assert hosts == pytest.approx(np.full(4, 2 * 5000 * TIME), rel=1e-2)
    switch = simulate(one_rack(8), 5000, 64, np.zeros(8), Costs(switch=TIME)).ended  # which takes a packet of each worker
    assert switch == pytest.approx(np.full(8, 8 * 5000 * TIME), rel=1e-2)


times = st.floats(0, 1e-3)


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(1, 30), st.integers(1, 9), st.randoms(use_true_random=False),
    times, times, times,
)  # fmt: skip
def test_every_event_is_its_twins(
    places: list[int], packets: int, slots: int, draw: object, host: float, switch: float, delay: float
) -> None:
    present = sorted(set(places))
    racks_of = [present.index(place) for place in places]
    random = np.random.default_rng(draw.getrandbits(32))  # type: ignore[attr-defined]
    links, uplinks = random.uniform(1e-6, 1e-4, len(places)), random.uniform(1e-6, 1e-4, len(present))
    begun = random.choice([0.0, 1e-3, 0.1], len(places))
    network = Network(np.array(racks_of), links, uplinks if len(present) > 1 else np.zeros(0))
    ours = simulate(network, packets, slots, begun, Costs(host, switch, delay))
    twin = Twin(racks_of, links.tolist(), uplinks.tolist(), packets, slots, begun.tolist(), host, switch, delay)
    assert ours.ended.tolist() == twin.run()
    assert ours.events == len(twin.trace)


def test_a_thousand_workers_take_as_long_as_two() -> None:
    few = simulate(one_rack(2), 300, 64, np.zeros(2)).ended[0]
    many = simulate(racks(32, 32), 300, 64, np.zeros(1024)).ended
    assert many == pytest.approx(np.full(1024, few + 2 * TIME), rel=1e-9)
    assert math.isfinite(many.max())


def test_racks_without_uplinks_are_refused() -> None:
    network = Network(np.array([0, 1]), np.ones(2), np.ones(1))
    with pytest.raises(ValueError, match="2 racks need as many uplinks"):
        simulate(network, 1, 1, np.zeros(2))


def settings(**changes: object) -> TrialSettings:
    return make_settings(TrialSettings, {"k": 256, "slots": 128} | changes)


def test_a_trials_settings_are_simulated_as_their_bound_has_it() -> None:
    for changes in (
        {"racks": 1},
        {"racks": 3},
        {"racks": 2, "uplink_rate": 3.0},
        {"racks": 2, "topology": "mixed-rates", "slow_share": 0.5},
    ):
        found, bound = sum_of(settings(**changes), 1_000_000, Costs())
        assert found.ended.max() == pytest.approx(bound, rel=1e-3)
        assert found.ended.max() >= bound


def test_the_links_of_a_plan_are_the_simulators() -> None:
    plan = settings(racks=2, workers=3, host_rate=100.0, uplink_rate=50.0).plan()
    network = network_of(plan, 10_000)
    assert network.racks.tolist() == [0, 0, 0, 1, 1, 1]
    assert network.links.tolist() == pytest.approx([1e-4] * 6) and network.uplinks.tolist() == pytest.approx([2e-4] * 2)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheme": "ring"}, "scheme ring is not simulated yet"),
        ({"loss": 0.01}, "no loss"),
        ({"topology": "leaf-spine"}, "one root"),
    ],
)
def test_what_is_not_simulated_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        sum_of(settings(**changes), 1000, Costs())


@pytest.mark.parametrize(
    "changes",
    [
        {"racks": 1},
        {"racks": 2},
        {"racks": 2, "slots": 8},
        {"racks": 1, "workers": 8, "k": 256, "slots": 16},
        {"racks": 2, "uplink_rate": 5.0},
    ],
)
def test_the_real_workers_and_the_real_program_take_as_long_in_virtual_time(changes: dict[str, object]) -> None:
    """tests.replay runs them on links with a delay. What it has beside the simulator are the workers' naps: up to 2 % here."""
    trial = make_settings(TrialSettings, {"steps": 1, "compute_ms": 1} | changes)
    (of_job,) = replay(trial, 16_640).tats
    found, _ = sum_of(trial, 16_640, Costs(delay=DELAY))
    assert of_job[0] == pytest.approx(found.ended.max(), rel=0.02)
    assert found.ended.max() <= of_job[0]
