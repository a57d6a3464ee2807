"""`torch.distributed.init_process_group("ina")`: sums over the network's scheme, everything else over Gloo.

Registered through the entry point `torch.backends`, so that a script needs no import. A script runs on the hosts of a
network by `inalab launch`, which tells each worker its place in the environment variable INALAB_PLACE.

A group is a ProcessGroup whose backend is Gloo (hosts.gloo_group). All-reduces that the scheme can carry (hosts.reductions), and
reduce-scatters, which are all-reduces of which each worker keeps a part, go to one thread in the order of the calls, which is the
same on all workers; several may be under way, as DDP's buckets are. The first group of all workers has the job's part of the
switches; when it is destroyed, the next one that is made has it, with an epoch of its own. Groups of some workers, and further
groups of all, have parts of their own where the scheme admits them while the network runs (hosts.groups). Others are Gloo's alone.

Why stores are kept, and groups counted: torch gives a group that is made after destroy_process_group() the name of the one
before. If rank 0 still holds the old store, others find the old group's keys in the new one; if it does not, those who are
early find no store, or lose the connection. So the store stays for as long as the process, and each group has keys of its own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from secrets import token_hex
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ReduceOptions, ReduceScatterOptions

from inalab.hosts.calls import Calls
from inalab.hosts.channel import Channel
from inalab.hosts.collective import UNNAMED, Call, Counters, Label, Operation
from inalab.hosts.combined import combination, kind
from inalab.hosts.copies import COPY, Copy, carried
from inalab.hosts.epoch import NONE, draw
from inalab.hosts.gloo_group import GlooGroup
from inalab.hosts.groups import Formation, GroupControl, LaunchedGroups
from inalab.hosts.in_turn import COLLECTIVE
from inalab.hosts.launch_files import LaunchFiles
from inalab.hosts.pending import Combined, Followed, Gathered, Part, PendingSum
from inalab.hosts.place import Place, Pulse
from inalab.hosts.reductions import FLOATS, PLAIN, Reduction, reduction, write
from inalab.hosts.sampling import ScriptSampling
from inalab.hosts.tally import tally
from inalab.hosts.tcp.connection import count_segments
from inalab.hosts.tcp.kernel import connections_from
from inalab.hosts.virtual_script import VARIABLE as VIRTUAL
from inalab.hosts.virtual_script import Simulation, current

PLACE = "INALAB_PLACE"
log = logging.getLogger("inalab")
joined: list[InaProcessGroup] = []  # the groups of this process that have the scheme
stores: list[Any] = []  # of all groups so far
told: list[Options] = []  # to the first group, which groups have that are made beside it
made: Counter[tuple[str, tuple[int, ...]]] = Counter()  # groups by name and ranks
ENDING = 5.0  # seconds that sums under way may take when a group is destroyed


@dataclass(frozen=True)
class Options:
    """What `init_process_group("ina", pg_options=…)` takes in place of the environment's INALAB_PLACE."""

    place: Place
    pulse: Pulse = None  # tells a reason to give up, see hosts.drivers.stream
    notes: LaunchFiles | None = None  # where the workers note their calls for each other, see hosts.calls
    sampling: ScriptSampling | None = None  # of the sums that are compared with what was given, see hosts.sampling
    simulation: Simulation | None = None  # in virtual time
    groups: GroupControl | None = None  # who admits groups of some workers
    timeout: timedelta | None = None  # of groups whose own is longer
    apart: bool = False  # no group has the job's part of the switches

    @classmethod
    def from_environment(cls) -> Options:
        """As `inalab launch` says it; raises RuntimeError where it does not."""
        if PLACE not in os.environ:
            raise RuntimeError('init_process_group("ina") needs a network: start the script with `inalab launch -- SCRIPT`')
        if VIRTUAL in os.environ and not current:
            raise RuntimeError("a process that a script starts itself has no part in virtual time: choose another --target")
        notes, simulation = LaunchFiles.from_environment(), current[0] if current else None
        shared = notes.folder.is_dir()
        return cls(
            Place.loads(os.environ[PLACE]),
            notes.reason,
            notes if shared else None,
            ScriptSampling.from_environment(),
            simulation,
            simulation or (LaunchedGroups(notes.folder) if shared else None),
        )


class InaProcessGroup(GlooGroup):
    """Gloo, with sums over the scheme, and copies where it has them."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, options: Options, ranks: tuple[int, ...] = (), name: str = ""
    ) -> None:  # fmt: skip
        """`ranks` are its workers' among all, where it is a group of some. `name` is its own, the same on all of them."""
        super().__init__(store, rank, size, timeout, ranks or tuple(range(size)), options.simulation)
        self.options, self.place = options, options.place
        self.turn = threading.Lock()  # a script's threads note their calls in the order in which they start
        self.begun: list[tuple[Channel, PendingSum]] = []  # and may not be over
        self.own = False  # its part of the switches is not the job's
        self.channel: Channel | None = None  # for sums
        self.copying: Channel | None = None  # for all-gathers and broadcasts, which no sum holds up
        if self.place.scheme.native:
            return
        if options.notes is not None and name:
            self.by_gloo = Calls(options.notes.folder, f"gloo-{drawn(PrefixStore('notes', store), rank)}", rank, self.ranks)
        if self._has_job(store) or self._has_own(name):
            self._join(name)

    def _has_job(self, store: Any) -> bool:
        """Whether it is a group of all workers while no other has the job's part of the switches."""
        member, rank, size = self.place.membership, self.rank(), self.size()
        if size != member.size or self.options.apart:
            return False
        if rank != member.rank:
            raise RuntimeError(f"rank {rank} was given to the worker whose place in the network is {member.rank}")
        self.epoch = _agree(PrefixStore("ina", store), rank, size, all(other.own for other in joined))
        self.own = self.epoch == NONE
        return not self.own

    def _has_own(self, name: str) -> bool:
        """Whether it has a part of its own."""
        self.own = True
        if self.size() == 1 or (channel := self._formed(name, "sums")) is None:
            return False
        self.channel, self.place, self.epoch = channel, channel.place, channel.epoch
        return True

    def _formed(self, name: str, what: str) -> Channel | None:
        """A way to a part of the switches that is admitted for what this group does; None where there is none."""
        options = self.options
        if options.groups is None or not name:
            return None
        formation = Formation(f"{name} {what}", self.ranks, self.rank())
        found = options.groups.form(formation)
        if found.refusal:
            if self.rank() == 0:
                who = ", ".join(map(str, self.ranks))
                log.warning("%s of workers %s have no part of the switches of their own: %s", what, who, found.refusal)
            return None
        pulse = self._reason if options.pulse else None
        return Channel(Place.loads(found.place), found.epoch, pulse, None, options.simulation, formation, options.groups)

    def _join(self, name: str) -> None:
        """Take part in the scheme."""
        options = self.options
        joined.append(self)
        if options.notes is not None:
            self.calls = Calls(options.notes.folder, self.epoch, self.rank(), self.ranks)
        try:
            if self.channel is None:
                pulse = self._reason if options.pulse else None
                self.channel = Channel(self.place, self.epoch, pulse, options.sampling, options.simulation)
            if options.groups is not None and self.channel.has(Operation.GATHER):
                at_once = None if options.simulation else self._formed(name, "all-gathers and broadcasts")
                self.copying = at_once or self.channel
        except BaseException:
            for channel in self._channels():
                channel.end(ENDING)
            self._leave()
            raise

    def _reason(self) -> str | None:
        """A reason to give up: somebody's, calls that differ, or a sum longer than the group's timeout, which Gloo keeps itself."""
        if self.options.pulse and (reason := self.options.pulse()):
            return reason
        if self.own and self.options.notes and (reason := self.options.notes.broken(self.epoch)):
            return reason
        if (calls := self.calls) and (difference := calls.difference()):
            return difference
        oldest = [next(iter(channel.sums.under_way), None) for channel in self._channels()]
        if any(one and time.monotonic() - one.started > self.timeout for one in oldest):
            differ = self.calls.difference(quiet=0) if self.calls else None
            return differ or f"it was not over after {self.timeout:g} s, the timeout of the group"
        return None

    def counters(self) -> Counters:
        """What the scheme has sent so far; for Gloo the segments of its connections over the data network."""
        if self.channel is not None:
            return sum((channel.collective.counters for channel in self._channels()), Counters())
        counted = Counters()
        connections = connections_from(self.place.peers[self.place.membership.rank])
        count_segments(counted, connections)
        for connection in connections:
            connection.close()
        return counted

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "ina"

    # --- sums

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.all_reduce."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        how = self._how(given[0], op) if len(given) == 1 else None
        if how is not None:
            return self._summed(given[0], how, label_of(given[0], how, how.call))
        combine = combination(given[0], op) if self.copying and len(given) == 1 else None
        if combine is None:
            return super().allreduce(given, opts)
        label = copying(Call.COMBINE, given[0], kind(given[0], op))
        return self._copied(given[0], label, Operation.GATHER, Combined(given[0], combine))

    def _how(self, tensor: torch.Tensor, op: Any) -> Reduction | None:
        """How the scheme sums this; None where Gloo has to."""
        return None if self.channel is None else reduction(tensor, op, self.size())

    def sum(self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM) -> Any:
        """Begin to sum a tensor over all workers, in its place, as all_reduce(async_op=True) does; where sums are Gloo's, the
        label counts for nothing, and there is no other operation."""
        if self._how(tensor, dist.ReduceOp.SUM) is None:
            if operation != Operation.SUM:
                raise ValueError(f"Gloo has no operation {operation.name}")
            return super().allreduce([tensor])
        return self._summed(tensor, PLAIN, label, operation)

    def _summed(
        self, tensor: torch.Tensor, how: Reduction, label: Label, operation: Operation = Operation.SUM,
        part: Part | Gathered | None = None,
    ) -> Any:  # fmt: skip
        call = described(tensor, self.place.scheme.name, label.call) if operation in COLLECTIVE else ""
        return self._begun(self.channel, call, tensor, label, operation, how, part)

    def _begun(
        self, channel: Channel | None, call: str, tensor: torch.Tensor, label: Label, operation: Operation, how: Reduction | Copy,
        part: Any,
    ) -> Any:  # fmt: skip
        """Begin a call of this group's, and note it for the other workers; "" is one of a worker alone."""
        assert channel is not None
        with self.turn:
            if self.calls and call:
                self.calls.note(call)
            self.begun = [one for one in self.begun if not one[1].is_completed()]
            of_others = [pending for other, pending in self.begun if other is not channel]
            pending = channel.sums.sum(tensor, label, operation, how, part, of_others)
            self.begun.append((channel, pending))
            return pending

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """See torch.distributed.reduce_scatter_tensor. The scheme sums all of it, and each worker keeps its part."""
        opts = opts or ReduceScatterOptions()
        how = self._how(given, opts.reduceOp)
        if how is None or given.numel() != self.size() * output.numel() or given.dtype != output.dtype:
            return super().reduce_scatter_single(output, given, opts)
        return self._kept(output, given, how)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce_scatter."""
        opts = opts or ReduceScatterOptions()
        alike = len(outputs) == 1 and len(inputs[0]) == self.size()
        if not alike or any(one.shape != outputs[0].shape or one.dtype != outputs[0].dtype for one in inputs[0]):
            return super().reduce_scatter(outputs, inputs, opts)
        whole = torch.stack([one.detach() for one in inputs[0]]) if outputs[0].layout == torch.strided else outputs[0]
        if (how := self._how(whole, opts.reduceOp)) is None:
            return super().reduce_scatter(outputs, inputs, opts)
        return self._kept(outputs[0], whole, how)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.reduce. What the others have given stays as it is."""
        opts = opts or ReduceOptions()
        tensor = tensors[0]
        how = self._how(tensor, opts.reduceOp) if len(tensors) == 1 and tensor.numel() else None
        if how is None:
            return super().reduce(tensors, opts)
        part = Part(tensor, 0, 1) if opts.rootRank == self.rank() else Gathered([])
        assert self.channel is not None
        operation = Operation.REDUCE if self.channel.has(Operation.REDUCE) else Operation.SUM
        return self._summed(tensor, how, label_of(tensor, how, how.reduced, opts.rootRank), operation, part)

    def _kept(self, output: torch.Tensor, whole: torch.Tensor, how: Reduction) -> Any:
        """Sum all workers' parts, and keep this worker's."""
        assert self.channel is not None
        label = label_of(whole, how, how.scattered)
        if self.channel.has(Operation.SCATTER) and output.numel():
            return self._summed(whole, how, label, Operation.SCATTER, Part(output, 0, 1))
        return self._summed(whole, how, label, part=Part(output, self.rank(), self.size()))

    # --- copies

    def broadcast(self, tensors: Any, opts: Any) -> Any:  # type: ignore[override] # one of torch's overloads
        """See torch.distributed.broadcast."""
        if self.copying is None or len(tensors) != 1 or not carried(tensors[0]):
            return super().broadcast(tensors, opts)
        outputs = [] if opts.rootRank == self.rank() else [tensors[0]]
        label = copying(Call.BROADCAST, tensors[0], opts.rootRank)
        return self._copied(tensors[0], label, Operation.BROADCAST, Gathered(outputs, tensors[0]))

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather_into_tensor."""
        alike = output.numel() == self.size() * given.numel() and output.dtype == given.dtype
        if self.copying is None or not alike or not carried(given):
            return super().all_gather_single(output, given, opts)
        dense = output.detach() if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        outputs = list(dense.view(self.size(), -1).unbind())
        pending = self._copied(given, copying(Call.ALL_GATHER, given), Operation.GATHER, Gathered(outputs, output))
        return pending if output.is_contiguous() else Followed(pending, lambda: write(output, dense), [output])

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """See torch.distributed.all_gather."""
        alike = len(outputs) == len(inputs) == 1 and len(outputs[0]) == self.size()
        if self.copying is None or not alike or not carried(inputs[0]):
            return super().allgather(outputs, inputs, opts)
        if any(one.shape != inputs[0].shape or one.dtype != inputs[0].dtype or not carried(one) for one in outputs[0]):
            return super().allgather(outputs, inputs, opts)
        return self._copied(inputs[0], copying(Call.ALL_GATHER, inputs[0]), Operation.GATHER, Gathered(list(outputs[0])))

    def _copied(self, given: torch.Tensor, label: Label, operation: Operation, to: Gathered | Combined) -> Any:
        call, what = label.call.name.lower(), f"{given.numel()} {str(given.dtype).removeprefix('torch.')}"
        if label.call is Call.COMBINE:
            call, what = "all_reduce", f"{what} combined"
        call = f"{call} of {what} over {self.place.scheme.name}"
        return self._begun(self.copying, call, given, label, operation, COPY, to)

    # --- its end

    def _channels(self) -> list[Channel]:
        own = [] if self.copying is self.channel else [self.copying]
        return [channel for channel in (self.channel, *own) if channel]

    def shutdown(self) -> None:
        """End the threads and the scheme, once what is under way is over."""
        if self.channel is not None:
            channels = self._channels()
            for channel in channels:
                channel.end(ENDING)
            tally.count(self.counters())
            self.channel = self.copying = None
            self._leave()
        if self.by_gloo is not None:
            self.by_gloo.close()
            self.by_gloo = None

    def abort(self) -> None:
        """Give up what is under way, and end."""
        for channel in self._channels():
            channel.leaving = "the group was aborted"
        self.shutdown()
        self.gloo.abort()

    def _leave(self) -> None:
        """The job's part of the switches may be another group's."""
        joined.remove(self)
        if self.calls:
            self.calls.close()
            self.calls = None


def _agree(store: Any, rank: int, size: int, free: bool) -> int:
    """The epoch of a new group of all workers, the same on all of them; none if the scheme is in use on one of them."""
    store.set(f"free/{rank}", str(int(free)))
    if rank == 0:
        all_free = all(int(store.get(f"free/{other}")) for other in range(size))
        store.set("epoch", str(draw() if all_free else NONE))
    return int(store.get("epoch"))


def drawn(store: Any, rank: int) -> str:
    """What no other group of the launch is called, whichever process made it; the same on all workers."""
    if rank == 0:
        store.set("drawn", token_hex(8))
    return str(store.get("drawn").decode())


def label_of(tensor: torch.Tensor, how: Reduction, call: Call, root: int = 0) -> Label:
    """What tells a script's call from others."""
    return Label(call=call, root=root, floats=tensor.numel() if how.exactly else 0)


def copying(call: Call, tensor: torch.Tensor, root: int = 0) -> Label:
    """The same of an all-gather or a broadcast."""
    return Label(call=call, root=root, octets=tensor.nbytes)


def described(tensor: torch.Tensor, scheme: str, call: Call) -> str:
    """A sum of it by a scheme, as a note. What is summed alike is one call."""
    return f"{call.name.lower()} of {tensor.numel()} {'float32' if tensor.dtype in FLOATS else 'int32'} over {scheme}"


def leave_tally() -> None:
    """Leave word for the launcher of what the collectives of this process used."""
    for group in joined:  # which was not destroyed
        tally.count(group.counters())
    tally.leave()


@cache
def leave_uncompiled() -> None:
    """Have torch.compile pass over what carries collectives: it would trace it in the midst of a model that calls them."""
    from torch._dynamo import trace_rules  # which the launcher has loaded

    trace_rules.add(__package__)


def create(given: Any, options: Options | None) -> InaProcessGroup:
    """A group, for torch: `given` are its DistributedBackendOptions."""
    ranks = tuple(given.global_ranks_in_group)
    identity = given.group_id, ranks
    made[identity] += 1
    stores.append(given.store)
    store = PrefixStore(f"{made[identity]}", given.store)
    if options is not None:
        told[:] = [options]
    else:
        options = told[0] if told and dist.is_initialized() else Options.from_environment()
        leave_uncompiled()
    timeout = min(given.timeout, options.timeout or given.timeout)
    name = f"{given.group_id} {made[identity]} {ranks}"
    return InaProcessGroup(store, given.group_rank, given.group_size, timeout, options, ranks, name)
