"""BytePS's worker (OSDI '20): tensors in partitions, pushed to Summation Services and pulled from them at once.

A push asks for the sum, so a pull needs no message of its own. Pushes and pulls of many partitions are under way in both
directions. Which partition goes next, and how many bytes may be under way, is hosts.byteps.admission's.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.byteps import wire
from hosts.byteps.admission import FIFO, Admission, Partition
from hosts.byteps.assignment import Assignment
from hosts.byteps.channel import Channel
from hosts.byteps.service import service_name
from hosts.byteps.wire import Header
from hosts.collective import NEVER, AggregationError, Counters, Membership, Sum, Summing, workers
from hosts.tcp.kernel import count_segments, notice_silence
from hosts.tcp.meeting import MeetingError, reach

MEETING = 8.0  # seconds for all services to be there
PULSE = 0.5  # seconds without a byte after which the pulse is felt
SILENCE = 4.0  # seconds without a byte after which a service is asked whom it lacks
ANSWER = 4.0  # seconds that it has to answer
log = logging.getLogger("inalab")


@dataclass(eq=False)
class Transfer:
    """A sum under way."""

    started: Sum
    octets: memoryview  # of the tensor
    result: NDArray[Any]  # (elements,); may be the same memory: a partition has been sent before its sum comes
    under_way: dict[int, Partition] = field(default_factory=dict)  # that were admitted, by index
    remaining: int = 0  # partitions without a sum

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
        self.channels = {service: Channel(made) for service, made in meeting.sockets.items()}
        self.selector = selectors.DefaultSelector()
        for service, channel in self.channels.items():
            self.selector.register(channel.socket, selectors.EVENT_READ, service)
        self.admission = Admission(credit)
        self.transfers: dict[int, Transfer] = {}  # by number of the sum
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
        flat, number, label = started.flat, self.sums, started.label
        self.sums += 1
        result = flat if started.overwrite and flat.flags.writeable else np.empty_like(flat)
        transfer = self.transfers[number] = Transfer(started, flat.view(np.uint8).data, result)
        start, urgency = 0, 0 if self.order == FIFO else label.priority
        announcement = Header(wire.ANNOUNCE, self._kind(flat), number, priority=urgency, elements=flat.size)
        self._put(number % len(self.channels), announcement)
        for index, piece in enumerate(self.assignment.cut(label.name, 4 * flat.size)):
            # of those whose turn it is each worker begins with another, so that not all send to one host at once
            own = (piece.service - self.membership.rank) % len(self.channels)
            stop = start + piece.size // 4
            self.admission.put(Partition(urgency, number, piece.turn, own, index, start, stop, piece.service))
            transfer.remaining += 1
            start = stop
        if len(self.transfers) == 1:
            self.heard_at = self.pulsed_at = self.progress_at = time.monotonic()
        self._admit()

    @staticmethod
    def _kind(flat: NDArray[Any]) -> bytes:
        return flat.dtype.char.encode()

    def _admit(self) -> None:
        """Push what may go now: one after another, so that the first is at its service early, and its sum comes back meanwhile."""
        while not self.leaving and (partition := self.admission.admit()):
            self.leaving = True
            transfer = self.transfers[partition.number]
            transfer.under_way[partition.index] = partition
            flat, p = transfer.started.flat, partition
            header = Header(wire.PUSH, self._kind(flat), p.number, p.index, p.priority, p.size, flat.size)
            self._put(partition.service, header, transfer.octets_of(partition))

    def _advance(self, started: Sum, interrupt: int) -> None:
        if interrupt != NEVER:
            self.selector.register(interrupt, selectors.EVENT_READ, NEVER)
        try:
            while started.total is None:
                ready = self.selector.select(PULSE)
                for key, events in ready:
                    if key.data != NEVER:
                        self._serve(key.data, events)
                if any(key.data == NEVER for key, _ in ready):
                    return
                self._watch_over(time.monotonic())
        finally:
            if interrupt != NEVER:
                self.selector.unregister(interrupt)

    def _serve(self, service: int, events: int) -> None:
        """Send to and receive from a service what goes."""
        channel = self.channels[service]
        before = channel.sent + channel.received
        try:
            if events & selectors.EVENT_READ:
                self._read(service)
            if events & selectors.EVENT_WRITE:
                if any(sent.kind == wire.PUSH for sent in channel.write()):
                    self.leaving = False
                self._watch(service)
                self._admit()
        except ValueError as error:
            raise self._error(f"{self._name(service)} sent what cannot be: {error}") from None
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
        transfer = self.transfers.get(header.number)
        partition = transfer.under_way.get(header.partition) if transfer else None
        if header.kind != wire.RESULT or transfer is None or partition is None or partition.service != service:
            raise ValueError(f"a message {header.kind} about partition {header.partition} of sum {header.number}")
        if (header.size, header.dtype) != (partition.size, self._kind(transfer.started.flat)):
            raise ValueError(f"{header.size} bytes for partition {header.partition} of sum {header.number}")
        return transfer.room_of(partition)

    def _take(self, header: Header) -> None:
        """A partition's sum has come."""
        transfer = self.transfers[header.number]
        self.admission.ended(transfer.under_way.pop(header.partition))
        transfer.remaining -= 1
        if not transfer.remaining:
            del self.transfers[header.number]
            self._count()
            self._over(transfer.started, transfer.result)
        self._admit()

    def _count(self) -> None:
        channels = self.channels.values()
        count_segments(self.counters, [channel.socket for channel in channels])
        self.counters.bytes_sent = sum(channel.sent for channel in channels)
        self.counters.bytes_received = sum(channel.received for channel in channels)

    # --- sending

    def _put(self, service: int, header: Header, body: bytes | memoryview = b"") -> None:
        self.channels[service].put(header, body)
        self._watch(service)

    def _watch(self, service: int) -> None:
        channel = self.channels[service]
        wanted = selectors.EVENT_READ | (0 if channel.idle else selectors.EVENT_WRITE)
        if self.selector.get_key(channel.socket).events != wanted:
            self.selector.modify(channel.socket, wanted, service)

    # --- when nothing comes

    def _watch_over(self, now: float) -> None:
        """Give up where somebody knows a reason; in a silence, ask who is missing."""
        silent = now - self.heard_at
        if min(silent, now - self.pulsed_at) < min(PULSE, self.patience / 4):
            return
        self.pulsed_at = now
        if self.pulse and (reason := self.pulse()):
            raise self._error(reason)
        oldest = min(
            (p for transfer in self.transfers.values() for p in transfer.under_way.values()), key=lambda p: (p.number, p.index)
        )
        if not self.answered and now - max(self.asked_at, self.heard_at) > ANSWER:
            raise self._error(f"{self._name(oldest.service)} has not answered for {ANSWER:g} s", oldest.service)
        if self.answered and silent > min(SILENCE, self.patience / 2):
            self.asked_at, self.answered, self.heard_at = now, False, now
            self._put(oldest.service, Header(wire.ASK, b"f", oldest.number, oldest.index, priority=-(1 << 31)))

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
        self.selector.close()
        for channel in self.channels.values():
            channel.close()
