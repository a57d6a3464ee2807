"""Sums of the torch backend without a network: what goes over the scheme, what is waited for, and what a failure leaves."""

from __future__ import annotations

import select
import threading
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hosts.collective import NEVER, AggregationError, Counters, Sum, Summing
from hosts.torch_backend import InaProcessGroup, PendingSum, Waiting


class Doubling(Summing):
    """A collective of two equal workers, which fails in the sums whose numbers are in `fails`."""

    def __init__(self, fails: set[int] | None = None, error: Exception | None = None) -> None:
        super().__init__()
        self.fails, self.error = fails or set(), error
        self.sums = self.under_way = self.most = self.interruptions = 0
        self.closed = False
        self.counters = Counters()

    def _start(self, started: Sum) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)

    def _advance(self, started: Sum, interrupt: int) -> None:
        if interrupt != NEVER and select.select([interrupt], [], [], 0)[0]:
            self.interruptions += 1
            return
        self.under_way -= 1
        self.sums += 1
        if self.sums - 1 in self.fails:
            raise self.error or AggregationError("worker 1 is missing")
        self._over(started, self.doubled(started))

    def doubled(self, started: Sum) -> Any:
        """The sum."""
        return 2 * started.flat

    def close(self) -> None:
        self.closed = True


def sum_in_turn(collective: Doubling, tensors: list[torch.Tensor]) -> list[PendingSum]:
    """What the backend's thread does with all-reduces of these tensors."""
    waiting = Waiting()
    pending = [PendingSum(tensor) for tensor in tensors]
    for item in [*pending, None]:
        waiting.put(item)
    group: Any = SimpleNamespace(waiting=waiting)
    InaProcessGroup._sum_in_turn(group, collective)
    return pending


def test_after_a_sum_that_failed_all_later_ones_fail_likewise() -> None:
    collective = Doubling(fails={1})
    tensors = [torch.ones(3) for _ in range(4)]
    pending = sum_in_turn(collective, tensors)
    assert pending[0].wait()
    for failed in pending[1:]:
        assert failed.is_completed() and not failed.is_success()
        with pytest.raises(AggregationError, match="worker 1 is missing"):
            failed.wait()
        with pytest.raises(Exception, match="worker 1 is missing"):
            failed.get_future().wait()
    assert [float(tensor[0]) for tensor in tensors] == [2.0, 1.0, 1.0, 1.0]
    assert collective.sums == 2
    assert collective.closed


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
                group.waiting.put(second)
                select.select([interrupt], [], [], 5)
            super()._advance(started, interrupt)

    first, second = PendingSum(torch.ones(2)), PendingSum(torch.ones(2) * 5)
    group: Any = SimpleNamespace(waiting=Waiting())
    group.waiting.put(first)
    collective = Slow()
    thread = threading.Thread(target=InaProcessGroup._sum_in_turn, args=(group, collective), daemon=True)
    thread.start()
    for pending, total in ((first, 2.0), (second, 10.0)):
        assert pending.over.wait(5)
        assert pending.tensor.tolist() == [total, total]
    group.waiting.put(None)
    thread.join(5)
    assert not thread.is_alive() and (collective.most, collective.interruptions) == (2, 1)


class InPlace(Doubling):
    """One that writes the sum over the tensor, where it may."""

    def doubled(self, started: Sum) -> Any:
        if not started.overwrite:
            return super().doubled(started)
        started.flat *= 2
        return started.flat


def test_a_tensor_that_shares_memory_with_one_under_way_waits() -> None:
    """As on Gloo the second sum is that of the first."""
    whole = torch.ones(10)
    collective = InPlace()
    for pending in sum_in_turn(collective, [whole, torch.ones(3), whole[3:5], whole[::4]]):
        assert pending.wait()
    assert whole.tolist() == [4, 2, 2, 4, 8, 2, 2, 2, 4, 2]
    assert collective.most == 2


def test_tensors_side_by_side_in_one_storage_do_not_wait() -> None:
    whole, collective = torch.ones(10), InPlace()
    for pending in sum_in_turn(collective, [whole[:5], whole[5:]]):
        assert pending.wait()
    assert (whole.tolist(), collective.most) == ([2.0] * 10, 2)


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


class GlooCalls:
    """Stands for Gloo, and keeps what is handed on to it."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def allreduce(self, tensors: Any, opts: Any = None) -> str:
        self.given.append(tensors)
        return "gloo"


@pytest.mark.parametrize(
    ("tensors", "op", "own"),
    [
        ([torch.ones(2)], dist.ReduceOp.SUM, True),
        ([torch.ones(2)], dist.ReduceOp.MAX, False),
        ([torch.ones(2)], dist.ReduceOp.AVG, False),
        ([torch.ones(2), torch.ones(2)], dist.ReduceOp.SUM, False),
        ([torch.ones(2, dtype=torch.float64)], dist.ReduceOp.SUM, False),
        ([torch.ones(2, dtype=torch.int64)], dist.ReduceOp.SUM, False),
        ([torch.ones(2).to_sparse()], dist.ReduceOp.SUM, False),
    ],
)
def test_dense_sums_of_one_tensor_go_over_the_scheme_and_all_else_over_gloo(
    tensors: list[torch.Tensor], op: Any, own: bool
) -> None:
    group: Any = SimpleNamespace(collective=Doubling(), gloo=GlooCalls(), waiting=Waiting())
    group.sum = partial(InaProcessGroup.sum, group)
    options = SimpleNamespace(reduceOp=op)
    pending = InaProcessGroup.allreduce(group, tensors, options)
    if own:
        assert pending is group.waiting.get()
        assert pending.tensor is tensors[0]
    else:
        assert pending == "gloo"
        assert not len(group.waiting)
        assert group.gloo.given == [tensors]
