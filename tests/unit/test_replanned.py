"""A tree that is planned anew: all workers have the same one in every sum, whatever they measure, and whoever is ahead."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inalab.hosts.collective import Membership
from inalab.hosts.tcp import replanned, trees
from inalab.hosts.tcp.arrivals import LEAST, Arrivals
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.replanned import Replanned, Replanning
from tests.unit.test_pairwise import EPOCH, PEERS, together
from tests.unit.test_virtual import metrics

FULL = 1e6  # bytes per second
RATES = st.lists(st.sampled_from([0.0, FULL, 2 * FULL, 5 * FULL]), min_size=1, max_size=7)
Tree = list[list[int]]


class Model:
    """Workers that take the steps of their trees, with what they have measured behind the last piece, and one connection a pair."""

    def __init__(self, given: list[float], racks: list[int], sums: int, seed: int) -> None:
        self.n, self.sums = len(given), sums
        self.plans = [Replanning(given, racks) for _ in given]
        self.measured = np.random.default_rng(seed).choice([0.0, 0.2, 0.5, 0.97, 1.0, 2.0], (sums, self.n)) * FULL
        self.connections: dict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self.used: list[list[Tree]] = [[] for _ in range(sums)]

    def work(self, me: int) -> Iterator[None]:
        """Take part in all sums; stop wherever nothing has come yet."""
        plan = self.plans[me]
        for number in range(self.sums):
            self.used[number].append(plan.beside)
            held = np.zeros((trees.PIECES, self.n))
            held[-1, me] = self.measured[number, me]
            for at, step in enumerate(plan.schedule()):
                for move in step:
                    if move.source == me:
                        self.connections[me, move.destination].append((number, at, move, held[move.block].copy()))
                for move in step:
                    if move.destination == me:
                        coming = self.connections[move.source, me]
                        while not coming:
                            yield
                        *what, data = coming.popleft()
                        assert what == [number, at, move]
                        held[move.block] = data + move.add * held[move.block]
            assert (held[-1] == self.measured[number]).all()
            plan.learn(held[-1].tolist())


@settings(max_examples=60, deadline=None)
@given(RATES, st.integers(1, 3), st.integers(1, 8), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_all_workers_have_the_same_tree_in_every_sum(given: list[float], racks: int, sums: int, seed: int, chance: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "PIECES", 4)
        model = Model(given, [rank % racks for rank in range(len(given))], sums, seed)
        going = {rank: model.work(rank) for rank in range(model.n)}
        stuck = 0  # turns in a row in which none could have gone on, at the most
        while going:
            rank = chance.choice(sorted(going))
            waiting = sum(map(len, model.connections.values()))
            try:
                next(going[rank])
                stuck = stuck + 1 if sum(map(len, model.connections.values())) == waiting else 0
            except StopIteration:
                del going[rank]
            assert stuck < 10_000
    assert all(len(used) == model.n and all(tree == used[0] for tree in used) for used in model.used)
    assert not any(model.connections.values())


def learnt(plan: Replanning, rates: list[float], sums: int = 1) -> bool:
    """Whether the tree changes in so many sums in which these rates are measured."""
    return sum(plan.learn(rates) for _ in range(sums)) > 0


def test_noise_of_a_few_percent_does_not_change_a_tree() -> None:
    plan, draw = Replanning([FULL] * 8, [0] * 8), np.random.default_rng(1)
    assert not any(learnt(plan, (FULL * draw.uniform(0.94, 1.03, 8)).tolist()) for _ in range(1000))
    assert plan.beside == trees.neighbours([1.0] * 8, [0] * 8)


@given(RATES, st.lists(st.floats(0, 0.04), min_size=7, max_size=7))
def test_whatever_the_rates_are_small_differences_do_not_change_a_tree(given: list[float], less: list[float]) -> None:
    plan = Replanning(given, [0] * len(given))
    assert not learnt(plan, [rate * (1 - part) for rate, part in zip(given, less, strict=False)], 20)


def test_a_worker_that_becomes_slow_is_a_leaf_after_one_sum_and_may_be_inside_again() -> None:
    plan, slow = Replanning([FULL] * 8, [0] * 8), [FULL] * 8
    slow[3] /= 2
    assert learnt(plan, slow) and len(plan.beside[3]) == 1
    assert not learnt(plan, slow, 20)
    slow[3], slow[0], slow[7] = FULL, FULL / 2, FULL / 2
    assert learnt(plan, slow, 20) and [len(others) for others in plan.beside] == [1, 2, 2, 2, 2, 2, 2, 1]


def test_what_is_not_measured_or_has_no_limit_stays_and_no_rate_is_above_the_given() -> None:
    plan = Replanning([FULL, 0.0, FULL], [0, 0, 0])
    assert not learnt(plan, [9 * FULL, FULL / 9, 0.0], 9)
    assert plan.rates == [FULL, 0.0, FULL]


class Unread:
    """A connection of which this many bytes have come and were not read."""

    octets = 0

    def unread(self) -> int:
        return self.octets


def test_a_rate_is_of_what_came_whether_it_was_read_or_not() -> None:
    one, other = Unread(), Unread()
    arrivals = Arrivals(10.0, {1: one, 2: other})  # type: ignore[dict-item]
    arrivals.begin([1, 2])
    one.octets = 500_000  # came before the first look: nobody knows when
    arrivals.look(1.0)
    arrivals.take(1, 500_000)
    one.octets, other.octets = LEAST, 0
    arrivals.look(2.0)
    assert (arrivals.fastest(1), arrivals.fastest(2), arrivals.fastest(1, 2), arrivals.fastest()) == (LEAST, 0, LEAST, 0)
    other.octets = 2 * LEAST
    arrivals.look(2.5)
    assert (arrivals.fastest(2), arrivals.fastest(1, 2)) == (4 * LEAST, 4 * LEAST)
    arrivals.begin([2])
    assert arrivals.fastest(2) == 0


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_over_sockets_sums_are_right_while_the_tree_changes(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rates at random in place of measured ones, and several sums under way."""
    n, sums = 4, 12
    draws = [np.random.default_rng(rank) for rank in range(n)]
    used: list[list[Tree]] = [[] for _ in range(n)]

    def work(rank: int) -> list[Any]:
        plan = Replanning([FULL] * n, [0] * n)
        node = Replanned(Group(Membership(0, rank, n, [list(range(n))]), PEERS, EPOCH, patience=10.0), plan)
        node.arrivals.fastest = lambda *ranks: draws[rank].choice([0.3, 0.5, 1.0]) * FULL  # type: ignore[method-assign]
        found = []
        for number in range(0, sums, 3):
            started = [node.start(np.full(size, rank + number, dtype)) for size in (1, 9_000, 300_000)]
            for one in started:
                used[rank].append(plan.beside)
                node.advance(one)
                found.append(one.total)
        node.close()
        return found

    monkeypatch.setattr(replanned, "LEARNS", 1.0)
    for found in together(*(lambda rank=rank: work(rank) for rank in range(n))):  # type: ignore[misc]
        assert not isinstance(found, Exception), found
        for at, total in enumerate(found):
            np.testing.assert_array_equal(total, np.full_like(total, 6 + n * (at // 3 * 3)))
    assert all(trees_used == used[0] for trees_used in used)
    assert len({str(tree) for tree in used[0]}) > 2


RATES_FILE = """
class Rates:
    def changes(self, plan, seed):
        yield 0.5, plan.links[2].name, 5.0

RATES = Rates()
"""
CHANGING: dict[str, Any] = {"scheme": "tree", "racks": 1, "workers": 4, "host_rate": 10, "workload": "tensor-60000", "steps": 7}


def test_a_slow_link_costs_a_tree_that_is_planned_anew_few_sums(tmp_path: Any) -> None:
    (tmp_path / "rates.py").write_text(RATES_FILE)
    changing = CHANGING | {"changing": str(tmp_path / "rates.py")}
    stays, learns = (metrics(**changing, **{"tree.learn": learn})["tat_median"] for learn in (False, True))
    assert stays > 1.5 * learns
    stays, learns = (metrics(**CHANGING, **{"tree.learn": learn})["tat_mean"] for learn in (False, True))
    assert learns == pytest.approx(stays, rel=0.01)


@pytest.mark.parametrize(
    "changes",
    [
        {"pipeline": "barrier", "workload": "digits-mlp"},
        {"pipeline": "cross-barrier", "workload": "digits-mlp", "workers": 5},
        {"loss": 0.02},
        {"transport": "rdma"},
        {"workers": 3, "racks": 2, "changing": "no", "faults": ("rate h1 2 at 0.3 for 1", "loss h2 0.1 in step 3")},
    ],
)
def test_sums_are_right_while_rates_change(changes: dict[str, Any]) -> None:
    markov = {"changing": "markov", "changing_share": 0.5, "changing_mean": 0.4, "compute_ms": 10}
    metrics(**(CHANGING | markov | {"steps": 5, "tree.learn": True} | changes))
