"""Sums of the torch backend without a network: what is summed, what is waited for, and what a failure leaves."""

from __future__ import annotations

import select
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inalab.hosts.collective import AggregationError, Label, Operation, Sum
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.in_turn import InTurn
from inalab.hosts.pending import PendingAll, PendingSum
from inalab.hosts.reductions import PLAIN
from inalab.hosts.tally import Tally
from tests.torch_groups import Doubling, InPlace, fresh_tally


def sum_in_turn(collective: Doubling, tensors: list[torch.Tensor]) -> list[PendingSum]:
    """What the backend's thread does with all-reduces of these tensors."""
    sums = InTurn(collective, SOCKETS)
    pending = [sums.sum(tensor) for tensor in tensors]
    sums.end(0)
    sums.run()
    return pending


def values_of(tensor: torch.Tensor) -> Any:
    """What is summed for a tensor."""
    return PLAIN.given(PLAIN.values(tensor))


@pytest.fixture(autouse=True)
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What is counted in a test."""
    return fresh_tally(monkeypatch)


def test_after_a_sum_that_failed_all_later_ones_fail_likewise(tally: Tally) -> None:
    collective = Doubling(fails={1}, error=AggregationError("worker 1 is missing", incomplete=True, missing=(1,)))
    tensors = [torch.ones(3) for _ in range(4)]
    pending = sum_in_turn(collective, tensors)
    assert pending[0].wait()
    for failed in pending[1:]:
        assert failed.is_completed() and not failed.is_success()
        with pytest.raises(AggregationError, match="worker 1 is missing") as caught:
            failed.wait()
        assert (caught.value.incomplete, caught.value.missing) == (True, (1,))
        with pytest.raises(Exception, match="worker 1 is missing"):
            failed.get_future().wait()
    assert [float(tensor[0]) for tensor in tensors] == [2.0, 1.0, 1.0, 1.0]
    assert collective.sums == 2
    assert collective.closed
    assert (tally.sums, tally.sum_bytes, len(tally.seconds)) == (1, 12, 1)


def test_sums_that_are_waiting_are_started_before_the_first_is_over() -> None:
    collective = Doubling()
    tensors = [torch.ones(3) * i for i in range(4)]
    for i, pending in enumerate(sum_in_turn(collective, tensors)):
        assert pending.wait()
        assert tensors[i].tolist() == [2 * i] * 3
    assert collective.most == 4 and collective.interruptions == 0


def test_a_sum_that_comes_later_is_started_beside_the_one_under_way() -> None:
    class Slow(Doubling):
        def _advance(self, started: Sum, interrupt: int) -> None:
            if self.most == 1:
                pending.append(sums.sum(torch.ones(2) * 5))
                select.select([interrupt], [], [], 5)
            super()._advance(started, interrupt)

    collective = Slow()
    sums = InTurn(collective, SOCKETS)
    pending = [sums.sum(torch.ones(2))]
    sums.begin()
    for number, total in enumerate((2.0, 10.0)):
        assert pending[number].over.wait(5)
        assert pending[number].tensor.tolist() == [total, total]
    sums.end(5)
    assert sums.over.is_set() and (collective.most, collective.interruptions) == (2, 1)


def test_a_tensor_that_shares_memory_with_one_under_way_waits() -> None:
    """As on Gloo the second sum is that of the first."""
    whole = torch.ones(10)
    collective = InPlace()
    for pending in sum_in_turn(collective, [whole, torch.ones(3), whole[3:5], whole[::4]]):
        assert pending.wait()
    assert whole.tolist() == [4, 2, 2, 4, 8, 2, 2, 2, 4, 2]
    assert collective.most == 2


@pytest.mark.parametrize(("second", "at_once"), [(slice(5, 10), 2), (slice(4, 10), 1), (slice(5, 5), 2)])
def test_tensors_side_by_side_in_one_storage_do_not_wait(second: slice, at_once: int) -> None:
    """But those that share one element do."""
    whole, collective = torch.ones(10), InPlace()
    for pending in sum_in_turn(collective, [whole[:5], whole[second]]):
        assert pending.wait()
    assert whole.tolist() == [2.0] * 4 + [6.0 - 2 * at_once] + [2.0 if second.stop == 10 else 1.0] * 5
    assert second.stop == 5 or collective.most == at_once


def test_autograd_learns_of_a_sum_in_place() -> None:
    x = torch.ones(4, requires_grad=True)
    y = 3 * x
    z = (y * y).sum()
    sum_in_turn(InPlace(), [y.detach()])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_another_exception_is_an_aggregation_error_as_well() -> None:
    (failed,) = sum_in_turn(Doubling(fails={0}, error=MemoryError("no room")), [torch.ones(1)])
    with pytest.raises(AggregationError, match="MemoryError: no room"):
        failed.wait()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_sums_are_in_place_whatever_the_layout(dtype: torch.dtype) -> None:
    tensors = [
        torch.arange(6, dtype=dtype).reshape(2, 3),
        torch.arange(6, dtype=dtype).reshape(2, 3).t(),
        torch.tensor(7).to(dtype),
    ]
    before = [tensor.clone() for tensor in tensors]
    for pending in sum_in_turn(Doubling(), tensors):
        assert pending.wait()
        assert pending.is_success()
    for tensor, was in zip(tensors, before, strict=True):
        assert tensor.dtype == dtype
        assert tensor.equal(2 * was)


def test_waiting_ends_with_the_sum_or_with_its_time() -> None:
    pending = PendingSum(torch.ones(1))
    with pytest.raises(TimeoutError, match=r"not over after 0\.02 s"):
        pending.wait(timedelta(seconds=0.02))
    threading.Timer(0.1, pending.finish).start()
    assert pending.wait()  # for as long as it takes
    assert pending.get_future().wait()[0] is pending.tensor


def test_a_sum_has_its_label_and_operation_and_its_version_is_told() -> None:
    class Keeping(Doubling):
        operations = (Operation.CHANGE,)

        def doubled(self, started: Sum) -> Any:
            wording.append((started.label, started.operation))
            started.version, started.update = 7.0, update
            return super().doubled(started)

    wording: list[Any] = []
    update: Any = object()
    sums = InTurn(Keeping(), SOCKETS)
    pending = sums.sum(torch.ones(2), Label("weights", 3), Operation.CHANGE)
    sums.end(0)
    sums.run()
    assert pending.wait() and pending.begun <= pending.ended
    assert wording == [(Label("weights", 3), Operation.CHANGE)]
    assert (pending.version, pending.update) == (7.0, update)


def test_several_pieces_of_work_are_over_when_all_are() -> None:
    waited: list[Any] = []
    pieces: list[Any] = [SimpleNamespace(wait=lambda *seconds, i=i: waited.append((i, *seconds))) for i in range(3)]
    assert PendingAll(pieces).wait() and PendingAll(pieces[:2]).wait(timedelta(seconds=4))
    assert waited == [(0,), (1,), (2,), (0, timedelta(seconds=4)), (1, timedelta(seconds=4))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("shape", [(10,), (2, 5), (), (0,), (3, 0)])
def test_what_is_summed_of_a_tensor_is_its_own_memory_and_it_can_be_resized_afterwards(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.ones(shape).to(dtype)
    values = values_of(tensor)
    assert values.shape == shape and values.tolist() == tensor.tolist()
    if tensor.numel() and dtype != torch.float16:
        assert values.ctypes.data == tensor.data_ptr() and values.flags.writeable
    del values
    tensor.resize_(1000)  # as the batched PowerSGD hook does


def test_values_keep_the_memory_of_a_tensor_that_nobody_else_has() -> None:
    values = values_of(torch.full((1000,), 7.0))
    others = [torch.zeros(1000) for _ in range(50)]
    assert (values == 7).all() and len(others) == 50


def test_views_are_summed_as_they_look() -> None:
    assert values_of(torch.arange(6.0).view(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]
    lone = torch.complex(torch.ones(3), torch.arange(3.0)).conj().imag
    assert lone.is_neg() and values_of(lone).tolist() == [0, -1, -2]
