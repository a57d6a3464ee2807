"""`torch.distributed.init_process_group("ina")`: SUM all-reduces over the network's scheme, everything else over Gloo.

Registered through the entry point `torch.backends`, so that a script needs no import. A script runs on the hosts of a
network by `inalab launch`, which tells each worker its place in the environment variable INALAB_PLACE.

A group is a ProcessGroup whose backend is Gloo, with all-reduce overridden. All-reduces of dense float32, float16 and int32
tensors by SUM go to one thread in the order of the calls, which is the same on all workers; several may be under way, as
DDP's buckets are. Other groups than the first of all workers are Gloo's alone.

Why every collective is overridden, also those that are only handed on: torch calls a group that is written in Python with the
interpreter's lock held, and would go on to Gloo's queue with it. A thread of Gloo that has done with a tensor waits for that
lock while it holds the queue's: neither would ever go on. Gloo's own Python methods release the lock first.
"""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions, BarrierOptions, PrefixStore, ReduceScatterOptions

from hosts.collective import AggregationError, Collective, Counters
from hosts.schemes import GLOO, Place, Pulse, join
from hosts.tcp import connections_from, count_segments

PLACE = "INALAB_PLACE"
joined: list[Place] = []  # the job that this process takes part in
SUMMED = (torch.float32, torch.float16, torch.int32)


@dataclass(frozen=True)
class Options:
    """What `init_process_group("ina", pg_options=…)` takes in place of the environment's INALAB_PLACE."""

    place: Place
    pulse: Pulse = lambda: None  # tells a reason to give up, see hosts.stream.Stream

    @classmethod
    def from_environment(cls) -> Options:
        """As `inalab launch` says it; raises RuntimeError where it does not."""
        if PLACE not in os.environ:
            raise RuntimeError('init_process_group("ina") needs a network: start the script with `inalab launch -- SCRIPT`')
        return cls(Place.loads(os.environ[PLACE]))


class PendingSum(dist.Work):
    """An all-reduce under way. DDP waits for its future, others for itself; both raise what went wrong."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.tensor = tensor
        self.error: Exception | None = None
        self.over = threading.Event()
        self.signal: torch.futures.Future[None] = torch.futures.Future()
        # a future that was given an exception holds it as a value, which DDP takes for a gradient; one whose callback
        # raises has failed
        self.future = self.signal.then(self._outcome)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return [self.tensor]

    def finish(self, error: Exception | None = None) -> None:
        """The sum is in the tensor, or there is none."""
        self.error = error
        self.over.set()
        self.signal.set_result(None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it is over; 0 is for as long as it takes. Raises AggregationError, or TimeoutError."""
        if not self.over.wait(timeout.total_seconds() or None):
            raise TimeoutError(f"an all-reduce was not over after {timeout.total_seconds():g} s")
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self) -> None:
        """See wait."""
        self.wait()

    def is_completed(self) -> bool:
        return self.over.is_set()

    def is_success(self) -> bool:
        return self.over.is_set() and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> list[torch.Tensor]:
        return [self.tensor]

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        return self.future


class PendingAll(dist.Work):
    """Several pieces of work that are waited for as one."""

    def __init__(self, pieces: list[dist.Work]) -> None:
        super().__init__()
        self.pieces = pieces

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until all are over; 0 is for as long as it takes."""
        for piece in self.pieces:
            piece.wait(timeout) if timeout else piece.wait()
        return True


class InaProcessGroup(dist.ProcessGroup):
    """Gloo, with sums over the scheme."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, options: Options) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg] # without a store of its own
        self.gloo: Any = dist.ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self.place = options.place
        self.collective = self._join(rank, size, options)
        self.waiting: queue.SimpleQueue[PendingSum | None] = queue.SimpleQueue()
        if self.collective is not None:
            self.thread = threading.Thread(target=self._sum_in_turn, args=(self.collective,), name="ina", daemon=True)
            self.thread.start()

    @staticmethod
    def _join(rank: int, size: int, options: Options) -> Collective | None:
        """The scheme for the first group of all workers; None for other groups, and where the scheme is Gloo itself.

        A worker takes part in its job once: a later group of all workers is Gloo's.
        """
        place = options.place
        if place.scheme == GLOO or size != place.membership.size or joined:
            return None
        if rank != place.membership.rank:
            raise RuntimeError(f"rank {rank} was given to the worker whose place in the network is {place.membership.rank}")
        joined.append(place)
        return join(place, options.pulse)

    def counters(self) -> Counters:
        """What the scheme has sent so far; for Gloo the segments of its connections over the data network."""
        if self.collective is not None:
            return self.collective.counters
        counted = Counters()
        connections = connections_from(self.place.peers[self.place.membership.rank])
        count_segments(counted, connections)
        for connection in connections:
            connection.close()
        return counted

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "ina"

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_reduce."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        if self.collective is None or len(given) != 1 or op != dist.ReduceOp.SUM or not _summable(given[0]):
            return self.gloo.allreduce(given, opts) if opts is not None else self.gloo.allreduce(given)
        pending = PendingSum(given[0])
        self.waiting.put(pending)
        return pending

    def allreduce_coalesced(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_reduce_coalesced."""
        return self.gloo.allreduce_coalesced(tensors, opts)

    def broadcast(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.broadcast."""
        return self.gloo.broadcast(tensors, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather."""
        return self.gloo.allgather(outputs, inputs, opts or AllgatherOptions())

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.all_gather_into_tensor at once."""
        pairs = zip(outputs, inputs, strict=True)
        return PendingAll([self.gloo._allgather_base(o, i, opts or AllgatherOptions()) for o, i in pairs])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce_scatter."""
        return self.gloo.reduce_scatter(outputs, inputs, opts or ReduceScatterOptions())

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.reduce_scatter_tensor at once."""
        pairs = zip(outputs, inputs, strict=True)
        return PendingAll([self.gloo._reduce_scatter_base(o, i, opts or ReduceScatterOptions()) for o, i in pairs])

    def all_to_all_single(self, output: Any, given: Any, out_sizes: Any, sizes: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_to_all_single."""
        return self.gloo.alltoall_base(output, given, out_sizes, sizes, opts or AllToAllOptions())

    def send(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.send."""
        return self.gloo.send(tensors, rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.recv."""
        return self.gloo.recv(tensors, rank, tag)

    def barrier(self, opts: Any = None) -> Any:
        """See torch.distributed.barrier."""
        return self.gloo.barrier(opts or BarrierOptions())

    def _sum_in_turn(self, collective: Collective) -> None:
        """The thread: one sum after another. After one that failed the stream is broken, and the others fail likewise."""
        broken: Exception | None = None
        while (pending := self.waiting.get()) is not None:
            try:
                if broken is not None:
                    raise broken
                _sum(collective, pending.tensor)
            except Exception as error:
                broken = error if isinstance(error, AggregationError) else AggregationError(f"{type(error).__name__}: {error}")
                pending.finish(broken)
            else:
                pending.finish()
        collective.close()

    def shutdown(self) -> None:
        """End the thread and the scheme, once what is under way is over."""
        if self.collective is not None:
            self.waiting.put(None)
            self.thread.join(timeout=5)
            self.collective = None
            joined.clear()


def _summable(tensor: torch.Tensor) -> bool:
    return tensor.dtype in SUMMED and tensor.layout == torch.strided and tensor.device.type == "cpu"


def _sum(collective: Collective, tensor: torch.Tensor) -> None:
    """All-reduce in place. float16 is summed as float32 and keeps its dtype."""
    with torch.no_grad():
        values = tensor.detach().float() if tensor.dtype == torch.float16 else tensor.detach()
        total = collective.all_reduce(values.contiguous().numpy())
        tensor.copy_(torch.from_numpy(total).view_as(tensor))


def _create(given: Any, options: Options | None) -> InaProcessGroup:
    return InaProcessGroup(given.store, given.group_rank, given.group_size, given.timeout, options or Options.from_environment())


def register() -> None:
    """What torch calls when it is imported."""
    if "ina" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ina", _create, extended_api=True, devices=["cpu"])
