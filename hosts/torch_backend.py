"""`torch.distributed.init_process_group("ina")`: SUM all-reduces over the network's scheme, everything else over Gloo.

Registered through the entry point `torch.backends`, so that a script needs no import. A script runs on the hosts of a
network by `inalab launch`, which tells each worker its place in the environment variable INALAB_PLACE.

A group is a ProcessGroup whose backend is Gloo, with all-reduce overridden. All-reduces of dense float32, float16 and int32
tensors by SUM go to one thread in the order of the calls, which is the same on all workers; several may be under way, as
DDP's buckets are. One group of all workers at a time has the scheme, the first that is made; when it is destroyed, the next
one that is made has it, with an epoch of its own. Groups of some workers, and further groups of all, are Gloo's alone.

Why every collective is overridden, also those that are only handed on: torch calls a group that is written in Python with the
interpreter's lock held, and would go on to Gloo's queue with it. A thread of Gloo that has done with a tensor waits for that
lock while it holds the queue's: neither would ever go on. Gloo's own Python methods release the lock first.

Why stores are kept, and groups counted: torch gives a group that is made after destroy_process_group() the name of the one
before. If rank 0 still holds the old store, others find the old group's keys in the new one; if it does not, those who are
early find no store, or lose the connection. So the store stays for as long as the process, and each group has keys of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions, BarrierOptions, PrefixStore, ReduceScatterOptions

from inalab.hosts.calls import Calls
from inalab.hosts.collective import UNNAMED, Collective, Counters, Label, Operation
from inalab.hosts.epoch import NONE, draw
from inalab.hosts.in_turn import COLLECTIVE, InTurn
from inalab.hosts.launch_files import LaunchFiles
from inalab.hosts.pending import PendingAll
from inalab.hosts.place import Place, Pulse
from inalab.hosts.sampling import ScriptSampling
from inalab.hosts.tally import tally
from inalab.hosts.tcp.connection import count_segments
from inalab.hosts.tcp.kernel import connections_from
from inalab.hosts.virtual_script import VARIABLE as VIRTUAL
from inalab.hosts.virtual_script import Meeting, PendingMessage, SimulatedSums, Simulation, current

PLACE = "INALAB_PLACE"
joined: list[InaProcessGroup] = []  # the group of this process that has the scheme
stores: list[Any] = []  # of all groups so far
made: Counter[tuple[str, tuple[int, ...]]] = Counter()  # groups by name and ranks
ENDING = 5.0  # seconds that sums under way may take when a group is destroyed
SUMMED = (torch.float32, torch.float16, torch.int32)


@dataclass(frozen=True)
class Options:
    """What `init_process_group("ina", pg_options=…)` takes in place of the environment's INALAB_PLACE."""

    place: Place
    pulse: Pulse = None  # tells a reason to give up, see hosts.drivers.stream
    notes: LaunchFiles | None = None  # where the workers note their calls for each other, see hosts.calls
    sampling: ScriptSampling | None = None  # of the sums that are compared with what was given, see hosts.sampling
    simulation: Simulation | None = None  # in virtual time

    @classmethod
    def from_environment(cls) -> Options:
        """As `inalab launch` says it; raises RuntimeError where it does not."""
        if PLACE not in os.environ:
            raise RuntimeError('init_process_group("ina") needs a network: start the script with `inalab launch -- SCRIPT`')
        if VIRTUAL in os.environ and not current:
            raise RuntimeError("a process that a script starts itself has no part in virtual time: choose another --target")
        notes = LaunchFiles.from_environment()
        return cls(
            Place.loads(os.environ[PLACE]),
            notes.reason,
            notes if notes.folder.is_dir() else None,
            ScriptSampling.from_environment(),
            current[0] if current else None,
        )


class InaProcessGroup(dist.ProcessGroup):
    """Gloo, with sums over the scheme."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, options: Options, ranks: tuple[int, ...] = ()
    ) -> None:  # fmt: skip
        """`ranks` are its workers' among all, where it is a group of some."""
        super().__init__(rank, size)  # type: ignore[call-arg] # without a store of its own
        self.ranks, self.simulation = ranks or tuple(range(size)), options.simulation
        if self.simulation is not None:
            self.simulation.ask(Meeting(self.ranks))
        self.gloo: Any = dist.ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self.place = options.place
        self.pulse, self.timeout = options.pulse, timeout.total_seconds()
        self.sums: InTurn | SimulatedSums | None = None
        self.turn = threading.Lock()  # a script's threads note their sums in the order in which they start
        self.calls: Calls | None = None
        self.collective: Collective | SimulatedSums | None = None
        if self._has_scheme(store, options):
            self._join(options)

    def _has_scheme(self, store: Any, options: Options) -> bool:
        """Whether it is a group of all workers while no other has the scheme; else it is Gloo's alone."""
        place, rank, size = self.place, self.rank(), self.size()
        if place.scheme.native or size != place.membership.size:
            return False
        if rank != place.membership.rank:
            raise RuntimeError(f"rank {rank} was given to the worker whose place in the network is {place.membership.rank}")
        self.epoch = _agree(PrefixStore("ina", store), rank, size, not joined)
        return self.epoch != NONE

    def _join(self, options: Options) -> None:
        """Take part in the scheme."""
        joined.append(self)
        if options.notes is not None:
            self.calls = Calls(options.notes.folder, self.epoch, self.rank(), self.size())
        if options.simulation is not None:
            self.collective = self.sums = SimulatedSums(options.simulation, options.sampling)
            return
        try:
            self.collective = self.place.scheme.join(self.place, self.epoch, self._reason if options.pulse else None)
        except BaseException:
            self._leave()
            raise
        self.sums = InTurn(self.collective, self.place.driver, options.sampling)
        self.sums.begin()

    def _reason(self) -> str | None:
        """A reason to give up: somebody's, calls that differ, or a sum longer than the group's timeout, which Gloo keeps itself."""
        if self.pulse and (reason := self.pulse()):
            return reason
        if (calls := self.calls) and (difference := calls.difference()):
            return difference
        oldest = next(iter(self.sums.under_way), None) if self.sums else None
        if oldest and time.monotonic() - oldest.started > self.timeout:
            return f"it was not over after {self.timeout:g} s, the timeout of the group"
        return None

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
            gloo = self._noted(_described(given[0]) if len(given) == 1 else "all_reduce", self.gloo, given)
            return _timed(gloo.allreduce, given, *([opts] if opts is not None else []))
        return self.sum(given[0])

    def sum(self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM) -> Any:
        """Begin to sum a tensor over all workers, in its place, as all_reduce(async_op=True) does; where sums are Gloo's, the
        label counts for nothing, and there is no other operation."""
        if self.sums is None or self.collective is None or not _summable(tensor):
            if operation != Operation.SUM:
                raise ValueError(f"Gloo sums, and keeps nothing: it has no {operation.name}")
            return _timed(self._noted(_described(tensor), self.gloo, [tensor]).allreduce, [tensor])
        with self.turn:
            if self.calls and operation in COLLECTIVE:
                self.calls.note(_described(tensor, self.place.scheme.name))
            return self.sums.sum(tensor, label, operation)

    def allreduce_coalesced(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_reduce_coalesced."""
        return self._noted("all_reduce_coalesced", self.gloo, tensors).allreduce_coalesced(tensors, opts)

    def broadcast(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.broadcast."""
        return self._noted("broadcast", self.gloo, tensors).broadcast(tensors, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather."""
        return self._noted("all_gather", self.gloo, inputs).allgather(outputs, inputs, opts or AllgatherOptions())

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.all_gather_into_tensor at once."""
        gloo, pairs = self._noted("all_gather_into_tensor", self.gloo, inputs), zip(outputs, inputs, strict=True)
        return PendingAll([gloo._allgather_base(o, i, opts or AllgatherOptions()) for o, i in pairs])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce_scatter."""
        return self._noted("reduce_scatter", self.gloo, inputs).reduce_scatter(outputs, inputs, opts or ReduceScatterOptions())

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several of torch.distributed.reduce_scatter_tensor at once."""
        gloo, pairs = self._noted("reduce_scatter_tensor", self.gloo, inputs), zip(outputs, inputs, strict=True)
        return PendingAll([gloo._reduce_scatter_base(o, i, opts or ReduceScatterOptions()) for o, i in pairs])

    def all_to_all_single(self, output: Any, given: Any, out_sizes: Any, sizes: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_to_all_single."""
        gloo = self._noted("all_to_all_single", self.gloo, given)
        return gloo.alltoall_base(output, given, out_sizes, sizes, opts or AllToAllOptions())

    def send(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.send."""
        return self._message(lambda: self._noted("", self.gloo, tensors).send(tensors, rank, tag), self.rank(), rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int) -> Any:
        """See torch.distributed.recv."""
        return self._message(lambda: self._noted("", self.gloo, []).recv(tensors, rank, tag), rank, self.rank(), tag)

    def recv_anysource(self, tensors: Any, tag: int) -> Any:
        """See torch.distributed.recv without a source."""
        if self.simulation is not None:
            raise RuntimeError("in virtual time, recv has to name the worker that it receives from")
        return self._noted("", self.gloo, []).recv_anysource(tensors, tag)

    def _message(self, carry: Callable[[], Any], source: int, to: int, tag: int) -> Any:
        """One of Gloo's from a worker to another, by their ranks in this group."""
        if self.simulation is None:
            return carry()
        message = self.simulation.announce(self.ranks[source], self.ranks[to], tag, self.ranks)
        return PendingMessage(carry(), self.simulation, message)

    def barrier(self, opts: Any = None) -> Any:
        """See torch.distributed.barrier."""
        return self._noted("barrier", self.gloo, []).barrier(opts or BarrierOptions())

    # the following release the lock by themselves: they are only noted

    def all_gather_single(self, output: Any, given: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_gather_into_tensor."""
        return self._noted("all_gather_into_tensor", super(), given).all_gather_single(output, given, *options, **named)

    def reduce_scatter_single(self, output: Any, given: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce_scatter_tensor."""
        return self._noted("reduce_scatter_tensor", super(), given).reduce_scatter_single(output, given, *options, **named)

    def reduce(self, tensors: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce."""
        return self._noted("reduce", super(), tensors).reduce(tensors, *options, **named)

    def gather(self, outputs: Any, inputs: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.gather."""
        return self._noted("gather", super(), inputs).gather(outputs, inputs, *options, **named)

    def scatter(self, outputs: Any, inputs: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.scatter."""
        return self._noted("scatter", super(), inputs).scatter(outputs, inputs, *options, **named)

    def alltoall(self, outputs: Any, inputs: Any, *options: Any, **named: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_to_all."""
        return self._noted("all_to_all", super(), inputs).alltoall(outputs, inputs, *options, **named)

    def _noted(self, call: str, carrier: Any, tensors: Any) -> Any:
        """What carries a call with these tensors, Gloo or torch's own way to it, once it is noted; "" is one of a worker alone."""
        tally.left_to_gloo(tensors)
        if self.simulation is not None and call:
            self.simulation.ask(Meeting(self.ranks))
        if self.calls and call:
            self.calls.note(call)
        return carrier

    def shutdown(self) -> None:
        """End the thread and the scheme, once what is under way is over."""
        if self.sums is not None and self.collective is not None:
            self.sums.end(ENDING)
            tally.count(self.collective.counters)
            self.collective = None
            self._leave()

    def _leave(self) -> None:
        """The next group of all workers may have the scheme."""
        joined.clear()
        if self.calls:
            self.calls.close()
            self.calls = None


def _timed(all_reduce: Callable[..., Any], *given: Any) -> Any:
    """Begin an all-reduce of Gloo's, and tally how long it takes, where that is not in virtual time.

    Whoever ends it calls back: this thread, or one of Gloo's, which holds no lock of its queue while it waits for Python's.
    """
    begun = time.monotonic()
    work = all_reduce(*given)
    if current:
        return work
    work.get_future().add_done_callback(lambda _: tally.gloo_seconds.append(time.monotonic() - begun))
    return work


def _agree(store: Any, rank: int, size: int, free: bool) -> int:
    """The epoch of a new group of all workers, the same on all of them; none if the scheme is in use on one of them."""
    store.set(f"free/{rank}", str(int(free)))
    if rank == 0:
        all_free = all(int(store.get(f"free/{other}")) for other in range(size))
        store.set("epoch", str(draw() if all_free else NONE))
    return int(store.get("epoch"))


def _described(tensor: torch.Tensor, carrier: str = "Gloo") -> str:
    """An all-reduce of it, as a note. A scheme sums float16 as float32: the two are one call."""
    dtype = torch.float32 if tensor.dtype == torch.float16 and carrier != "Gloo" else tensor.dtype
    return f"all_reduce of {tensor.numel()} {str(dtype).removeprefix('torch.')} over {carrier}"


def _summable(tensor: torch.Tensor) -> bool:
    return tensor.dtype in SUMMED and tensor.layout == torch.strided and tensor.device.type == "cpu"


def leave_tally() -> None:
    """Leave word for the launcher of what the collectives of this process used."""
    for group in joined:  # which was not destroyed
        tally.count(group.counters())
    tally.leave()


def create(given: Any, options: Options | None) -> InaProcessGroup:
    """A group, for torch: `given` are its DistributedBackendOptions."""
    ranks = tuple(given.global_ranks_in_group)
    identity = given.group_id, ranks
    made[identity] += 1
    stores.append(given.store)
    store = PrefixStore(f"{made[identity]}", given.store)
    options = options or Options.from_environment()
    return InaProcessGroup(store, given.group_rank, given.group_size, given.timeout, options, ranks)
