"""Schedules sum everything once, and the oracle gives the closed forms of the field."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inalab.hosts.tcp import trees
from inalab.hosts.tcp.schedules import PIECES, Schedule, blocks, dedicated_servers, halving_doubling, ring, sharded_server
from inalab.schemes.oracle import load, seconds
from inalab.topologies.mixed_rates import MixedRates
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from tests.scheduled import SCHEDULES

S, B = 8e6, 10.0  # bytes, Mbit/s
WHOLE = 8 * S / (B * 1e6)  # seconds of the tensor over one link


def played(schedule: Schedule, n: int, servers: int = 0) -> np.ndarray:
    """What each worker has in each block in the end, having begun with 2^rank; servers begin with nothing."""
    held = np.full((n + servers, blocks(schedule)), 0, dtype=object)
    for rank in range(n):
        held[rank, :] = 1 << rank
    for step in schedule:
        before = held.copy()
        for move in step:
            data = before[move.source, move.block]
            held[move.destination, move.block] = data + (held[move.destination, move.block] if move.add else 0)
    return held[:n]


SERVERLESS = [name for name in SCHEDULES if name != "ps"]


@pytest.mark.parametrize("name", SERVERLESS)
@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_everybody_ends_with_every_tensor_once(name: str, n: int) -> None:
    assert (played(SCHEDULES[name](n, 0), n) == (1 << n) - 1).all()


@pytest.mark.parametrize("n", [3, 5, 6, 7])
def test_any_number_of_workers_but_for_halving_doubling(n: int) -> None:
    for schedule in (ring(n), sharded_server(n), trees.tree([1.0] * n, [0] * n)):
        assert (played(schedule, n) == (1 << n) - 1).all()
    with pytest.raises(ValueError, match=f"a power of two of workers, not {n}"):
        halving_doubling(n)


@pytest.mark.parametrize("servers", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_dedicated_servers_are_pipelined(n: int, servers: int) -> None:
    schedule = dedicated_servers(n, servers)
    assert (played(schedule, n, servers) == (1 << n) - 1).all()
    closed = max(1, n / servers) * WHOLE  # a worker's link, or a server's
    took = seconds(schedule, NetworkPlan(Racks(1, n, B, B, servers)), S)
    assert took == pytest.approx(closed * (1 + 1 / PIECES))  # filling the pipeline takes a piece's time


@pytest.mark.parametrize("name", [name for name in SERVERLESS if name != "tree"])
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_one_rack_takes_the_closed_form(name: str, n: int) -> None:
    assert seconds(SCHEDULES[name](n, 0), NetworkPlan(Racks(1, n, B, B)), S) == pytest.approx(2 * (n - 1) / n * WHOLE)
    assert len(SCHEDULES[name](n, 0)) == {"ring": 2 * (n - 1), "halving-doubling": 2 * math.log2(n), "ps-sharded": 2}[name]


@pytest.mark.parametrize("racks", [2, 4])
@pytest.mark.parametrize("m", [2, 4])
def test_bytes_over_the_uplinks(racks: int, m: int) -> None:
    n = racks * m
    plan = NetworkPlan(Racks(racks, m, B, B))

    def uplink(schedule: Schedule, up: bool) -> float:
        first = n  # the links of racks are numbered behind those of hosts
        return sum(step[first, up] for step in load(schedule, plan, S))

    for up in (True, False):
        assert uplink(ring(n), up) == pytest.approx(2 * (n - 1) / n * S)
        assert uplink(sharded_server(n), up) == pytest.approx(2 * m * (1 - 1 / racks) * S)
    served = NetworkPlan(Racks(racks, m, B, B, servers=1))
    rack = n + 1  # the server's link is numbered before those of the racks, and the server is in the first rack
    crossed = sum(step[rack, False] for step in load(dedicated_servers(n, 1), served, S))
    assert crossed == pytest.approx((n - m) * S)


def test_an_oversubscribed_root_slows_a_server_on_every_worker_and_not_the_ring() -> None:
    n, m, narrow = 8, 4, NetworkPlan(Racks(2, 4, B, B))
    assert seconds(ring(n), narrow, S) == pytest.approx(2 * (n - 1) / n * WHOLE)
    assert seconds(sharded_server(n), narrow, S) == pytest.approx(2 * m * (1 - 1 / 2) * WHOLE)


# --- trees

RATES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, 4.0, 10.0]), min_size=1, max_size=9)


def busiest(degrees: tuple[int, ...] | list[int], rates: list[float]) -> float:
    return max(degree / (rate or math.inf) for degree, rate in zip(degrees, rates, strict=True))


@settings(max_examples=150, deadline=None)
@given(RATES, st.integers(1, 3), st.integers(0, 10**6))
def test_a_tree_reaches_everybody_and_sums_every_tensor_once(rates: list[float], racks: int, seed: int) -> None:
    n = len(rates)
    where = list(np.random.default_rng(seed).integers(0, racks, n))
    beside = trees.neighbours(rates, where)
    assert [len(others) for others in beside] == trees.degrees(rates)
    assert all(rank in beside[other] for rank, others in enumerate(beside) for other in others)
    schedule = trees.tree(rates, where)
    assert (played(schedule, n) == (1 << n) - 1).all()
    assert {(m.source, m.destination) for step in schedule for m in step} == {(a, b) for a in range(n) for b in beside[a]}


@settings(max_examples=100, deadline=None)
@given(RATES.filter(lambda rates: 2 <= len(rates) <= 6))
def test_the_busiest_link_of_a_tree_is_the_least_busy_that_there_can_be(rates: list[float]) -> None:
    n = len(rates)
    all_trees = (d for d in product(range(1, n), repeat=n) if sum(d) == 2 * (n - 1))  # a tree of these degrees exists
    assert busiest(trees.degrees(rates), rates) == pytest.approx(min(busiest(d, rates) for d in all_trees))


def test_equal_workers_form_a_chain_by_rank() -> None:
    assert trees.neighbours([1.0] * 5, [0] * 5) == [[1], [2, 0], [1, 3], [2, 4], [3]]


def test_slow_workers_are_leaves_in_their_own_racks() -> None:
    rates, racks = [5.0, 10.0, 10.0, 10.0, 5.0, 10.0, 10.0, 10.0], [0] * 4 + [1] * 4
    beside = trees.neighbours(rates, racks)
    assert [rank for rank, others in enumerate(beside) if len(others) == 1] == [0, 4]
    assert beside[0] == [1] and beside[4] == [7]
    crossing = [(a, b) for a, others in enumerate(beside) for b in others if racks[a] < racks[b]]
    assert crossing == [(3, 5)]
    assert trees.neighbours([10.0, 5.0, 10.0, 5.0], [0, 1, 1, 0]) == [[2, 3], [2], [0, 1], [0]]  # not with the nearest rank


@pytest.mark.parametrize(("share", "slow", "tree"), [(0.1, 1, 2.0), (0.25, 2, 2.0), (0.5, 4, 3.0)])
def test_a_tree_takes_as_long_as_its_busiest_worker_and_a_ring_as_its_slowest(share: float, slow: int, tree: float) -> None:
    """With links of half the rate; all of this in the time of the tensor on a link of the full rate."""
    n, plan = 8, NetworkPlan(MixedRates(1, 8, B, B, slow_share=share, slow_rate=B / 2))
    rates = plan.rates(plan.hosts)
    assert rates.count(B / 2) == slow
    took = seconds(trees.tree(rates, [0] * n), plan, S) / WHOLE
    assert tree <= took <= tree * (1 + n / trees.PIECES)
    assert seconds(ring(n), plan, S) / WHOLE == pytest.approx(2 * 2 * (n - 1) / n)
