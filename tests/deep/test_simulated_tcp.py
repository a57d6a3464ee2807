"""Messages over TCP, segment by segment: closed forms, and the twin in plain Python event by event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inalab.schemes.tcp import SEGMENT
from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.simulator import costs, tcp
from inalab.testbed.simulator.gloo import GlooRing
from inalab.testbed.simulator.plans import compute_times
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.simulator.sums import Sums
from inalab.testbed.simulator.tcp import TcpTraffic
from inalab.testbed.simulator.traffic import Traffic
from inalab.testbed.simulator.updates import Updates
from inalab.topologies.buckets import burst
from inalab.topologies.plan import NetworkPlan
from tests.simulated_tcp import TcpTwin

RATE = 10.0  # Mbit/s
TIME = 8 * 1538 / RATE / 1e6  # of a full segment on a link
AT_ONCE = 8 * burst(RATE) / RATE / 1e6


def plan_of(workers: int, **changes: Any) -> NetworkPlan:
    return make_settings(TrialSettings, {"scheme": "ps", "racks": 1, "workers": workers, "host_rate": RATE, **changes}).plan()


def known(delay: float = 0.0, message: float = 0.0) -> costs.Known:
    return costs.emulated({"host": 0.0, "batch": 0.0, "switch": 0.0, "delay": delay, "message": message}, "")


def times(traffic: Traffic, *messages: tuple[int, int, float]) -> list[float]:
    """When messages that are sent at once have come."""
    came: dict[int, float] = {}
    for number, (source, destination, octets) in enumerate(messages):
        traffic.send(source, destination, octets, lambda number=number: came.setdefault(number, traffic.now))
    traffic.run()
    return [came[number] for number in range(len(messages))]


@pytest.mark.parametrize("segments", [1, 2, 19, 500])
def test_a_message_takes_its_links_time_but_for_what_the_bucket_lets_pass(segments: int) -> None:
    found = times(TcpTraffic(plan_of(2), known(1e-5, 1e-3), 1), (0, 2, segments * SEGMENT))
    assert found == pytest.approx([max(0.0, segments * TIME - AT_ONCE) + 2e-5 + 1e-3])


def test_a_small_window_lets_so_many_segments_go_in_a_round_trip() -> None:
    """Little's law: where links have time to spare a window's segments are under way."""
    delay, segments = 0.05, 2000
    traffic = TcpTraffic(plan_of(2), known(delay), 3)
    found = times(traffic, (0, 2, segments * SEGMENT))
    window = traffic._wires.connections[0].window
    assert tcp.WINDOWS[0] <= window <= tcp.WINDOWS[1]
    round_trip = 4 * delay + 2 * TIME - AT_ONCE  # an acknowledgment waits for a second segment, and passes at once
    assert segments / window * round_trip < found[0] < 1.02 * segments / (window - 1) * round_trip


def test_connections_that_share_a_link_all_take_as_long() -> None:
    found = times(TcpTraffic(plan_of(4), known(), 1), *[(w, 4, 400 * SEGMENT) for w in range(4)])
    assert max(found) == pytest.approx(4 * 400 * TIME, rel=0.01) and min(found) > 0.8 * max(found)


def test_messages_of_a_connection_come_in_order_and_a_header_waits_behind_data() -> None:
    traffic = TcpTraffic(plan_of(2), known(), 1)
    wording: list[float] = []
    traffic.after(0.01, traffic.tell, 0, 2, lambda: wording.append(traffic.now))
    first, second = times(traffic, (0, 2, 100 * SEGMENT), (0, 2, 10 * SEGMENT))
    assert first == pytest.approx(100 * TIME - AT_ONCE) and second == pytest.approx(110 * TIME - AT_ONCE)
    assert second < wording[0] < second + TIME


def test_acknowledgments_wait_behind_data_the_other_way() -> None:
    """Two ways at once: whoever has the smaller window waits for acknowledgments that come after the other's whole window."""
    alone = times(TcpTraffic(plan_of(2, scheme="ring"), known(), 1), (0, 1, 1000 * SEGMENT))[0]
    traffic = TcpTraffic(plan_of(2, scheme="ring"), known(), 1)
    for pair, window in (((0, 1), 10), ((1, 0), 20)):
        number = traffic._connection(pair)  # which makes room
        traffic._wires.connections[number].window = window
    both = times(traffic, (0, 1, 1000 * SEGMENT), (1, 0, 1000 * SEGMENT))
    assert alone == pytest.approx(1000 * TIME - AT_ONCE)
    assert alone < both[1] < 1.05 * alone and 1.3 * alone < both[0] < 2 * alone


def test_windows_follow_from_the_seed() -> None:
    def windows(seed: int) -> list[int]:
        traffic = TcpTraffic(plan_of(8), known(), seed)
        times(traffic, *[(w, 8, 100.0) for w in range(8)])
        return [traffic._wires.connections[number].window for number in range(8)]

    assert windows(1) == windows(1) != windows(2)
    many = [window for seed in range(200) for window in windows(seed)]
    assert set(many) == {18, 19, 20, 21, 22} and np.mean(many) == pytest.approx(20, abs=0.15)


def test_gloo_takes_a_ring_and_what_asking_for_segments_costs() -> None:
    octets = 480_000
    begun, ended = GlooRing(TcpTraffic(plan_of(4, scheme="gloo"), known(), 1), octets, Steps(np.full((4, 3), 0.01))).run()
    ring = 2 * 3 / 4 * octets / SEGMENT * TIME
    assert np.all(ended - begun < 1.2 * ring) and np.all(ended - begun > ring)


def computed(kind: type[TcpTraffic] | type[TcpTwin], changes: dict[str, Any], seed: int, its: costs.Known) -> NDArray[np.float64]:
    settings = make_settings(TrialSettings, {"straggler": "exponential", "steps": 2, "compute_ms": 5.0, **changes})
    plan = settings.plan()
    (job,) = settings.admitted(plan)
    traffic, compute, elements = kind(plan, its, seed), compute_times(settings, seed, job.plan.size), 12_345
    if settings.scheme in ("async", "ssp"):
        steps = Updates(traffic, job, elements, compute, getattr(job.settings, "staleness", None)).run(False)
        return np.array([[(s.begun, s.applied, s.ended) for s in own] for own in steps])
    if settings.scheme == "gloo":
        return np.array(GlooRing(traffic, 4 * elements, Steps(compute)).run())
    transfers = job.scheme.transfers(plan, job.settings, elements)
    assert transfers is not None
    return np.array(Sums(traffic, [transfers], Steps(compute)).run())


@pytest.mark.parametrize("seed", range(24))
def test_the_twin_has_the_same_times(seed: int) -> None:
    r = np.random.default_rng(seed)
    scheme = ("ring", "halving-doubling", "tree", "ps", "ps-sharded", "byteps", "gloo", "async", "ssp")[seed % 9]
    racks, workers = int(r.integers(1, 4)), int(r.integers(1, 5))
    if racks * workers == 1 or scheme == "halving-doubling":
        racks, workers = 2, 2 ** int(r.integers(1, 3))
    changes: dict[str, Any] = {"scheme": scheme, "racks": racks, "workers": workers, "host_rate": float(r.uniform(2, 50))}
    changes |= {"uplink_rate": float(r.uniform(2, 50))} if racks > 1 else {}
    changes |= {"pipeline": "asynchronous"} if scheme in ("async", "ssp") else {}
    its = known(float(r.uniform(0, 1e-3)), float(r.uniform(0, 1e-3)))
    ours, twin = (computed(kind, changes, seed, its) for kind in (TcpTraffic, TcpTwin))
    assert np.all(ours[-1] > 0) and ours == pytest.approx(twin, rel=1e-9)


def test_the_twin_has_the_same_times_where_packets_need_more_room() -> None:
    settings = make_settings(TrialSettings, {"scheme": "ps-sharded", "racks": 1, "workers": 24, "host_rate": 9.7, "steps": 1})
    plan, its = settings.plan(), known(1.3e-4, 2.9e-4)
    (job,) = settings.admitted(plan)
    transfers, compute = job.scheme.transfers(plan, job.settings, 240_000), compute_times(settings, 3, 24)
    assert transfers is not None
    ours = TcpTraffic(plan, its, 3)
    found = np.array(Sums(ours, [transfers], Steps(compute)).run())
    assert ours._wires.segments_room > 4096 and ours._wires.crossings.count == 0
    assert found == pytest.approx(np.array(Sums(TcpTwin(plan, its, 3), [transfers], Steps(compute)).run()), rel=1e-9)


def test_a_simulation_of_too_many_segments_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MOST_CROSSINGS", 1000)
    with pytest.raises(ValueError, match="cross links more than 1,000 times"):
        times(TcpTraffic(plan_of(2), known(), 1), (0, 2, 1000 * SEGMENT))
