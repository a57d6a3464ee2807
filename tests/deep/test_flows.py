"""Flows that share links: closed forms, and the schemes' bounds where nothing else takes time; and rates by a second algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from inalab.schemes.scheme import Transfers
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.costs import Costs, Known
from inalab.testbed.simulator.flows import FairTraffic, max_min, shared_links
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.simulator.sums import Sums
from inalab.testbed.theory import bounds

RATE = 1e7  # bits a second
ELEMENTS = 48_000


def traffic(workers: int, delay: float = 0.0, message: float = 0.0) -> FairTraffic:
    """Workers and a server below one switch."""
    settings = make_settings(TrialSettings, {"scheme": "ps", "racks": 1, "workers": workers, "host_rate": RATE / 1e6})
    return FairTraffic(settings.plan(), Known(Costs(delay=delay), message, ""))


def sent(net: FairTraffic, *messages: tuple[int, int, float]) -> list[float]:
    """When messages of so many bits, headers included, have come that are sent at once."""
    came: dict[int, float] = {}
    for number, (source, destination, bits) in enumerate(messages):
        net.send(source, destination, bits / 8 / TCP_OVERHEAD, lambda number=number: came.setdefault(number, net.now))
    net.run()
    return [came[number] for number in range(len(messages))]


@pytest.mark.parametrize("n", [2, 5, 16])
def test_updates_that_share_a_servers_link_all_take_n_times_as_long(n: int) -> None:
    assert sent(traffic(n), *[(w, n, 1e6) for w in range(n)]) == pytest.approx([n * 1e6 / RATE] * n, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_updates_one_after_another_take_n_plus_1_halves_on_average(n: int) -> None:
    """(n + 1) S / 2B (MLfabric, section 4): the server lets the next worker go when it has an update."""
    net, came = traffic(n), []

    def next_one(worker: int) -> None:
        if worker:
            came.append(net.now)
        if worker < n:
            net.send(worker, n, 1e6 / 8 / TCP_OVERHEAD, next_one, worker + 1)

    next_one(0)
    net.run()
    assert np.mean(came) == pytest.approx((n + 1) / 2 * 1e6 / RATE, rel=1e-9)


def test_a_connection_carries_one_message_after_another() -> None:
    assert sent(traffic(2), (0, 2, 1e6), (0, 2, 1e6), (0, 2, 0.5e6)) == pytest.approx([0.1, 0.2, 0.25])


def test_a_message_and_each_link_take_their_time() -> None:
    net, came = traffic(2, delay=0.001, message=0.01), []
    net.tell(0, 2, lambda: came.append(net.now))
    assert sent(net, (0, 2, 1e6)) == pytest.approx([0.1 + 0.01 + 2 * 0.001])
    assert came == pytest.approx([0.01 + 2 * 0.001])


def test_a_message_that_begins_later_has_its_share_from_then_on() -> None:
    net, came = traffic(2), {}
    net.send(0, 2, 1e7 / 8 / TCP_OVERHEAD, lambda: came.setdefault("one", net.now))  # a second by itself
    net.after(0.5, net.send, 1, 2, 2e6 / 8 / TCP_OVERHEAD, lambda: came.setdefault("other", net.now))
    net.run()
    assert came == pytest.approx({"one": 1.2, "other": 0.9})


def test_a_node_that_begins_late_holds_up_who_waits_for_it() -> None:
    net = traffic(3)
    transfers = Transfers(np.array([0, 1]), np.array([1, 2]), np.array([0, 1]), np.full(2, 1e6 / 8 / TCP_OVERHEAD), np.ones(2))
    begun, ended = Sums(net, [transfers], Steps(np.array([[0.5], [0.0], [0.0]]))).run()
    assert begun[:, 0] == pytest.approx([0.5, 0.0, 0.0]) and ended[:, 0] == pytest.approx([0.5, 0.6, 0.7])


networks = st.integers(2, 6).flatmap(
    lambda links: st.tuples(
        st.lists(st.floats(1, 100), min_size=links, max_size=links),
        st.lists(st.lists(st.integers(0, links - 1), min_size=1, max_size=3, unique=True), min_size=1, max_size=8),
    )
)


@given(networks)
def test_rates_are_max_min_fair(network: tuple[list[float], list[list[int]]]) -> None:
    """As linear programs find them: raise the least rate of those that are not fixed, and fix whoever cannot have more."""
    capacities, ways = np.array(network[0]), network[1]
    n, first = len(ways), np.concatenate([[0], np.cumsum([len(way) for way in ways])])
    links = len(capacities)
    rates = max_min(shared_links(capacities), np.ones(n), first, np.concatenate(ways))
    uses = np.array([[link in way for way in ways] for link in range(links)], float)
    fixed: dict[int, float] = {}

    def most(weights: np.ndarray, least: float) -> float:
        """The greatest value of a weighted sum of (the rates, the least rate), where all that are not fixed have `least`."""
        free = [f for f in range(n) if f not in fixed]
        above = np.zeros((len(free), n + 1))
        for row, f in enumerate(free):
            above[row, f], above[row, n] = -1, 1
        sides = [(fixed[f], fixed[f]) if f in fixed else (0, None) for f in range(n)]
        whole = np.vstack([np.hstack([uses, np.zeros((links, 1))]), above])
        limits = np.concatenate([capacities, np.zeros(len(free))])
        return float(-linprog(-weights, whole, limits, bounds=[*sides, (least, None)]).fun)

    while len(fixed) < n:
        last = np.eye(n + 1)[n]
        level = most(last, 0.0)
        stuck = [f for f in range(n) if f not in fixed and most(np.eye(n + 1)[f], level * (1 - 1e-9)) <= level * (1 + 1e-6)]
        assert stuck
        fixed |= dict.fromkeys(stuck, level)
    assert rates == pytest.approx([fixed[f] for f in range(n)], rel=1e-5)


def test_many_flows_end_although_sums_of_their_loads_are_rounded() -> None:
    changes = {"workers": 32, "racks": 8, "uplink_rate": 40.0, "steps": 1}
    found = computed_trial(trial("ps-sharded", **changes), 1)["metrics"]["tat_median"]
    assert found == pytest.approx(bounds.seconds(trial("ps-sharded", **changes), ELEMENTS), rel=0.2)


def trial(scheme: str, **changes: object) -> TrialSettings:
    fixed = {"scheme": scheme, "workload": f"tensor-{ELEMENTS}", "steps": 2, "costs": "none", "racks": 1}
    return make_settings(TrialSettings, fixed | changes)


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("ring", {"workers": 2}),
        ("ring", {"workers": 4}),
        ("ring", {"workers": 16}),
        ("ring", {"racks": 2}),
        ("gloo", {"workers": 4}),
        ("halving-doubling", {"workers": 8}),
        ("halving-doubling", {"racks": 2, "uplink_rate": 5.0}),
        ("ps-sharded", {"workers": 4}),
        ("ps", {"workers": 4}),
        ("ps", {"workers": 4, "servers": 2}),
        ("byteps", {"workers": 4}),
        ("byteps", {"workers": 8}),
        ("byteps", {"racks": 2, "uplink_rate": 30.0}),
    ],
)
def test_a_scheme_takes_its_bound_where_links_alone_take_time(scheme: str, changes: dict[str, object]) -> None:
    settings = trial(scheme, **changes)
    found = computed_trial(settings, 1)["metrics"]["tat_median"]
    assert found == pytest.approx(bounds.seconds(settings, ELEMENTS), rel=1e-3)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_byteps_with_spare_hosts_takes_one_turn_more_than_its_optimum(servers: int) -> None:
    settings = trial("byteps", workers=4, servers=servers, partition=1.0)
    found = computed_trial(settings, 1)["metrics"]["tat_median"]
    assert 1 - 1e-3 <= found / bounds.seconds(settings, ELEMENTS) <= 1 + 1 / 16 + 1e-3


def test_shares_that_are_rounding_alone_are_nothing() -> None:
    """With as many spare hosts as workers the optimum leaves the workers' hosts without a share, but for some 1e-17 of it."""
    settings = trial("byteps", racks=2, workers=4, servers=8)
    assert computed_trial(settings, 1)["metrics"]["tat_median"] < 1.0


def test_a_straggler_holds_up_the_ring_and_its_waiting_is_told() -> None:
    settings = trial("ring", workers=4, straggler="slow", straggler_factor=2.0, compute_ms=100.0)
    metrics = computed_trial(settings, 1)["metrics"]
    assert metrics["waiting_mean"] == pytest.approx(0.075, rel=1e-6)
    assert metrics["tat_median"] == pytest.approx(bounds.seconds(settings, ELEMENTS), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"scheme": "byteps", "pipeline": "asynchronous"}, "pipeline asynchronous of scheme byteps is not simulated"),
        ({"scheme": "ring", "loss": 0.01}, "losses of scheme ring are not simulated"),
        ({"scheme": "gloo", "pipeline": "barrier"}, "pipeline barrier of scheme gloo is not simulated"),
        ({"scheme": "ring", "jobs": '[{"workers": 2}, {"workers": 2}]'}, "jobs are not simulated of scheme ring"),
        ({"scheme": "byteps", "assignment": "hash"}, "byteps.assignment is not simulated"),
        ({"scheme": "ring", "racks": 1, "workers": 1}, "a worker alone is not simulated"),
        ({"scheme": "switchml", "faults": "down h0 at 1"}, "faults is not simulated"),
        ({"scheme": "switchml", "costs": "mine"}, "costs mine are unknown: choose one of none, dpdk, embedded"),
    ],
)
def test_what_is_not_simulated_is_refused(changes: dict[str, object], wording: str) -> None:
    settings = make_settings(TrialSettings, {"steps": 1} | changes)
    with pytest.raises(SettingsError, match=wording):
        computed_trial(settings, 1)
