"""Schedules sum everything once, and the oracle gives the closed forms of the field."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hosts.tcp.schedules import PIECES, Schedule, blocks, dedicated_servers, halving_doubling, ring, sharded_server
from schemes.oracle import load, seconds
from tests.scheduled import SCHEDULES
from topologies.plan import NetworkPlan
from topologies.racks import Racks

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
    for schedule in (ring(n), sharded_server(n)):
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


@pytest.mark.parametrize("name", SERVERLESS)
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
