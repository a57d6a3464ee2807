"""BytePS's worker (OSDI '20): tensors in partitions, pushed to Summation Services and pulled from them at once.

A push asks for the sum, so a pull needs no message of its own. Pushes and pulls of many partitions are under way in both
directions. A change of what the services keep is pushed and pulled likewise. hosts.byteps.admission decides which
partition goes next, and how many bytes may be under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.byteps import wire
from hosts.byteps.admission import FIFO, Admission, Partition
from hosts.byteps.assignment import Assignment
from hosts.byteps.channel import Channels
from hosts.byteps.service import service_name
from hosts.byteps.wire import Header
from hosts.collective import NEVER, AggregationError, Counters, Membership, Operation, Sum, Summing, workers
from hosts.tcp.kernel import count_segments, notice_silence
from hosts.tcp.meeting import MeetingError, reach

MEETING = 8.0  # seconds for all services to be there
PULSE = 0.5  # seconds without a byte after which the pulse is felt
SILENCE = 4.0  # seconds without a byte after which a service is asked whom it lacks
ANSWER = 4.0  # seconds that it has to answer
log = logging.getLogger("inalab")


KINDS = {Operation.SUM: wire.PUSH, Operation.KEEP: wire.KEEP, Operation.CHANGE: wire.CHANGE}


@dataclass(eq=False)
class Transfer:
    """A sum or a change under way."""

    started: Sum
    octets: memoryview  # of the tensor
    result: NDArray[Any]  # (elements,); may be the same memory: a partition has been sent before its sum comes
    partitions: list[Partition]
    remaining: int = field(init=False)  # partitions without a result
    versions: int = 0  # of what is kept, over all partitions

    def __post_init__(self) -> None:
        self.remaining = len(self.partitions)

    def octets_of(self, partition: Partition) -> memoryview:
        """What is pushed."""
        return self.octets[4 * partition.start : 4 * partition.stop]

    def room_of(self, partition: Partition) -> memoryview:
        """Where its sum belongs."""
        return self.result[partition.start : partition.stop].data.cast("B")


class BytePS(Summing):
    """All-reduce by Summation Services on all hosts of the group.

    `peers` are the addresses of all hosts by rank, each with a service; `assignment` says who adds what. `order` and `credit` are
    hosts.byteps.admission's, `patience` and `pulse` are hosts.stream.stream.Stream's. Raises AggregationError where a service
    cannot be reached.
    """

    operations = (Operation.SUM, Operation.KEEP, Operation.CHANGE)

    def __init__(
        self, membership: Membership, epoch: int, peers: list[str], assignment: Assignment, order: str, credit: int,
        patience: float = 30.0, pulse: Callable[[], str | None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.membership, self.assignment, self.order, self.patience, self.pulse = membership, assignment, order, patience, pulse
        self.counters = Counters()
        try:
            meeting = reach(membership.rank, range(len(peers)), peers, wire.TCP_PORT, min(patience, MEETING), epoch)
        except MeetingError as error:
            raise self._error(f"{self._name(error.rank)} {error.what}", error.rank) from None
        for made in meeting.sockets.values():
            notice_silence(made, min(patience, MEETING))
        self.channels = Channels(meeting.sockets)
        self.admission = Admission(credit)
        self.transfers: dict[int, Transfer] = {}  # by number of the sum
        self.kept: dict[str, list[Partition]] = {}  # of the sums that services keep, by the tensor's name
        self.sums = 0
        self.leaving = False  # whether there is a push that the kernel has not taken yet
        self.coming: dict[int, bytearray] = {}  # by service: what is no result
        self.heard_at = self.progress_at = self.pulsed_at = self.asked_at = 0.0  # when bytes moved, a result came
        self.answered = True
        self.told = ""  # whom a sum waits for, as it was last found out

    def _name(self, service: int) -> str:
        return service_name(service, self.membership.size)

    def _error(self, reason: str, *missing: int) -> AggregationError:
        m = self.membership
        text = f"worker {m.rank}: job {m.job} cannot be completed: {reason}"
        return AggregationError(text, True, tuple(rank for rank in missing if rank < m.size))

    # --- the collective

    def _start(self, started: Sum) -> None:
        flat = started.flat
        partitions = self._kept(started) if started.operation == Operation.CHANGE else self._cut(started)
        result = flat if started.overwrite and flat.flags.writeable else np.empty_like(flat)
        self.transfers[partitions[0].number] = Transfer(started, flat.view(np.uint8).data, result, partitions)
        for partition in partitions:
            self.admission.put(partition)
        if len(self.transfers) == 1:
            self.heard_at = self.progress_at = time.monotonic()
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
            kind = KINDS[started.operation]
            header = Header(kind, _dtype(started.flat), p.number, p.index, p.priority, p.size, started.flat.size)
            self.channels.put(p.service, header, transfer.octets_of(p))

    def _advance(self, started: Sum, interrupt: int) -> None:
        if interrupt != NEVER:
            self.channels.selector.register(interrupt, EVENT_READ, NEVER)
        try:
            while started.total is None:
                ready = self.channels.ready(PULSE)
                for service, events in ready:
                    if service != NEVER:
                        self._serve(service, events)
                if any(service == NEVER for service, _ in ready):
                    return
                if started.total is None:
                    self._watch_over(time.monotonic())
        finally:
            if interrupt != NEVER:
                self.channels.selector.unregister(interrupt)

    def _serve(self, service: int, events: int) -> None:
        """Send to and receive from a service what goes."""
        channel = self.channels[service]
        before = channel.sent + channel.received
        try:
            if events & EVENT_READ:
                self._read(service)
            if events & EVENT_WRITE:
                if any(sent.kind in KINDS.values() for sent in self.channels.write(service)):
                    self.leaving = False
                self._admit()
        except ValueError as error:
            raise self._error(f"{self._name(service)} sent an invalid message: {error}") from None
        except OSError as error:
            raise self._error(f"{self._name(service)} is gone: {error}", service) from None
        if channel.sent + channel.received > before:
            self.heard_at = time.monotonic()

    def _read(self, service: int) -> None:
        for header in self.channels[service].read(lambda header: self._room(service, header)):
            self.answered = True
            match header.kind:
                case wire.RESULT:
                    self.progress_at = time.monotonic()
                    self._take(header)
                case wire.REFUSE:
                    body = self.coming.pop(service)
                    raise self._error(bytes(body[1 + body[0] :]).decode(errors="replace"), *body[1 : 1 + body[0]])
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
        if not transfer.remaining:
            del self.transfers[header.number]
            self._count()
            transfer.started.version = transfer.versions / len(transfer.partitions)
            self._over(transfer.started, transfer.result)
        self._admit()

    def _count(self) -> None:
        channels = self.channels.of.values()
        count_segments(self.counters, [channel.socket for channel in channels])
        self.counters.bytes_sent = sum(channel.sent for channel in channels)
        self.counters.bytes_received = sum(channel.received for channel in channels)

    # --- when nothing comes

    def _watch_over(self, now: float) -> None:
        """Give up where somebody knows a reason; in a silence, ask who is missing."""
        if now - self.pulsed_at < min(PULSE, self.patience / 4):
            return
        self.pulsed_at, silent = now, now - self.heard_at
        if self.pulse and (reason := self.pulse()):
            raise self._error(reason)
        oldest = self.admission.under_way[min(self.admission.under_way)]
        if not self.answered and now - max(self.asked_at, self.heard_at) > ANSWER:
            raise self._error(f"{self._name(oldest.service)} has not answered for {ANSWER:g} s", oldest.service)
        if self.answered and silent > min(SILENCE, self.patience / 2):
            self.asked_at, self.answered, self.heard_at = now, False, now
            self.channels.put(oldest.service, Header(wire.ASK, b"f", oldest.number, oldest.index, priority=-(1 << 31)))

    def _told(self, header: Header, missing: list[int]) -> None:
        """A service lacks these workers' parts of a partition."""
        if not missing or header.number not in self.transfers:
            return
        label = self.transfers[header.number].started.label.name
        what = f"partition {header.partition} of sum {header.number}" + (f" ({label})" if label else "")
        told = f"{what} waits for {workers(missing)}"
        if self.pulse is None and time.monotonic() - self.progress_at > self.patience:
            raise self._error(f"{told}, for {self.patience:g} s", *missing)
        if told != self.told:
            log.warning("worker %d: job %d: %s", self.membership.rank, self.membership.job, told)
        self.told = told

    def close(self) -> None:
        """Close the connections."""
        self.channels.close()


def _dtype(flat: NDArray[Any]) -> bytes:
    """A key of wire.DTYPES."""
    return flat.dtype.char.encode()
