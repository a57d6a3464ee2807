"""Schedules sum everything once, and the oracle gives the closed forms of the field."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.oracle import load, seconds
from hosts.schedules import SCHEDULES, Schedule, halving_doubling, ring, sharded_server
from topologies.racks import Racks

S, B = 8e6, 10.0  # bytes, Mbit/s
WHOLE = 8 * S / (B * 1e6)  # seconds of the tensor over one link


def played(schedule: Schedule, n: int) -> np.ndarray:
    """What each worker has in each block in the end, having begun with 2^rank."""
    blocks = np.full((n, n), 0, dtype=object)
    for rank in range(n):
        blocks[rank, :] = 1 << rank
    for step in schedule:
        before = blocks.copy()
        for move in step:
            data = before[move.source, move.block]
            blocks[move.destination, move.block] = data + (blocks[move.destination, move.block] if move.add else 0)
    return blocks


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_everybody_ends_with_every_tensor_once(name: str, n: int) -> None:
    assert (played(SCHEDULES[name](n), n) == (1 << n) - 1).all()


@pytest.mark.parametrize("n", [3, 5, 6, 7])
def test_any_number_of_workers_but_for_halving_doubling(n: int) -> None:
    for schedule in (ring(n), sharded_server(n)):
        assert (played(schedule, n) == (1 << n) - 1).all()
    with pytest.raises(ValueError, match=f"a power of two of workers, not {n}"):
        halving_doubling(n)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_one_rack_takes_the_closed_form(name: str, n: int) -> None:
    assert seconds(SCHEDULES[name](n), Racks(1, n, B, B), S) == pytest.approx(2 * (n - 1) / n * WHOLE)
    assert len(SCHEDULES[name](n)) == {"ring": 2 * (n - 1), "halving-doubling": 2 * math.log2(n), "ps-sharded": 2}[name]


@pytest.mark.parametrize("racks", [2, 4])
@pytest.mark.parametrize("m", [2, 4])
def test_bytes_over_the_uplinks(racks: int, m: int) -> None:
    n = racks * m
    shape = Racks(racks, m, B, B)

    def uplink(schedule: Schedule, direction: str) -> float:
        first = n  # the links of racks are numbered behind those of hosts
        return sum(step[first, direction] for step in load(schedule, shape, S))

    for direction in ("up", "down"):
        assert uplink(ring(n), direction) == pytest.approx(2 * (n - 1) / n * S)
        assert uplink(sharded_server(n), direction) == pytest.approx(2 * m * (1 - 1 / racks) * S)


def test_an_oversubscribed_root_slows_a_server_on_every_worker_and_not_the_ring() -> None:
    n, m, narrow = 8, 4, Racks(2, 4, B, B)
    assert seconds(ring(n), narrow, S) == pytest.approx(2 * (n - 1) / n * WHOLE)
    assert seconds(sharded_server(n), narrow, S) == pytest.approx(2 * m * (1 - 1 / 2) * WHOLE)
