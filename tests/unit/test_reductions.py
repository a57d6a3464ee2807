"""What all-reduces of scripts become: exact sums of a few floats, other dtypes and operations, and tensors that are not dense."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts import exact
from inalab.hosts.callbacks import Callbacks
from inalab.hosts.collective import Call, Label
from inalab.hosts.dense import dense_ones, flat
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.in_turn import InTurn
from inalab.hosts.pending import Followed, Part, PendingAll, PendingSum
from inalab.hosts.reductions import FEW, FLOATS, INTEGERS, PLAIN, Reduction, reduction, write
from inalab.hosts.stream.announcement import announce, differences
from tests.torch_groups import InPlace

SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def exactly(columns: list[list[float]]) -> list[float]:
    """The exact sum of what workers have, as one after the other adds its lanes."""
    lanes = sum(exact.spread(np.array(row, np.float32)).astype(np.int64) for row in columns)
    assert np.abs(lanes).max() < 2**31
    return [float(x) for x in exact.gathered(lanes.astype(np.int32))]  # type: ignore[union-attr]


@given(st.lists(SINGLE, min_size=1, max_size=12))
def test_a_few_floats_are_summed_without_an_error_but_the_last_rounding(values: list[float]) -> None:
    (got,) = exactly([[value] for value in values])
    total = sum(map(Fraction, values), Fraction(0))
    if np.isinf(got):
        assert abs(total) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(np.float32(got), np.float32(way)) for way in (-np.inf, np.inf)]
    for neighbour in neighbours:
        if np.isfinite(neighbour):
            assert abs(Fraction(got) - total) <= abs(Fraction(float(neighbour)) - total)


def test_ties_go_to_the_even_number() -> None:
    assert exactly([[2.0**24], [1.0]]) == [2.0**24] and exactly([[2.0**24 + 2], [1.0]]) == [2.0**24 + 4]
    assert exactly([[2.0**24], [1.0], [2.0**-149]]) == [2.0**24 + 2]


@pytest.mark.parametrize(
    ("values", "total"),
    [([1.0, np.inf], np.inf), ([-np.inf, 3.0], -np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 1.0], np.nan), ([-0.0, -0.0], 0.0)],
)
def test_what_is_not_finite_is_so_in_its_element_alone(values: list[float], total: float) -> None:
    found = exactly([[value, 7.5] for value in values])
    assert np.array_equal(found, [total, 7.5 * len(values)], equal_nan=True)


def test_as_many_workers_as_there_can_be_add_theirs() -> None:
    largest = float(np.finfo(np.float32).max)
    lanes = exact.spread(np.array([largest, -largest / 2048], np.float32)).astype(np.int64) * 2047
    assert np.abs(lanes).max() < 2**31
    assert exact.gathered(lanes.astype(np.int32)).tolist() == [np.inf, float(np.float32(-largest / 2048 * 2047))]


def test_a_count_beside_a_loss_is_kept() -> None:
    found = exactly([[2.3, 520e6], [1.7, 5.0]])
    assert found == [float(np.float32(np.float64(np.float32(2.3)) + np.float32(1.7))), float(np.float32(520000005))]


# --- which reduction, and what becomes of a tensor


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_a_tensor_is_given_and_taken_back_in_its_dtype(dtype: torch.dtype) -> None:
    for elements in (3, FEW, FEW + 1):
        tensor = torch.arange(elements).to(dtype)
        how = reduction(tensor, dist.ReduceOp.SUM, 4)
        assert how is not None and how.exactly == (dtype in FLOATS and elements <= FEW)
        total = how.total(4 * how.given(how.values(tensor)), tensor)
        write(tensor, total)
        assert tensor.dtype == dtype and tensor.tolist() == [4 * i for i in range(elements)]


def test_integers_wrap_as_in_torch() -> None:
    tensor = torch.tensor([100, -100], dtype=torch.int8)
    write(tensor, PLAIN.total(3 * PLAIN.given(PLAIN.values(tensor)), tensor))
    assert tensor.tolist() == (torch.tensor([100, -100], dtype=torch.int8) * 3).tolist()


def test_operations_and_what_is_left_to_gloo() -> None:
    x = torch.ones(20)
    average, scaled = reduction(x, dist.ReduceOp.AVG, 4), reduction(x, dist._make_nccl_premul_sum(0.25), 4)  # type: ignore[attr-defined]
    assert average == Reduction(divisor=4) and scaled == Reduction(factor=0.25)
    assert average.total(np.full(20, 6.0, np.float32), x).tolist() == [1.5] * 20
    assert scaled.values(x).tolist() == [0.25] * 20 and x.tolist() == [1.0] * 20
    assert (average.call, scaled.call, PLAIN.call) == (Call.AVERAGE, Call.SCALED_SUM, Call.ALL_REDUCE)
    assert (average.scattered, scaled.scattered) == (Call.REDUCE_SCATTER_AVERAGE, Call.SCALED_REDUCE_SCATTER)
    for tensor, op in (
        (x, dist.ReduceOp.MAX), (x.int(), dist.ReduceOp.AVG), (x.long(), dist.ReduceOp.SUM), (x.double(), dist.ReduceOp.SUM),
        (x.to_sparse(), dist.ReduceOp.SUM), (x.to("meta"), dist.ReduceOp.SUM),
    ):  # fmt: skip
        assert reduction(tensor, op, 4) is None


def test_an_expanded_tensor_is_written_once() -> None:
    wide = torch.ones(3, 1).expand(3, 4)
    write(wide, torch.arange(3.0).view(3, 1).expand(3, 4))
    assert wide.tolist() == [[float(row)] * 4 for row in range(3)]


def test_workers_that_differ_in_what_a_sum_is_for_are_told() -> None:
    x, k = np.zeros(10, np.float32), 64
    labels = [Label(call=Call.ALL_REDUCE), Label(call=Call.AVERAGE), Label(call=Call.ALL_REDUCE)]
    total = np.sum([announce(x, rank, 3, k, 0, label) for rank, label in enumerate(labels)], axis=0).astype(np.int32)
    told = "10 elements of float32 on workers 0, 2; 10 elements of float32 for average on worker 1"
    assert told in str(differences(total, x, [0, 1, 2], k, 0, labels[0]))
    lanes = [np.zeros(exact.LANES * n, np.int32) for n in (3, 4)]
    total = np.sum([announce(y, rank, 2, k, 0, Label(floats=3 + rank)) for rank, y in enumerate(lanes)], axis=0).astype(np.int32)
    wording = str(differences(total, lanes[0], [0, 1], k, 0, Label(floats=3)))
    assert "3 elements of float32 on worker 0; 4 elements of float32 on worker 1" in wording


# --- tensors for Gloo


def test_gloo_gets_dense_copies() -> None:
    dense, strided = torch.ones(4), torch.arange(8.0)[::2]
    (first, (second,)), copies = dense_ones((dense, [strided]))
    assert first is dense and second.is_contiguous() and second.tolist() == strided.tolist()
    assert [(own is strided, copy is second) for own, copy in copies] == [(True, True)]
    assert flat([[dense], strided]) == [dense, strided]
    assert dense_ones(dense.to_sparse())[1] == []


# --- what is waited for


def test_a_callback_can_wait_for_another_sum_and_for_its_future() -> None:
    """The thread that finishes sums runs no callback."""
    first, second, third = (PendingSum(torch.ones(1)) for _ in range(3))

    def then(_: Any) -> str:
        second.wait()
        deeper = PendingSum(torch.ones(1))
        waited = deeper.get_future()
        deeper.finish()
        waited.wait()
        third.get_future().wait()
        return "done"

    after, over = first.get_future().then(then), threading.Event()
    after.add_done_callback(lambda _: over.set())
    first.finish()
    second.finish()
    third.finish()
    assert over.wait(20) and after.value() == "done"


def test_what_a_callback_begins_is_completed_beside_it_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Callbacks, "PATIENCE", 60.0)
    made, over = Callbacks(), threading.Event()

    def callback() -> None:
        deeper = threading.Event()
        made.put(made.level, deeper.set)
        if deeper.wait(10):
            over.set()

    made.put(made.level, callback)
    assert over.wait(20)


def over_in_a_callback() -> bool:
    """Whether a future completes."""
    pending, seen = PendingSum(torch.ones(1)), threading.Event()
    pending.get_future().add_done_callback(lambda _: seen.set())
    pending.finish()
    return seen.wait(10)


def test_futures_complete_in_a_process_that_was_forked_later() -> None:
    assert over_in_a_callback()
    child = os.fork()
    if child == 0:
        os._exit(0 if over_in_a_callback() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_pieces_have_a_future_of_all_their_tensors() -> None:
    pieces = [PendingSum(torch.ones(i + 1)) for i in range(2)]
    whole = PendingAll(pieces)
    future = whole.get_future()
    assert not whole.is_completed()
    for piece in pieces:
        piece.finish()
    assert [t.numel() for t in future.wait()] == [1, 2] == [t.numel() for t in whole.result()]
    assert whole.is_completed() and whole.is_success() and whole.exception() is None


def test_what_follows_is_done_once_before_anybody_goes_on() -> None:
    done: list[int] = []
    work, tensor = PendingSum(torch.ones(1)), torch.ones(2)
    followed = Followed(work, lambda: done.append(1), [tensor])
    future = followed.get_future()
    assert not followed.is_completed() and not done
    work.finish()
    assert future.wait() == [tensor] and followed.wait(timedelta(seconds=1)) and followed.is_completed() and done == [1]
    failing = PendingSum(torch.ones(1))
    failing.finish(RuntimeError("worker 1 is missing"))
    broken = Followed(failing, lambda: done.append(2), [tensor])
    with pytest.raises(Exception, match="worker 1 is missing"):
        broken.get_future().wait()
    with pytest.raises(RuntimeError, match="worker 1 is missing"):
        broken.wait()
    assert broken.is_completed() and not broken.is_success() and done == [1]


def test_a_callback_may_wait_for_a_future_beside_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inalab.hosts.callbacks.Callbacks.PATIENCE", 0.1)
    first, second = (PendingSum(torch.ones(1)) for _ in range(2))
    beside, over = second.get_future(), threading.Event()
    first.get_future().then(lambda _: beside.wait()).add_done_callback(lambda _: over.set())
    first.finish()
    second.finish()
    assert over.wait(20)


def test_work_is_over_when_what_follows_is_done() -> None:
    """Also if it ends between two looks."""
    looks = iter([False, True, True])
    work = SimpleNamespace(is_completed=lambda: next(looks), is_success=lambda: True, _source_rank=lambda: 3)
    done: list[int] = []
    followed = Followed(work, lambda: done.append(1), [])
    assert not followed.is_completed() and not done
    assert followed.is_completed() and done == [1] and followed._source_rank() == 3


# --- reduce-scatters


def test_a_part_of_a_sum_is_kept_and_what_was_given_stays() -> None:
    given, output = torch.arange(40.0), torch.zeros(10)
    sums = InTurn(InPlace(), SOCKETS)
    first = sums.sum(given, part=Part(output, 1, 4))
    second = sums.sum(output)  # begins when the first has written it
    sums.end(0)
    sums.run()
    assert first.wait() and second.wait() and first.result() == [output]
    assert given.tolist() == list(range(40)) and output.tolist() == [4.0 * i for i in range(10, 20)]


def test_a_factor_is_what_it_was_when_the_call_was_made() -> None:
    factor = torch.tensor([2.0])
    how = reduction(torch.ones(20), dist._make_nccl_premul_sum(factor), 4)  # type: ignore[attr-defined]
    factor.mul_(2)
    assert how is not None and how.values(torch.ones(20, dtype=torch.float16)).tolist() == [2.0] * 20
    large = Reduction(factor=4.0).values(torch.full((2,), 20000.0, dtype=torch.float16))
    assert large.dtype == torch.float32 and large.tolist() == [80000.0] * 2


def test_inference_tensors_are_written_outside_their_mode() -> None:
    with torch.inference_mode():
        tensor = torch.ones(3)
    write(tensor, torch.arange(3.0))
    assert tensor.tolist() == [0.0, 1.0, 2.0]
