"""Sums of the torch backend without a network: what goes over the scheme, what is waited for, and what a failure leaves."""

from __future__ import annotations

import select
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hosts import torch_backend
from hosts.collective import NEVER, AggregationError, Counters, Label, Membership, Operation, Sum, Summing
from hosts.epoch import NONE
from hosts.pending import PendingAll, PendingSum, Waiting
from hosts.tally import Tally
from hosts.torch_backend import InaProcessGroup, Options


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
    group: Any = SimpleNamespace(waiting=waiting, under_way=[], sampling=None)
    InaProcessGroup._sum_in_turn(group, collective)
    return pending


@pytest.fixture(autouse=True)
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What is counted in a test."""
    made = Tally()
    for module in ("pending", "torch_backend"):
        monkeypatch.setattr(f"hosts.{module}.tally", made)
    return made


@pytest.fixture(autouse=True)
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The group that has the scheme: none at first."""
    made: list[Any] = []
    monkeypatch.setattr(torch_backend, "joined", made)
    return made


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
                group.waiting.put(second)
                select.select([interrupt], [], [], 5)
            super()._advance(started, interrupt)

    first, second = PendingSum(torch.ones(2)), PendingSum(torch.ones(2) * 5)
    group: Any = SimpleNamespace(waiting=Waiting(), under_way=[], sampling=None)
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
            told.append((started.label, started.operation))
            started.version, started.update = 7.0, update
            return super().doubled(started)

    told: list[Any] = []
    update: Any = object()
    pending, waiting = PendingSum(torch.ones(2), Label("weights", 3), Operation.CHANGE), Waiting()
    for item in (pending, None):
        waiting.put(item)
    group: Any = SimpleNamespace(waiting=waiting, under_way=[], sampling=None)
    InaProcessGroup._sum_in_turn(group, Keeping())
    assert pending.wait() and pending.begun <= pending.ended
    assert told == [(Label("weights", 3), Operation.CHANGE)]
    assert (pending.version, pending.update) == (7.0, update)


def test_several_pieces_of_work_are_over_when_all_are() -> None:
    waited: list[Any] = []
    pieces: list[Any] = [SimpleNamespace(wait=lambda *seconds, i=i: waited.append((i, *seconds))) for i in range(3)]
    assert PendingAll(pieces).wait() and PendingAll(pieces[:2]).wait(timedelta(seconds=4))
    assert waited == [(0,), (1,), (2,), (0, timedelta(seconds=4)), (1, timedelta(seconds=4))]


def test_a_sum_is_given_up_after_the_timeout_of_its_group() -> None:
    """It counts from when the scheme was given it; what somebody else knows comes first."""
    pending, why = PendingSum(torch.ones(2)), ["worker 1 was killed", "the workers differ"]
    calls = SimpleNamespace(difference=lambda: why[1])
    group: Any = SimpleNamespace(pulse=lambda: why[0], timeout=6.0, under_way=[(pending, None)], calls=calls)
    pending.begun -= 100
    pending.started -= 7
    assert InaProcessGroup._reason(group) == "worker 1 was killed"
    why[0] = ""
    assert InaProcessGroup._reason(group) == "the workers differ"
    why[1] = ""
    assert InaProcessGroup._reason(group) == "it was not over after 6 s, the timeout of the group"
    pending.started += 6
    assert InaProcessGroup._reason(group) is None
    group.under_way.clear()
    assert InaProcessGroup._reason(group) is None


# --- groups


def place(rank: int = 0, size: int = 1, native: bool = False, join: Any = None) -> Any:
    scheme = SimpleNamespace(native=native, join=join or (lambda place, epoch, pulse: Doubling()))
    return SimpleNamespace(scheme=scheme, membership=Membership(0, rank, size))


def group_at(options: Options, rank: int = 0, size: int = 1) -> Any:
    """A group that may have joined the scheme, as its constructor makes it."""
    made: Any = SimpleNamespace(place=options.place, rank=lambda: rank, size=lambda: size, waiting=Waiting(), under_way=[])
    made.sampling, made.calls = options.sampling, None
    made._reason = made
    made.collective = InaProcessGroup._join(made, dist.HashStore(), options)
    if made.collective is not None:
        made.thread = threading.Thread(target=InaProcessGroup._sum_in_turn, args=(made, made.collective), daemon=True)
        made.thread.start()
    return made


@pytest.mark.parametrize("free", [(True, True, True), (True, True, False), (False, True, True)])
def test_workers_agree_on_an_epoch_where_the_scheme_is_free_on_all(monkeypatch: pytest.MonkeyPatch, free: tuple[bool, ...]) -> None:
    monkeypatch.setattr(torch_backend, "draw", iter([77]).__next__)
    store: Any = dist.HashStore()
    with ThreadPoolExecutor(3) as pool:
        agreed = list(pool.map(lambda rank: torch_backend._agree(store, rank, 3, free[rank]), range(3)))
    assert agreed == [77 if all(free) else NONE] * 3


def test_the_first_group_of_all_workers_has_the_scheme_until_it_is_destroyed(
    monkeypatch: pytest.MonkeyPatch, tally: Tally, joined: list[Any]
) -> None:
    monkeypatch.setattr(torch_backend, "draw", iter([77, 78]).__next__)
    told: list[Any] = []
    here = place(join=lambda *given: told.append(given) or Doubling())
    options = Options(here, lambda: None)
    first, second, last = group_at(options), group_at(options), PendingSum(torch.ones(1))
    InaProcessGroup.shutdown(second)
    assert second.collective is None and joined == [first]
    first.collective.counters = Counters(sent=5, retransmissions=1)
    first.waiting.put(last)
    InaProcessGroup.shutdown(first)
    assert last.is_success() and first.collective is None and joined == []
    third = group_at(options)
    assert joined == [third]
    InaProcessGroup.shutdown(third)
    assert (tally.sent, tally.retransmissions) == (5, 1)
    assert told == [(here, 77, first._reason), (here, 78, third._reason)]


@pytest.mark.parametrize("here", [place(size=2), place(native=True)])
def test_groups_of_some_workers_and_native_schemes_are_gloos_alone(joined: list[Any], here: Any) -> None:
    assert group_at(Options(here)).collective is None and joined == []


def test_a_rank_that_is_not_the_workers_place_is_refused() -> None:
    with pytest.raises(RuntimeError, match="rank 0 was given to the worker whose place in the network is 1"):
        group_at(Options(place(rank=1, size=2)), 0, 2)


def test_who_cannot_join_leaves_the_scheme_to_the_next_group(joined: list[Any]) -> None:
    def join(*given: Any) -> None:
        raise AggregationError("worker 1 does not come")

    with pytest.raises(AggregationError, match="worker 1 does not come"):
        group_at(Options(place(join=join)))
    assert joined == []


def test_a_group_finds_no_keys_of_the_one_before_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch calls both alike; and whoever has the store of the first keeps it."""
    monkeypatch.setattr(torch_backend, "InaProcessGroup", lambda store, *given: store)
    monkeypatch.setattr(torch_backend, "stores", [])
    monkeypatch.setattr(torch_backend, "made", Counter())
    store: Any = dist.HashStore()
    given = SimpleNamespace(
        group_id="0", global_ranks_in_group=[0], store=store, group_rank=0, group_size=1, timeout=timedelta(seconds=1)
    )
    options: Any = Options(place())
    first, second = (torch_backend.create(given, options) for _ in range(2))
    first.set("where", "here")
    assert first.check(["where"]) and not second.check(["where"])
    assert torch_backend.stores == [store, store]


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
    tally: Tally, tensors: list[torch.Tensor], op: Any, own: bool
) -> None:
    group: Any = SimpleNamespace(collective=Doubling(), gloo=GlooCalls(), waiting=Waiting(), calls=None)
    group.sum, group._noted = partial(InaProcessGroup.sum, group), partial(InaProcessGroup._noted, group)
    options = SimpleNamespace(reduceOp=op)
    pending = InaProcessGroup.allreduce(group, tensors, options)
    if own:
        assert pending is group.waiting.get()
        assert pending.tensor is tensors[0]
    else:
        assert pending == "gloo"
        assert not len(group.waiting)
        assert group.gloo.given == [tensors]
    assert tally.gloo_calls == (not own)
    assert tally.gloo_bytes == (0 if own else sum(t.numel() * t.element_size() for t in tensors))


def test_gloo_keeps_no_weights() -> None:
    group: Any = SimpleNamespace(collective=None, gloo=GlooCalls(), calls=None)
    group._noted = partial(InaProcessGroup._noted, group)
    assert InaProcessGroup.sum(group, torch.ones(1)) == "gloo"
    with pytest.raises(ValueError, match="Gloo sums, and keeps nothing: it has no CHANGE"):
        InaProcessGroup.sum(group, torch.ones(1), Label("weights"), Operation.CHANGE)
    assert len(group.gloo.given) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("shape", [(10,), (2, 5), (), (0,), (3, 0)])
def test_what_is_summed_of_a_tensor_is_its_own_memory_and_it_can_be_resized_afterwards(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.ones(shape).to(dtype)
    values = torch_backend._values(tensor)
    assert values.shape == shape and values.tolist() == tensor.tolist()
    if tensor.numel() and dtype != torch.float16:
        assert values.ctypes.data == tensor.data_ptr() and values.flags.writeable
    del values
    tensor.resize_(1000)  # as the batched PowerSGD hook does


def test_values_keep_the_memory_of_a_tensor_that_nobody_else_has() -> None:
    values = torch_backend._values(torch.full((1000,), 7.0))
    others = [torch.zeros(1000) for _ in range(50)]
    assert (values == 7).all() and len(others) == 50


def test_views_are_summed_as_they_look() -> None:
    assert torch_backend._values(torch.arange(6.0).view(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]
    lone = torch.complex(torch.ones(3), torch.arange(3.0)).conj().imag
    assert lone.is_neg() and torch_backend._values(lone).tolist() == [0, -1, -2]
