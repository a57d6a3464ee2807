"""The group of torch's backend `ina` as far as Gloo carries its collectives.

Why every collective is overridden, also those that are only handed on: torch calls a group that is written in Python with the
interpreter's lock held, and would go on to Gloo's queue with it. A thread of Gloo that has done with a tensor waits for that
lock while it holds the queue's: neither would ever go on. Gloo's own Python methods release the lock first.

Gloo gets dense copies of strided tensors (hosts.dense). It does not compare what workers call, so that is done here, with notes: by
the last worker that comes, before Gloo begins, and by each when its call is over or has failed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    GatherOptions,
    PrefixStore,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

from inalab.hosts.calls import Calls
from inalab.hosts.dense import dense_ones, flat
from inalab.hosts.pending import Followed, PendingAll
from inalab.hosts.reductions import write
from inalab.hosts.tally import tally
from inalab.hosts.virtual_script import Meeting, PendingMessage, Simulation, current

LOOK = 1.0  # seconds between two looks at what others call, while Gloo waits for them


class GlooGroup(dist.ProcessGroup):
    """Gloo. Calls are noted for the other workers, where somebody reads them, and counted."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, ranks: tuple[int, ...], simulation: Simulation | None
    ) -> None:  # fmt: skip
        """`ranks` are its workers' among all."""
        super().__init__(rank, size)  # type: ignore[call-arg] # without a store of its own
        self.ranks, self.simulation, self.timeout = ranks, simulation, timeout.total_seconds()
        self.calls: Calls | None = None
        self.by_gloo: Calls | None = None  # those that Gloo carries, in an order of their own
        if simulation is not None:
            simulation.ask(Meeting(ranks))
        self.gloo: Any = dist.ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_reduce."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        return _timed(lambda: self._carried("all_reduce", "allreduce", (given,), opts or AllreduceOptions()))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_reduce_coalesced: each tensor has its own carrier."""
        each = options(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        return PendingAll([self.allreduce([tensor], each) for tensor in tensors])

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """See torch.distributed.reduce_scatter_tensor."""
        return self._carried("reduce_scatter_tensor", "_reduce_scatter_base", (output, given), opts or ReduceScatterOptions())

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.reduce_scatter_tensor at once."""
        return PendingAll([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce_scatter."""
        return self._carried("reduce_scatter", "reduce_scatter", (outputs, inputs), opts or ReduceScatterOptions())

    def broadcast(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.broadcast."""
        return self._carried("broadcast", "broadcast", (tensors,), opts, writes=opts.rootRank != self.rank())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather."""
        return self._carried("all_gather", "allgather", (outputs, inputs), opts or AllgatherOptions())

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.all_gather_into_tensor at once."""
        return PendingAll([self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)])

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather_into_tensor."""
        return self._carried("all_gather_into_tensor", "_allgather_base", (output, given), opts or AllgatherOptions())

    def all_to_all_single(self, output: Any, given: Any, out_sizes: Any, sizes: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_to_all_single."""
        return self._carried("all_to_all_single", "alltoall_base", (output, given), out_sizes, sizes, opts or AllToAllOptions())

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_to_all."""
        return self._carried("all_to_all", "alltoall", (outputs, inputs), opts or AllToAllOptions())

    def reduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce."""
        opts = opts or ReduceOptions()
        return self._carried("reduce", "reduce", (tensors,), opts, writes=opts.rootRank == self.rank())

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.gather."""
        return self._carried("gather", "gather", (outputs, inputs), opts or GatherOptions())

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.scatter."""
        return self._carried("scatter", "scatter", (outputs, inputs), opts or ScatterOptions())

    def barrier(self, opts: Any = None) -> Any:
        """See torch.distributed.barrier."""
        return self._carried("barrier", "barrier", (), opts or BarrierOptions())

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """See torch.distributed.monitored_barrier."""
        self._noted("monitored_barrier", (), None)
        self.gloo.monitored_barrier(timeout or timedelta(seconds=self.timeout), wait_all_ranks)

    def send(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.send."""
        return self._message(lambda: self._carried("", "send", (tensors,), rank, tag, writes=False), self.rank(), rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.recv."""
        return self._message(lambda: self._carried("", "recv", (tensors,), rank, tag), rank, self.rank(), tag)

    def recv_anysource(self, tensors: Any, tag: int) -> Any:
        """See torch.distributed.recv without a source."""
        if self.simulation is not None:
            raise RuntimeError("in virtual time, recv has to name the worker that it receives from")
        return self._carried("", "recv_anysource", (tensors,), tag)

    def _message(self, carry: Callable[[], Any], source: int, to: int, tag: int) -> Any:
        """One of Gloo's from a worker to another, by their ranks in this group."""
        if self.simulation is None:
            return carry()
        message = self.simulation.announce(self.ranks[source], self.ranks[to], tag, self.ranks)
        return PendingMessage(carry(), self.simulation, message)

    def _carried(self, call: str, method: str, tensors: tuple[Any, ...], *options: Any, writes: bool = True) -> Any:
        """Have Gloo carry a call by one of its methods. The first tensors are those it `writes` to, the last are those given."""
        differ = self._noted(call, tensors[-1:], options[-1] if options else None)
        pairs = [dense_ones(each) for each in tensors]
        work, back = getattr(self.gloo, method)(*(dense for dense, _ in pairs), *options), pairs[0][1] if pairs and writes else []
        if not back and differ is None:
            return work

        def give_back() -> None:
            for own, copy in back:
                write(own, copy)

        result = flat(tensors[0]) if tensors else []
        return Compared(work, give_back, result, differ, self._failed) if differ else Followed(work, give_back, result)

    def _noted(self, call: str, given: tuple[Any, ...], options: Any) -> Callable[[], str | None] | None:
        """Gloo carries a call with these tensors; "" is one of a worker alone. What tells how the workers differ in it, if that can
        be known; RuntimeError if they do so already."""
        tally.left_to_gloo(given)
        if self.simulation is not None and call:
            self.simulation.ask(Meeting(self.ranks))
        if not call:
            return None
        what = described(call, flat(given), options, self.ranks)
        if self.calls:
            self.calls.note(what)
        if self.by_gloo is None:
            return None
        differ = partial(self.by_gloo.unlike, self.by_gloo.note(what))
        if difference := differ():
            raise RuntimeError(difference)
        return differ

    def _failed(self) -> str | None:
        """One of the workers may have given to the scheme what another one has given to Gloo."""
        return self.calls.difference(quiet=0) if self.calls else None


class Compared(Followed):
    """Work of Gloo's whose call is compared with the other workers' once it is over, or has failed."""

    def __init__(
        self, work: Any, follow: Callable[[], None], result: list[torch.Tensor], differ: Callable[[], str | None],
        failed: Callable[[], str | None],
    ) -> None:  # fmt: skip
        """`differ` tells how the workers differ in the call, `failed` how they may differ otherwise, once it has failed."""
        super().__init__(work, self._compare, result)
        self.then, self.differ, self.failed = follow, differ, failed

    def _compare(self) -> None:
        if difference := self.differ():
            raise RuntimeError(difference)
        self.then()

    def _over(self) -> threading.Event:
        """What happens when Gloo's work is over. Its reduce-scatters have no future: only who waits learns that they are over."""
        over = threading.Event()

        def wait() -> None:
            with suppress(Exception):  # which the next one who waits gets, too
                self.work.wait()
            over.set()

        try:
            self.work.get_future().add_done_callback(lambda _: over.set())
        except RuntimeError:
            threading.Thread(target=wait, daemon=True).start()
        return over

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """See Followed. While a worker that makes another call is waited for, this raises within seconds."""
        until = time.monotonic() + timeout.total_seconds() if timeout else math.inf
        over = self._over()
        while not over.wait(min(LOOK, until - time.monotonic())) and time.monotonic() < until:
            if difference := self.differ():
                raise RuntimeError(difference)
        left = timedelta(seconds=max(until - time.monotonic(), 0.001)) if timeout else timeout
        try:
            return super().wait(left)
        except RuntimeError as error:
            if difference := self.differ() or self.failed():
                raise RuntimeError(difference) from error
            raise


def options(op: Any) -> AllreduceOptions:
    """Of an all-reduce by this operation."""
    made = AllreduceOptions()
    made.reduceOp = op
    return made


def _timed(all_reduce: Callable[[], Any]) -> Any:
    """Begin an all-reduce of Gloo's, and tally how long it takes, where that is not in virtual time.

    Whoever ends it calls back: this thread, or one of Gloo's, which holds no lock of its queue while it waits for Python's.
    """
    begun = time.monotonic()
    work = all_reduce()
    if current:
        return work
    work.get_future().add_done_callback(lambda _: tally.gloo_seconds.append(time.monotonic() - begun))
    return work


ALIKE = ("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor")


def described(call: str, given: list[torch.Tensor], options: Any, ranks: tuple[int, ...]) -> str:
    """A call of Gloo's, as a note: all that has to be the same on all workers."""
    words = [call]
    if call in ALIKE and given:
        dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in given})
        words.append(f"of {sum(tensor.numel() for tensor in given)} {' '.join(dtypes)}")
    op = getattr(options, "reduceOp", None)
    if op is not None and op != dist.ReduceOp.SUM:
        words.append(f"by {getattr(op, 'op', op).name}")
    if (root := getattr(options, "rootRank", None)) is not None:
        words.append(f"with root {ranks[root] if 0 <= root < len(ranks) else root}")
    return " ".join([*words, "over Gloo"])
