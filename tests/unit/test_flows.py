"""Flows that share links: closed forms, and the schemes' bounds where nothing else takes time; and rates by a second algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from testbed.plan.settings import SettingsError, TrialSettings, make_settings
from testbed.simulator.costs import Costs, Known
from testbed.simulator.flows import Flows, carry, share
from testbed.simulator.target import SimulatedTarget
from testbed.theory import bounds

RATE = 1e7  # bits a second
ELEMENTS = 48_000


def star(moves: list[tuple[int, int, int, float]]) -> Flows:
    """Flows (source, destination, step, bits) between hosts below one switch; link n is host n's."""
    sources, destinations, steps, bits = (np.array(column) for column in zip(*moves, strict=True))
    crossed = np.array([way for s, d, _, _ in moves for way in (2 * s, 2 * d + 1)])
    first, ones = 2 * np.arange(len(moves) + 1), np.ones(2 * len(moves))
    return Flows(sources, destinations, steps, bits.astype(float), ones[: len(moves)], first, crossed, ones)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_updates_that_share_a_servers_link_all_take_n_times_as_long(n: int) -> None:
    found = carry(star([(w, n, 0, 1e6) for w in range(n)]), np.full(2 * n + 2, RATE), np.zeros(n + 1))
    assert found.left == pytest.approx(np.full(n, n * 1e6 / RATE), rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_updates_one_after_another_take_n_plus_1_halves_on_average(n: int) -> None:
    """(n + 1) S / 2B (MLfabric, section 4): the server lets the next worker go when it has an update."""
    moves = [(n, w, w, 1e-6) for w in range(n)] + [(w, n, w + 1, 1e6) for w in range(n)]
    for w in range(1, n):  # the server waits for the update before
        assert moves[w][2] == moves[n + w - 1][2]
    moves = [(s, d, 2 * step if s == n else 2 * step - 1, bits) for s, d, step, bits in moves]
    found = carry(star(moves), np.full(2 * n + 2, RATE), np.zeros(n + 1))
    assert found.left[n:].mean() == pytest.approx((n + 1) / 2 * 1e6 / RATE, rel=1e-3)


def test_a_connection_carries_one_flow_after_another() -> None:
    found = carry(star([(0, 1, 0, 1e6), (0, 1, 1, 1e6)]), np.full(4, RATE), np.zeros(2))
    assert found.left == pytest.approx([0.1, 0.2])


def test_a_message_and_each_link_take_their_time() -> None:
    moves = [(0, 1, 0, 1e6), (1, 0, 1, 1e6)]
    found = carry(star(moves), np.full(4, RATE), np.zeros(2), message=0.01, delay=0.001)
    assert found.ended == pytest.approx([2 * (0.1 + 0.01 + 2 * 0.001), 0.1 + 0.01 + 2 * 0.001])


def test_a_node_that_begins_late_holds_up_who_waits_for_it() -> None:
    found = carry(star([(0, 1, 0, 1e6), (1, 2, 1, 1e6)]), np.full(6, RATE), np.array([0.5, 0.0, 0.0]))
    assert found.ended == pytest.approx([0.5, 0.6, 0.7])


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
    rates, links = np.zeros(n), len(capacities)
    share(
        np.arange(n), n, np.ones(n), first, np.concatenate(ways), np.ones(first[-1]), capacities, rates, np.zeros(links), np.zeros(links),
        np.zeros(links, np.int64), np.zeros(links, np.int64), np.zeros(links, np.bool_),
    )  # fmt: skip
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
    changes = {"workers": 32, "racks": 8, "uplink_rate": 40.0, "costs": "embedded", "steps": 1}
    found = SimulatedTarget().trial(trial("ps-sharded", **changes), 1)["metrics"]["tat_median"]
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
    found = SimulatedTarget().trial(settings, 1)["metrics"]["tat_median"]
    assert found == pytest.approx(bounds.seconds(settings, ELEMENTS), rel=1e-3)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_byteps_with_spare_hosts_takes_one_turn_more_than_its_optimum(servers: int) -> None:
    settings = trial("byteps", workers=4, servers=servers, partition=1.0)
    found = SimulatedTarget().trial(settings, 1)["metrics"]["tat_median"]
    assert 1 - 1e-3 <= found / bounds.seconds(settings, ELEMENTS) <= 1 + 1 / 16 + 1e-3


def test_shares_that_are_rounding_alone_are_nothing() -> None:
    """With as many spare hosts as workers the optimum leaves the workers' hosts without a share, but for some 1e-17 of it."""
    settings = trial("byteps", racks=2, workers=4, servers=8, costs="embedded")
    assert SimulatedTarget().trial(settings, 1)["metrics"]["tat_median"] < 1.0


def test_a_straggler_holds_up_the_ring_and_its_waiting_is_told() -> None:
    settings = trial("ring", workers=4, straggler="slow", straggler_factor=2.0, compute_ms=100.0)
    metrics = SimulatedTarget().trial(settings, 1)["metrics"]
    assert metrics["waiting_mean"] == pytest.approx(0.075, rel=1e-6)
    assert metrics["tat_median"] == pytest.approx(bounds.seconds(settings, ELEMENTS), rel=1e-3)


def test_acknowledgments_load_the_way_back() -> None:
    known = Known(Costs(), 0.0, "", acknowledged=True)
    settings = trial("ring", workers=4)
    found = SimulatedTarget(known).trial(settings, 1)["metrics"]["tat_median"]
    assert found / bounds.seconds(settings, ELEMENTS) == pytest.approx(1 + 90 / (2 * 1538), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheme": "mlfabric", "pipeline": "asynchronous"}, "pipeline asynchronous is not simulated"),
        ({"scheme": "ring", "loss": 0.01}, "losses of scheme ring are not simulated"),
        ({"scheme": "ring", "pipeline": "barrier"}, "pipeline barrier is not simulated"),
        ({"scheme": "ring", "jobs": '[{"workers": 2}, {"workers": 2}]'}, "jobs are simulated of schemes switchml and atp alone"),
        ({"scheme": "byteps", "assignment": "hash"}, "byteps.assignment is not simulated"),
        ({"scheme": "ring", "racks": 1, "workers": 1}, "a worker alone is not simulated"),
        ({"scheme": "switchml", "outage_at": 1.0}, "outage_at is not simulated"),
        ({"scheme": "switchml", "costs": "mine"}, "costs mine are unknown: choose one of none, embedded"),
    ],
)
def test_what_is_not_simulated_is_refused(changes: dict[str, object], told: str) -> None:
    settings = make_settings(TrialSettings, {"steps": 1} | changes)
    with pytest.raises(SettingsError, match=told):
        SimulatedTarget().trial(settings, 1)
