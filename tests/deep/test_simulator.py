"""The simulator of SwitchML: closed forms where nothing takes time but links, and the P4 program in virtual time."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.costs import Costs, Known
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.plans import layers_of
from inalab.testbed.simulator.simulation import IDEAL, Job, Link, Network, simulate
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.theory import bounds
from tests.replay import DELAY, replay

TIME = 1e-5  # seconds of a packet on a link


def racks(
    number: int, workers: int, chunks: int, slots: int, time: float = TIME, uplink: float = TIME, begun: object = 0.0,
    costs: Costs = IDEAL, links: dict[int, float] | None = None,
) -> np.ndarray:  # fmt: skip
    """When each worker has a sum of so many chunks. The round that announces it takes links no time."""
    size = number * workers
    times = [(links or {}).get(worker, time) for worker in range(size)]
    network = Network([Link(t) for t in [*times, *[uplink] * number]], number + 1)
    compute = np.zeros((size, 1)) + np.reshape(begun, (-1, 1))
    above = {rack: (number, size + rack) for rack in range(number)} if number > 1 else {}
    places = [worker // workers for worker in range(size)]
    job = Job(places, list(range(size)), above, [chunks], slots, Steps(compute), exponents=False)
    return simulate(network, [job], costs).jobs[0].ended[:, 0]


def test_events_come_in_order_of_time_and_then_of_arrival() -> None:
    draw = np.random.default_rng(1)
    heap, given = SIMULATOR.ffi.new("Heap *"), []
    for order in range(500):
        time = float(draw.integers(20))
        given.append((time, order, order * 3))
        SIMULATOR.c.heap_push(heap, time, order * 3)
    events = [SIMULATOR.c.heap_pop(heap) for _ in range(500)]
    taken = [(event.time, event.order, event.what) for event in events]
    assert taken == sorted(given)


@pytest.mark.parametrize("workers", [2, 4, 16, 32])
@pytest.mark.parametrize(("chunks", "slots", "delay"), [(1000, 64, 1e-5), (768, 128, 5e-4)])
def test_a_window_that_fills_the_link_takes_the_links_bound(workers: int, chunks: int, slots: int, delay: float) -> None:
    """All chunks up one after the other, and the last one's way through the switch and back: however many workers there are."""
    assert slots * TIME >= 2 * (TIME + delay)
    ended = racks(1, workers, chunks, slots, costs=Costs(delay=delay))
    assert ended == pytest.approx(np.full(workers, chunks * TIME + TIME + 2 * delay), rel=1e-9)


@pytest.mark.parametrize("slots", [1, 2, 5, 10])
def test_a_small_window_takes_a_round_trip_for_every_window(slots: int) -> None:
    """Little's law: slots / round trip packets a second, where that is less than the link's rate."""
    delay, chunks = 1e-3, 40 * slots
    trip = 2 * (TIME + delay)
    assert slots * TIME < trip
    ended = racks(1, 4, chunks, slots, costs=Costs(delay=delay))
    assert chunks / ended[0] == pytest.approx(slots / trip, rel=1e-3 + 1 / 20)


@pytest.mark.parametrize("number", [2, 3, 8])
def test_two_levels_add_the_uplinks_delay_and_not_its_time(number: int) -> None:
    delay, chunks = 1e-5, 2000
    ended = racks(number, 4, chunks, 64, costs=Costs(delay=delay))
    assert ended == pytest.approx(np.full(4 * number, (chunks - 1) * TIME + 4 * (TIME + delay)), rel=1e-9)


def test_three_levels_add_as_much_again() -> None:
    chunks, workers = 2000, 16
    network = Network([Link(TIME)] * (workers + 4 + 2), 7)  # four racks in two pods below one core
    above = {rack: (4 + rack // 2, workers + rack) for rack in range(4)} | {4 + pod: (6, workers + 4 + pod) for pod in range(2)}
    job = Job([w // 4 for w in range(workers)], list(range(workers)), above, [chunks], 64, Steps(np.zeros((workers, 1))), False)
    ended = simulate(network, [job]).jobs[0].ended[:, 0]
    assert ended == pytest.approx(np.full(workers, (chunks - 1) * TIME + 6 * TIME), rel=1e-9)


def test_jobs_share_uplinks() -> None:
    packets = 3000
    network = Network([Link(TIME)] * 10, 3)
    above = {0: (2, 8), 1: (2, 9)}
    jobs = [
        Job([0, 0, 1, 1], range(4 * j, 4 * j + 4), above, [packets], 64, Steps(np.zeros((4, 1))), exponents=False) for j in range(2)
    ]  # fmt: skip
    for job in simulate(network, jobs).jobs:
        assert job.ended == pytest.approx(np.full((4, 1), 2 * packets * TIME), rel=1e-2)


def test_the_slowest_link_decides() -> None:
    assert racks(2, 3, 3000, 64, links={4: 3 * TIME}) == pytest.approx(np.full(6, 3 * 3000 * TIME), rel=1e-3)
    assert racks(2, 3, 3000, 64, uplink=2 * TIME) == pytest.approx(np.full(6, 2 * 3000 * TIME), rel=1e-3)


def test_a_late_worker_holds_up_all() -> None:
    ended = racks(1, 4, 1000, 64, begun=[0.0, 0.0, 0.05, 0.0])
    assert ended == pytest.approx(np.full(4, 0.05 + 1001 * TIME), rel=1e-3)


def test_a_busy_host_or_switch_decides_where_it_is_slower_than_the_link() -> None:
    hosts = racks(1, 4, 5000, 64, costs=Costs(host=TIME))  # it sends and receives each packet
    assert hosts == pytest.approx(np.full(4, 2 * 5000 * TIME), rel=1e-2)
    switch = racks(1, 8, 5000, 64, costs=Costs(switch=TIME))  # which takes a packet of each worker
    assert switch == pytest.approx(np.full(8, 8 * 5000 * TIME), rel=1e-2)


def test_a_thousand_workers_take_as_long_as_two() -> None:
    few = racks(1, 2, 300, 64)[0]
    many = racks(32, 32, 300, 64)
    assert many == pytest.approx(np.full(1024, few + 2 * TIME), rel=1e-9)
    assert math.isfinite(many.max())


def trial(**changes: object) -> TrialSettings:
    return make_settings(
        TrialSettings, {"k": 256, "slots": 128, "steps": 1, "workload": "tensor-1000000", "costs": "none"} | changes
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"racks": 1},
        {"racks": 3},
        {"racks": 2, "uplink_rate": 3.0},
        {"racks": 2, "topology": "mixed-rates", "slow_share": 0.5},
        {"racks": 3, "topology": "leaf-spine"},
        *(
            {"racks": racks, "scheme": "switchml-rdma", "message": message, "steps": 3}
            for racks in (1, 3)
            for message in (1, 2, 16)
        ),
        {"racks": 1, "scheme": "switchml-rdma", "scaling": 1e5, "steps": 3},
    ],
)
def test_a_trial_takes_its_bound(changes: dict[str, object]) -> None:
    """Before the first sum over RDMA queue pairs are connected, which bounds leave out."""
    found = computed_trial(trial(**changes), 1)["metrics"]["tat_median"]
    bound = bounds.seconds(trial(**changes), 1_000_000)
    assert bound <= found <= 1.001 * bound


@pytest.mark.parametrize(
    "changes",
    [
        {"racks": 1},
        {"racks": 2},
        {"racks": 2, "slots": 8},
        {"racks": 1, "workers": 8, "k": 256, "slots": 16},
        {"racks": 2, "uplink_rate": 5.0},
        {"racks": 1, "loss": 0.01, "steps": 8},
        {"racks": 2, "loss": 0.01, "steps": 8, "recovery": "paper"},
        *({"scheme": "switchml-rdma", "message": message, "racks": racks} for message in (1, 2, 4, 16) for racks in (1, 2)),
        {"scheme": "switchml-rdma", "racks": 4, "topology": "pods"},
        {"scheme": "switchml-rdma", "racks": 2, "scaling": 1e5},
        *({"scheme": "switchml-rdma", "message": message, "racks": 2, "loss": 0.001, "steps": 8} for message in (1, 4)),
        {"scheme": "switchml-rdma", "message": 2, "racks": 1, "loss": 0.01, "steps": 8},
    ],
)
def test_the_real_workers_and_the_real_program_take_as_long_in_virtual_time(changes: dict[str, object]) -> None:
    """tests.replay has them on links with a delay. With losses the two may part at the first packet that comes at another moment."""
    whole = make_settings(TrialSettings, {"steps": 2, "compute_ms": 1, "workload": "digits-mlp"} | changes)
    known = Known(Costs(delay=DELAY, naps=True), 0.0, "as in tests.replay")
    found = computed_trial(whole, 1, known)["metrics"]["tat_median"]
    (tats,) = replay(whole, sum(n for n, _ in layers_of(whole))).tats
    assert found == pytest.approx(statistics.median(tats), rel=0.12 if whole.loss else 0.001)


def test_what_is_lost_over_rdma_is_what_the_real_program_loses() -> None:
    """The same packets have the same numbers, with those that connect queue pairs and those that end in a switch. In these trials no
    packets come at one moment whose order is open, so all is equal, though a message in three is sent again."""
    whole = make_settings(
        TrialSettings,
        {"scheme": "switchml-rdma", "message": 16, "racks": 2, "workers": 3, "loss": 0.001, "steps": 3, "compute_ms": 1},
    )
    known = Known(Costs(delay=DELAY, naps=True), 0.0, "as in tests.replay")
    found = computed_trial(whole.changed(workload="tensor-40000"), 1, known)
    told, real = found["metrics"], replay(whole, 40_000)
    assert told["handled"] < told["packets_sent"] / 4
    assert told["retransmissions"] == real.retransmissions > 1000
    assert round(told["loss_achieved"] * told["loss_packets"]) == real.lost
    tats = [max(r["tat"] for r in found["steps"] if r["step"] == step) for step in range(3)]
    assert statistics.median(tats) == pytest.approx(statistics.median(real.tats[0]), rel=1e-6)
