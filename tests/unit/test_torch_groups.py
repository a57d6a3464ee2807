"""Groups of the torch backend without a network: which one has the scheme, what goes over it, and what its workers note."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from inalab.hosts import torch_backend
from inalab.hosts.calls import Calls, noted_calls
from inalab.hosts.collective import AggregationError, Counters, Label, Operation
from inalab.hosts.epoch import NONE
from inalab.hosts.in_turn import COLLECTIVE
from inalab.hosts.launch_files import LaunchFiles
from inalab.hosts.pending import PendingSum
from inalab.hosts.sampling import Sample, ScriptSampling
from inalab.hosts.tally import Tally
from inalab.hosts.torch_backend import InaProcessGroup, Options
from tests.torch_groups import Doubling, InPlace, bare, fresh_tally, place


@pytest.fixture(autouse=True)
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What is counted in a test."""
    return fresh_tally(monkeypatch)


@pytest.fixture(autouse=True)
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The group that has the scheme: none at first."""
    made: list[Any] = []
    monkeypatch.setattr(torch_backend, "joined", made)
    return made


def group_of_one(options: Options) -> Any:
    """A real group, with Gloo and a thread."""
    return InaProcessGroup(dist.HashStore(), 0, 1, timedelta(seconds=60), options)


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
    wording: list[Any] = []
    here = place(join=lambda *given: wording.append(given) or Doubling())
    options = Options(here, lambda: None)
    first, second, last = group_of_one(options), group_of_one(options), PendingSum(torch.ones(1))
    second.shutdown()
    first_channel = first.channel
    assert second.channel is None and joined == [first]
    first.channel.collective.counters = Counters(sent=5, retransmissions=1)
    first.channel.sums.waiting.put(last)
    first.shutdown()
    assert last.is_success() and first.channel is None and joined == []
    third = group_of_one(options)
    assert joined == [third]
    reasons = [first_channel._reason, third.channel._reason]
    third.shutdown()
    assert (tally.sent, tally.retransmissions) == (5, 1)
    assert wording == [(here, 77, reasons[0]), (here, 78, reasons[1])]


@pytest.mark.parametrize("here", [place(size=2), place(native=True)])
def test_groups_of_some_workers_and_native_schemes_are_gloos_alone(joined: list[Any], here: Any, tmp_path: Path) -> None:
    alone = group_of_one(Options(here, notes=LaunchFiles(tmp_path)))
    tensor = torch.ones(3)
    assert alone.allreduce([tensor]).wait() and tensor.tolist() == [1.0] * 3  # of one worker
    assert alone.channel is alone.calls is None and joined == [] and not list(tmp_path.iterdir())


def test_a_rank_that_is_not_the_workers_place_is_refused() -> None:
    here = place(rank=1, size=2)
    with pytest.raises(RuntimeError, match="rank 0 was given to the worker whose place in the network is 1"):
        bare(place=here, size=lambda: 2)._has_job(dist.HashStore())


def test_who_cannot_join_leaves_the_scheme_to_the_next_group_and_no_descriptor(joined: list[Any], tmp_path: Path) -> None:
    def join(*given: Any) -> None:
        (opened,) = [file for file in os.listdir("/proc/self/fd") if _opened(file).startswith(str(tmp_path))]
        raise AggregationError(f"worker 1 does not come, {opened}")

    with pytest.raises(AggregationError, match="worker 1 does not come") as caught:
        group_of_one(Options(place(join=join), notes=LaunchFiles(tmp_path)))
    assert joined == []
    assert not _opened(str(caught.value).rpartition(" ")[2]).startswith(str(tmp_path))


def _opened(descriptor: str) -> str:
    """What a descriptor of this process is of; "" where it is closed."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


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


def test_a_sum_is_given_up_after_the_timeout_of_its_group() -> None:
    """It counts from when the scheme was given it; what somebody else knows comes first."""
    pending, why = PendingSum(torch.ones(2)), ["worker 1 was killed", "the workers differ", ""]
    calls = SimpleNamespace(difference=lambda quiet=10.0: why[1] if quiet else why[2])
    group = bare(options=Options(place(), lambda: why[0]), timeout=6.0, calls=calls)
    group.channel = SimpleNamespace(sums=SimpleNamespace(under_way={pending: None}))
    pending.begun -= 100
    pending.started -= 7
    assert group._reason() == "worker 1 was killed"
    why[0] = ""
    assert group._reason() == "the workers differ"
    why[1] = ""
    assert group._reason() == "it was not over after 6 s, the timeout of the group"
    why[2] = "the workers differ since a moment ago"
    assert group._reason() == why[2]
    pending.started += 6
    assert group._reason() is None
    group.channel.sums.under_way.clear()
    assert group._reason() is None


@pytest.mark.parametrize(
    ("tensors", "op", "own"),
    [
        ([torch.ones(2)], dist.ReduceOp.SUM, True),
        ([torch.ones(2)], dist.ReduceOp.MAX, False),
        ([torch.ones(2)], dist.ReduceOp.AVG, True),
        ([torch.ones(2, dtype=torch.int32)], dist.ReduceOp.AVG, False),
        ([torch.ones(2, dtype=torch.bfloat16)], dist.ReduceOp.SUM, True),
        ([torch.ones(2, dtype=torch.uint8)], dist.ReduceOp.SUM, True),
        ([torch.ones(2), torch.ones(2)], dist.ReduceOp.SUM, False),
        ([torch.ones(2, dtype=torch.float64)], dist.ReduceOp.SUM, False),
        ([torch.ones(2, dtype=torch.int64)], dist.ReduceOp.SUM, False),
        ([torch.ones(2).to_sparse()], dist.ReduceOp.SUM, False),
    ],
)
def test_dense_sums_of_one_tensor_go_over_the_scheme_and_all_else_over_gloo(
    tally: Tally, tensors: list[torch.Tensor], op: Any, own: bool
) -> None:
    group = bare(collective=Doubling())
    pending = group.allreduce(tensors, SimpleNamespace(reduceOp=op))
    if own:
        assert pending is group.channel.sums.waiting.get()
        assert pending.tensor is tensors[0]
    else:
        assert not len(group.channel.sums.waiting)
        assert group.gloo.given == [tensors]
        assert not tally.gloo_seconds
        pending.future.set_result(None)
        assert len(tally.gloo_seconds) == 1
    assert tally.gloo_calls == (not own)
    assert tally.gloo_bytes == (0 if own else sum(t.numel() * t.element_size() for t in tensors))


def test_gloo_keeps_no_weights() -> None:
    group = bare()
    group.sum(torch.ones(1))
    with pytest.raises(ValueError, match="Gloo has no operation CHANGE"):
        group.sum(torch.ones(1), Label("weights"), Operation.CHANGE)
    assert len(group.gloo.given) == 1


# --- what Gloo does not compare


def test_a_call_of_gloos_in_which_workers_differ_is_told_before_it_begins_or_when_it_is_over(tmp_path: Path) -> None:
    here, there = (Calls(tmp_path, "gloo", rank, (4, 7)) for rank in range(2))
    group, x = bare(by_gloo=here, ranks=(4, 7)), torch.ones(3, dtype=torch.int64)
    there.note("all_reduce of 3 int64 by MAX over Gloo")
    with pytest.raises(
        RuntimeError, match=r"call 1 of the group: all_reduce of 3 int64 over Gloo on worker 4; .* by MAX over Gloo on worker 7"
    ):
        group.allreduce([x])
    assert group.gloo.given == []
    work = group.allreduce([x])
    there.note("all_reduce of 5 int64 over Gloo")
    work.work.future.set_result([x])
    with pytest.raises(
        RuntimeError, match="differ in call 2 of the group: all_reduce of 3 int64 over Gloo on worker 4; all_reduce of 5"
    ):
        work.wait()
    work = group.allreduce([x])
    there.note("all_reduce of 3 int64 over Gloo")
    work.work.future.set_result([x])
    assert work.wait() and work.result() == [x]


def test_who_waits_for_a_worker_that_makes_another_call_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo never has done; or it fails, because the other worker, which has given its tensor to the scheme, has ended."""
    monkeypatch.setattr("inalab.hosts.gloo_group.LOOK", 0.01)
    here, there = (Calls(tmp_path, "gloo", rank, (0, 1)) for rank in range(2))
    group = bare(by_gloo=here, ranks=(0, 1))
    work = group.allreduce([torch.ones(3).double()])
    there.note("barrier over Gloo")
    with pytest.raises(RuntimeError, match="differ in call 1 of the group: all_reduce of 3 float64 over Gloo on worker 0; barrier"):
        work.wait()
    group.calls = SimpleNamespace(note=lambda call: None, difference=lambda quiet: "one sums over the scheme")
    there.note("all_reduce of 3 float64 over Gloo")
    work = group.allreduce([torch.ones(3).double()])
    work.work.future.set_exception(RuntimeError("connection closed"))
    with pytest.raises(RuntimeError, match="one sums over the scheme"):
        work.wait()


def test_a_call_of_gloos_that_has_no_future_is_waited_for_and_fails_as_gloo_says(tmp_path: Path) -> None:
    class NoFuture:
        def get_future(self) -> Any:
            raise RuntimeError("not implemented")

        def wait(self) -> None:
            raise RuntimeError("connection closed")

    group = bare(by_gloo=Calls(tmp_path, "gloo", 0, (0,)), gloo=SimpleNamespace(_reduce_scatter_base=lambda *given: NoFuture()))
    with pytest.raises(RuntimeError, match="connection closed"):
        group.reduce_scatter_single(torch.ones(1), torch.ones(1)).wait()


# --- what workers note for each other


def test_a_group_notes_every_collective_by_its_name(tmp_path: Path) -> None:
    group, t = group_of_one(Options(place(), lambda: None, LaunchFiles(tmp_path))), torch.ones(4)
    calls = {
        "all_reduce of 4 float32 over doubling": [lambda: group.allreduce([t]), lambda: group.allreduce([t.half()])],
        "all_reduce of 4 int32 over doubling": [lambda: group.sum(t.int())],
        "all_reduce of 4 float64 over Gloo": [lambda: group.allreduce([t.double()]), lambda: group.sum(t.double())],
        "all_reduce of 4 float16 by MAX over Gloo": [lambda: group.allreduce([t.half()], _reduced_by(dist.ReduceOp.MAX))],
        "all_reduce of 5 float32 over doubling": [lambda: group.allreduce_coalesced([torch.ones(5)], dist.AllreduceCoalescedOptions())],
        "scaled_sum of 4 float32 over doubling": [lambda: group.allreduce([t], _reduced_by(dist._make_nccl_premul_sum(0.5)))],
        "broadcast of 4 float32 with root 0 over Gloo": [lambda: group.broadcast([t], dist.BroadcastOptions())],
        "all_gather of 4 float32 over Gloo": [lambda: group.allgather([[torch.ones(4)]], [t])],
        "all_gather_into_tensor of 4 float32 over Gloo": [
            lambda: group.all_gather_single(torch.ones(4), t), lambda: group.all_gather_single_coalesced([torch.ones(4)], [t])
        ],
        "reduce_scatter of 4 float64 over Gloo": [lambda: group.reduce_scatter([torch.ones(4).double()], [[t.double()]])],
        "reduce_scatter_tensor of 4 float64 over Gloo": [lambda: group.reduce_scatter_single(torch.ones(4).double(), t.double())],
        "reduce_scatter of 4 float32 over doubling": [
            lambda: group.reduce_scatter([torch.ones(4)], [[t]]), lambda: group.reduce_scatter_single(torch.ones(4), t),
            lambda: group.reduce_scatter_single_coalesced([torch.ones(4)], [t]),
        ],
        "all_to_all_single over Gloo": [lambda: group.all_to_all_single(torch.ones(4), t, [], [])],
        "all_to_all over Gloo": [lambda: group.alltoall([torch.ones(4)], [t], dist.AllToAllOptions())],
        "reduce of 4 float32 over doubling": [lambda: group.reduce([t], dist.ReduceOptions())],
        "reduce of 4 float64 with root 0 over Gloo": [lambda: group.reduce([t.double()], dist.ReduceOptions())],
        "gather with root 0 over Gloo": [lambda: group.gather([[torch.ones(4)]], [t], dist.GatherOptions())],
        "scatter with root 0 over Gloo": [lambda: group.scatter([torch.ones(4)], [[t]], dist.ScatterOptions())],
        "barrier over Gloo": [group.barrier],
    }  # fmt: skip
    expected = []
    for name, ways in calls.items():
        for call in ways:
            assert call().wait(), name
            expected.append(name)
    (file,) = tmp_path.iterdir()
    assert noted_calls(file.read_bytes()) == list(enumerate(expected, 1))
    group.shutdown()
    assert group.calls is None


def _reduced_by(op: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


class Noted:
    """Stands for the calls of a worker."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def note(self, call: str) -> None:
        self.calls.append(call)


def test_what_a_worker_does_alone_is_not_noted(tally: Tally) -> None:
    group = bare(collective=Doubling(), calls=Noted(), gloo=SimpleNamespace(send=lambda *given: given, recv=lambda *given: given))
    tensors = [torch.ones(2)]
    assert InaProcessGroup.send(group, tensors, 1, 0) == InaProcessGroup.recv(group, tensors, 1, 0) == (tensors, 1, 0)
    for operation in Operation:
        group.sum(torch.ones(2), Label("weights"), operation)
    assert group.calls.calls == ["all_reduce of 2 float32 over doubling"] * len(COLLECTIVE)
    assert len(group.channel.sums.waiting) == len(Operation) and tally.gloo_calls == 2


def test_sums_of_several_threads_start_in_the_order_in_which_they_are_noted() -> None:
    class Paused(Noted):
        def note(self, call: str) -> None:
            super().note(call)
            if len(self.calls) == 1:
                second.start()
                second.join(0.2)

    group = bare(collective=Doubling(), calls=Paused())
    second = threading.Thread(target=group.sum, args=(torch.ones(5),), daemon=True)
    group.sum(torch.ones(3))
    second.join()
    sizes = [group.channel.sums.waiting.get().tensor.numel() for _ in range(2)]
    assert [f"all_reduce of {size} float32 over doubling" for size in sizes] == group.calls.calls


def test_a_worker_that_notes_reads_the_others(tmp_path: Path) -> None:
    group = group_of_one(Options(place(), lambda: None, LaunchFiles(tmp_path)))
    assert isinstance(group.calls, Calls) and group._reason() is None
    group.shutdown()


# --- what is sampled


def test_a_sample_holds_what_was_given_also_where_the_sum_takes_its_place(tally: Tally) -> None:
    here = place(join=lambda *given: InPlace())
    group, tensor = group_of_one(Options(here, sampling=ScriptSampling(1))), torch.tensor([1.0, -3.0])
    assert group.allreduce([tensor]).wait()
    assert group.allreduce([torch.ones(1, dtype=torch.float16)]).wait()
    group.shutdown()
    assert tensor.tolist() == [2.0, -6.0]
    (first, second) = tally.samples
    assert first == (0, Sample([0, 1], [1.0, -3.0], 3.0, [2.0, -6.0]))
    assert second[0] == 1 and (second[1].given, second[1].got) == ([1.0], [2.0])


def test_what_a_worker_does_alone_is_not_sampled(tally: Tally) -> None:
    class Keeping(Doubling):
        operations = (Operation.SUM, Operation.CHANGE)

    here = place(join=lambda *given: Keeping())
    group = group_of_one(Options(here, sampling=ScriptSampling(1)))
    assert group.sum(torch.ones(2), Label("weights"), Operation.CHANGE).wait()
    assert group.allreduce([torch.ones(3)]).wait()
    group.shutdown()
    (only,) = tally.samples
    assert only[0] == 0 and only[1].got == [2.0] * 3
