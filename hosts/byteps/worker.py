"""BytePS's worker (OSDI '20): tensors in partitions, pushed to Summation Services and pulled from them at once.

A push asks for the sum, so a pull needs no message of its own. Pushes and pulls of many partitions are under way in both
directions. A change of what the services keep is pushed and pulled likewise. hosts.byteps.admission decides which
partition goes next, and how many bytes may be under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.byteps import wire
from inalab.hosts.byteps.admission import FIFO, Admission, Partition
from inalab.hosts.byteps.assignment import Assignment
from inalab.hosts.byteps.service import service_name
from inalab.hosts.byteps.wire import Header
from inalab.hosts.collective import Operation, Sum, Update
from inalab.hosts.tcp.connected import Connected
from inalab.hosts.tcp.connection import MeetingError
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.serving import reason_of

MEETING = 8.0  # seconds for all services to be there
SERVICES = "all services"
KINDS = {Operation.SUM: wire.PUSH, Operation.KEEP: wire.KEEP, Operation.CHANGE: wire.CHANGE, Operation.FETCH: wire.FETCH}


@dataclass(eq=False)
class Transfer:
    """A sum or a change under way."""

    started: Sum
    octets: memoryview  # of the tensor
    result: NDArray[Any]  # (elements,); may be the same memory: a partition has been sent before its sum comes
    partitions: list[Partition]
    requested: float
    remaining: int = field(init=False)  # partitions without a result
    sent: float | None = None  # when the first partition began to be
    applied: float = 0.0  # when the last one was, of a change
    norm: float = 0.0  # of a change
    versions: int = 0  # of what is kept, over all partitions

    def __post_init__(self) -> None:
        self.remaining = len(self.partitions)

    def octets_of(self, partition: Partition) -> memoryview:
        """What is pushed."""
        return self.octets[4 * partition.start : 4 * partition.stop]

    def room_of(self, partition: Partition) -> memoryview:
        """Where its sum belongs."""
        return self.result[partition.start : partition.stop].data.cast("B")


class BytePS(Connected[Header]):
    """All-reduce by Summation Services on all hosts of the group.

    Each has a service; `assignment` says who adds what. `order` and `credit` are hosts.byteps.admission's. Raises AggregationError
    where a service cannot be reached.
    """

    operations = tuple(KINDS)

    def __init__(self, group: Group, assignment: Assignment, order: str, credit: int) -> None:
        super().__init__(group)
        self.assignment, self.order = assignment, order
        try:
            meeting = group.reach(range(len(group.peers)), wire.TCP_PORT, min(group.patience, MEETING))
        except MeetingError as error:
            raise self._error(f"{self._name(error.rank)} {error.what}", error.rank) from None
        self._connect(meeting, Header)
        self.admission = Admission(credit)
        self.transfers: dict[int, Transfer] = {}  # by number of the sum
        self.kept: dict[str, list[Partition]] = {}  # of the sums that services keep, by the tensor's name
        self.sums = 0
        self.version = 0.0  # of what is kept, when it came last
        self.leaving = False  # whether there is a push that the kernel has not taken yet
        self.coming: dict[int, bytearray] = {}  # by service: what is no result

    def _name(self, service: int) -> str:
        return service_name(service, self.membership.size)

    # --- the collective

    def _start(self, started: Sum) -> None:
        flat = started.flat
        partitions = self._cut(started) if started.operation in (Operation.SUM, Operation.KEEP) else self._kept(started)
        result = flat if started.overwrite and flat.flags.writeable else np.empty_like(flat)
        requested = self.driver.monotonic()
        transfer = self.transfers[partitions[0].number] = Transfer(started, flat.view(np.uint8).data, result, partitions, requested)
        if started.operation == Operation.CHANGE:
            transfer.norm = Update.norm_of(flat)
        for partition in partitions:
            self.admission.put(partition)
        if len(self.transfers) == 1:
            self._begin()
        self._admit()

    def _cut(self, started: Sum) -> list[Partition]:
        """The partitions of a sum, which is announced."""
        flat, number, label = started.flat, self.sums, started.label
        self.sums += 1
        urgency = 0 if self.order == FIFO else label.priority
        name = label.name.encode()[: wire.LONGEST_NAME]
        announcement = Header(wire.ANNOUNCE, _dtype(flat), number, priority=urgency, size=len(name), elements=flat.size)
        self.channels.put(number % len(self.channels), announcement, name)
        found, start = [], 0
        for index, piece in enumerate(self.assignment.cut(label.name, 4 * flat.size)):
            # of those whose turn it is each worker begins with another, so that not all send to one host at once
            own = (piece.service - self.membership.rank) % len(self.channels)
            stop = start + piece.size // 4
            found.append(Partition(urgency, number, piece.turn, own, index, start, stop, piece.service))
            start = stop
        if started.operation == Operation.KEEP:
            self.kept[label.name] = found
        return found

    def _kept(self, started: Sum) -> list[Partition]:
        """Those of the sum that is kept under a tensor's name. ValueError for a tensor that is not kept, or is being changed."""
        name, partitions = started.label.name, self.kept.get(started.label.name, [])
        if not partitions or partitions[-1].stop != started.flat.size:
            raise ValueError(f"no tensor of {started.flat.size:,} elements is kept under the name {name!r}")
        if partitions[0].number in self.transfers:
            raise ValueError(f"tensor {name!r} is being changed: one change of a worker's is under way at a time")
        return partitions

    def _admit(self) -> None:
        """Push what may go now: one after another, so that the first is at its service early, and its sum comes back meanwhile."""
        while not self.leaving and (partition := self.admission.admit()):
            self.leaving = True
            transfer = self.transfers[partition.number]
            started, p = transfer.started, partition
            transfer.sent = transfer.sent or self.driver.monotonic()
            kind = KINDS[started.operation]
            body = memoryview(b"") if kind == wire.FETCH else transfer.octets_of(p)
            header = Header(kind, _dtype(started.flat), p.number, p.index, p.priority, len(body), started.flat.size)
            self.channels.put(p.service, header, body)

    def _sent(self, headers: list[Header]) -> None:
        if any(sent.kind in KINDS.values() for sent in headers):
            self.leaving = False
        self._admit()

    def _read(self, service: int) -> None:
        for header in self.channels[service].read(lambda header: self._room(service, header)):
            self.answered = True
            match header.kind:
                case wire.RESULT:
                    self.progress_at = self.driver.monotonic()
                    self._take(header)
                case wire.REFUSE:
                    reason, missing = reason_of(self.coming.pop(service))
                    raise self._error(reason, *missing)
                case wire.MISSING:
                    self._told(header, list(self.coming.pop(service)))

    def _room(self, service: int, header: Header) -> memoryview:
        """Where the body of a message belongs."""
        if header.kind in (wire.REFUSE, wire.MISSING):
            self.coming[service] = bytearray(header.size)
            return memoryview(self.coming[service])
        partition = self.admission.under_way.get((header.number, header.partition))
        if header.kind != wire.RESULT or partition is None or partition.service != service:
            raise ValueError(f"a message {header.kind} about partition {header.partition} of sum {header.number}")
        transfer = self.transfers[header.number]
        if (header.size, header.dtype) != (partition.size, _dtype(transfer.started.flat)):
            raise ValueError(f"{header.size} bytes for partition {header.partition} of sum {header.number}")
        return transfer.room_of(partition)

    def _take(self, header: Header) -> None:
        """A partition's sum has come."""
        transfer = self.transfers[header.number]
        self.admission.ended(header.number, header.partition)
        transfer.remaining -= 1
        transfer.versions += header.version
        transfer.applied = max(transfer.applied, header.at)
        if not transfer.remaining:
            del self.transfers[header.number]
            self._count()
            self._versioned(transfer)
            transfer.started.end(transfer.result)
        self._admit()

    def _versioned(self, transfer: Transfer) -> None:
        """The version of what is kept now, and what became of a change."""
        started, t = transfer.started, transfer
        before, started.version = self.version, t.versions / len(t.partitions)
        if started.operation in (Operation.CHANGE, Operation.FETCH):
            self.version = started.version
        if started.operation == Operation.CHANGE:
            started.update = Update(
                before, started.version - 1, t.norm, len(t.octets), t.requested, t.sent, t.applied, SERVICES, SERVICES
            )

    # --- when nothing comes

    def _ask(self) -> int:
        oldest = self.admission.under_way[min(self.admission.under_way)]
        self.channels.put(oldest.service, Header(wire.ASK, b"f", oldest.number, oldest.index, priority=-(1 << 31)))
        return oldest.service

    def _told(self, header: Header, missing: list[int]) -> None:
        """A service lacks these workers' parts of a partition."""
        if missing and header.number in self.transfers:
            label = self.transfers[header.number].started.label.name
            self._waits(f"partition {header.partition} of sum {header.number}" + (f" ({label})" if label else ""), missing)


def _dtype(flat: NDArray[Any]) -> bytes:
    """A key of wire.DTYPES."""
    return flat.dtype.char.encode()
