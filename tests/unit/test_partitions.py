"""Which service adds a partition of BytePS's, and when the partition goes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from inalab.hosts.byteps.admission import Admission, Partition
from inalab.hosts.byteps.assignment import ByBytes, ByHash, djb2, shares

# --- who adds what


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (2, 3, 4, 8, 16) for k in range(n + 1)])
def test_equal_links_end_together(n: int, k: int) -> None:
    """The closed form: (n - k) / D for a worker's host, 2 (n - 1) / D for a spare one, and 2n (n - 1) / D of the tensor a link."""
    d = n * n + k * n - 2 * k
    found = shares(n, [10.0] * (n + k))
    assert found == pytest.approx([(n - k) / d] * n + [2 * (n - 1) / d] * k, abs=1e-9)
    links = [1 + (n - 2) * share for share in found[:n]] + [n * share for share in found[n:]]
    if n > 2:
        assert links == pytest.approx([2 * n * (n - 1) / d] * (n + k))
    assert max(links) == pytest.approx(2 * n * (n - 1) / d)


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.floats(1, 100), min_size=n, max_size=2 * n))))
def test_shares_are_an_optimum_of_the_linear_program(drawn: tuple[int, list[float]]) -> None:
    """Minimize T: a worker's host carries 1 + (n - 2) s, a spare one n s, and all shares together are 1."""
    n, rates = drawn
    hosts = len(rates)
    at_most = [[(n - 2 if i < n else n) * (i == j) for j in range(hosts)] + [-rates[i]] for i in range(hosts)]
    best = linprog(
        [0] * hosts + [1], at_most, [-1.0] * n + [0.0] * (hosts - n), [[1] * hosts + [0]], [1], bounds=[(0, None)] * (hosts + 1)
    ).fun
    found = shares(n, rates)
    assert sum(found) == pytest.approx(1) and min(found) >= 0
    ends = [((1 + (n - 2) * s) if i < n else n * s) / rates[i] for i, s in enumerate(found)]
    assert max(ends) == pytest.approx(best, rel=1e-6)


def test_a_spare_host_at_half_the_rate_has_half_the_share() -> None:
    found = shares(4, [10.0] * 4 + [10.0, 5.0])
    assert found[5] == pytest.approx(found[4] / 2)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=9), st.lists(st.integers(1, 5000), min_size=1, max_size=60))
def test_by_bytes_each_has_its_share_of_all_tensors_but_for_scraps(weights: list[float], elements: list[int]) -> None:
    parts = [weight / sum(weights) for weight in weights]
    assignment, carried = ByBytes(parts, 1024), [0] * len(parts)
    for n in elements:
        pieces = assignment.cut("layer", 4 * n)
        assert sum(piece.size for piece in pieces) == 4 * n
        assert all(0 < piece.size <= 1024 + 4 and piece.size % 4 == 0 for piece in pieces)
        for piece in pieces:
            carried[piece.service] += piece.size
        whole = sum(carried)
        for share, got in zip(parts, carried, strict=True):
            assert abs(got - share * whole) <= 4 * n * (len(pieces) == 1) + 1024 * len(parts)


def test_a_scrap_of_a_tensor_comes_with_a_later_one() -> None:
    """A service has none below a quarter of a partition, and then what it lacks of all tensors so far."""
    assignment = ByBytes([0.9, 0.1], 1024)
    found = [[(piece.service, piece.size) for piece in assignment.cut("layer", 1000)] for _ in range(3)]
    assert found == [[(0, 1000)], [(0, 1000)], [(0, 700), (1, 300)]]


def test_a_large_tensor_is_shared_out_exactly_and_evenly_in_time() -> None:
    pieces = ByBytes([0.5, 0.25, 0.25], 1000).cut("layer", 100_000)
    for service, share in enumerate((0.5, 0.25, 0.25)):
        mine = [piece for piece in pieces if piece.service == service]
        assert [piece.size for piece in mine] == [1000] * int(share * 100)
        assert [piece.turn for piece in mine] == pytest.approx([(i + 0.5) / len(mine) for i in range(len(mine))])


def test_the_hash_is_the_public_codes() -> None:
    assert djb2(0) == 5381 * 33 + ord("0")
    assert djb2(65_537) == sum(ord(c) * 33**i for i, c in enumerate(reversed("65537"))) + 5381 * 33**5


def test_the_hash_knows_tensors_by_their_names_and_those_without_one_by_their_sizes() -> None:
    assignment = ByHash(4, 2, 4)

    def services(name: str, size: int) -> list[int]:
        return [piece.service for piece in assignment.cut(name, size)][:16]

    first, other, named = services("", 64), services("", 128), services("layer", 64)
    assert services("", 64) == first and services("layer", 64) == named
    assert len({tuple(first), tuple(other), tuple(named)}) == 3


@pytest.mark.parametrize("n", [4, 8])
def test_the_hash_costs_up_to_a_fifth(n: int) -> None:
    """640 equal partitions: its last link ends at 1.04 to 1.22 times the optimum."""
    cost = []
    for k in range(n + 1):
        assignment, carried = ByHash(n, k, 4), [0] * (n + k)
        for tensor in range(10):
            for piece in assignment.cut(f"{tensor}", 4 * 64):
                carried[piece.service] += 1
        links = [640 + (n - 2) * own for own in carried[:n]] + [n * own for own in carried[n:]]
        cost.append(max(links) / 640 * (n * n + k * n - 2 * k) / (2 * n * (n - 1)))
    assert min(cost) >= 1.0 and 1.1 < max(cost) < 1.3


# --- what goes next


def partition(priority: int, number: int, index: int, size: int) -> Partition:
    return Partition(priority, number, float(index), 0, index, 0, size // 4, 0)


def test_the_most_urgent_goes_first_and_the_credit_is_kept() -> None:
    admission = Admission(80)
    waiting = [partition(p, 0, i, 40) for i, p in enumerate((2, 1, 1, 0))]
    for each in waiting:
        admission.put(each)
    assert [admission.admit() for _ in range(3)] == [waiting[3], waiting[1], None]
    admission.ended(waiting[1].number, waiting[1].index)
    assert [admission.admit() for _ in range(2)] == [waiting[2], None]
    assert admission.used == 80


def test_a_partition_beyond_the_credit_goes_alone() -> None:
    admission = Admission(10)
    first, second = partition(0, 0, 0, 40), partition(0, 0, 1, 40)
    admission.put(second)
    admission.put(first)
    assert [admission.admit() for _ in range(2)] == [first, None]
    admission.ended(first.number, first.index)
    assert admission.admit() == second


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=5),
    st.integers(2, 4),
    st.integers(0, 48),
    st.randoms(use_true_random=True),
)
def test_credits_never_hold_each_other_up(sums: list[tuple[int, int]], workers: int, credit: int, chance: random.Random) -> None:
    """Workers start the same sums in the same order at any times, and admit partitions in orders of their own among equals.

    Sums have a priority and a number of partitions. A pull ends when all workers have admitted the partition; nobody starts a sum
    because of another one's end.
    """
    admissions, started = [Admission(credit) for _ in range(workers)], [0] * workers
    pushed: dict[tuple[int, int], list[int]] = {}  # who has, by partition
    remaining = sum(parts for _, parts in sums)
    while remaining:
        able = [w for w in range(workers) if started[w] < len(sums)]
        moving = False
        for w, admission in enumerate(admissions):
            if part := admission.admit():
                pushed.setdefault((part.number, part.index), []).append(w)
                moving = True
        for w in chance.sample(able, chance.randint(0, len(able))):
            priority, parts = sums[started[w]]
            for i in range(parts):
                admissions[w].put(Partition(priority, started[w], float(i // 3), (i - w) % 3, i, 0, 1, 0))
            started[w] += 1
        for key in [key for key, who in pushed.items() if len(who) == workers]:
            del pushed[key]
            remaining -= 1
            for admission in admissions:
                admission.ended(*key)
        assert moving or able or not remaining, "all workers wait for each other"
