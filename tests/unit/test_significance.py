"""p-values and their correction, held to closed forms and to chance itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from inalab.testbed.record.significance import LEVEL, Evidence, by_pairs, by_ranks, holm, judged


@pytest.mark.parametrize("n", range(1, 12))
def test_pairs_of_one_sign_have_the_chance_of_so_many_coins(n: int) -> None:
    for sign in (1, -1):
        evidence = by_pairs([sign * (i + 1.0) for i in range(n)])
        assert evidence.p == pytest.approx(min(1.0, 2.0 ** (1 - n)))
        assert evidence.least == pytest.approx(evidence.p)
    (verdict,) = judged([evidence])
    assert verdict.different is (True if n >= 6 else None)


def test_pairs_that_are_equal_tell_nothing_either_way() -> None:
    assert by_pairs([0.0, 0.0, 1.0, 2.0, -1.0]).p == 1.0
    assert by_pairs([0.0] * 4 + [1.0] * 6).p == pytest.approx(2**-5)
    assert by_pairs([1.0] * 8 + [-1.0] * 2).p == pytest.approx(2 * binom.cdf(2, 10, 0.5))
    nothing = by_pairs([0.0] * 10)
    assert nothing.empty
    assert judged([nothing])[0].different is False


def test_ranks_have_the_chance_of_a_shuffle() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0]
    assert by_ranks(low, high).p == pytest.approx(2 / math.comb(9, 4)) == by_ranks(high, low).p
    assert by_ranks(low, high).least == pytest.approx(2 / math.comb(9, 4))
    assert by_ranks([1.0] * 3, [2.0] * 3).p == pytest.approx(2 / math.comb(6, 3))  # tied: exact as well
    assert by_ranks([1.0], [2.0]).p == 1.0
    assert by_ranks([3.0] * 5, [3.0] * 4).empty


def test_holm_is_what_his_paper_has() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_all_comparisons_are_decided_together() -> None:
    def coins(n: int, against: int = 0) -> Evidence:
        return by_pairs([1.0] * (n - against) + [-1.0] * against)

    assert [v.different for v in judged([coins(6)] * 2)] == [None, None]  # 2 · 2^-5 > 5 %
    assert [v.different for v in judged([coins(7), coins(7, 3)])] == [True, False]
    # six pairs can tell where everything else is settled by more
    assert [v.different for v in judged([coins(6), coins(9)])] == [True, True]
    # and what has not been settled, though it could have been, leaves them without a verdict of their own
    assert [v.different for v in judged([coins(6), coins(9, 4)])] == [False, False]
    assert [v.p for v in judged([coins(8), by_pairs([0.0] * 8)])] == [pytest.approx(2**-7), None]


@pytest.mark.parametrize(("comparisons", "pairs", "ranks"), [(1, 6, 4), (4, 8, 5), (8, 9, 6), (80, 12, 7)])
def test_how_many_seeds_could_tell(comparisons: int, pairs: int, ranks: int) -> None:
    assert Evidence(1, 1, 3, True).needed(comparisons) == pairs
    assert Evidence(1, 1, 3, False).needed(comparisons) == ranks
    assert comparisons * 2.0 ** (1 - pairs) <= LEVEL < comparisons * 2.0 ** (2 - pairs)


def test_where_nothing_differs_something_is_found_in_one_of_twenty_runs_at_most() -> None:
    """Twelve comparisons of ten pairs, four hundred times over."""
    rng = np.random.default_rng(3)
    found = sum(any(v.different for v in judged([by_pairs(rng.normal(size=10).tolist()) for _ in range(12)])) for _ in range(400))
    assert found <= 400 * LEVEL * 1.5
