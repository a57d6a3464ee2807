"""The core of a worker that sums a stream of chunks (core.h), as a driver sees it, and what it says when a sum cannot be completed.

A core has no socket, no clock and no thread. A driver (hosts.drivers) calls it: `start` with a tensor, `received` with packets,
`expired` when the time has come that the core named. What it wants sent is in `sends` after each call.
"""

from __future__ import annotations

import logging
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Counters, Membership, Operation, Sum
from inalab.hosts.cores import enum, ffi, library, taken, values
from inalab.hosts.stream.announcement import announce, differences, tag
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.stream.retransmission import RetransmissionTimer
from inalab.hosts.stream.timeline import Timeline

BURSTS = 8  # that a window is sent in at least, so that the link is never idle between two
QUERY_PATIENCE = 1.0  # seconds to wait for an answer to "whom do you lack?"
QUERY_AGAIN = 0.1  # seconds between two such questions
MOST_ROWS = enum("stream_sizes")["MOST_ROWS"]
RECOVERIES = ("ask", "paper")  # what a worker does about chunks whose results do not come (recovery.c)
COUNTERS = tuple(field.name for field in fields(Counters))
COUNTED = struct.Struct(f"={len(COUNTERS) - 1}qd")  # the core's: whole numbers, and the seconds waited
assert COUNTED.size == ffi.sizeof("Counters")


log = logging.getLogger("inalab")


class Outlook(Enum):
    """What may still come of a chunk that is overdue."""

    NONE = "the network does not answer, or has nothing to wait for"
    RECOVERY = "the network answers, and lacks what is sent again: this worker's part, or the result"
    OTHERS = "the network answers, and lacks other workers alone"

    @classmethod
    def without(cls, this_worker: bool) -> Outlook:
        """Of a chunk that lacks workers, this one among them or not."""
        return cls.RECOVERY if this_worker else cls.OTHERS


@dataclass(frozen=True)
class Absence:
    """What is known of the workers that a chunk lacks: a sentence, what may still come of it, and their ranks."""

    text: str
    outlook: Outlook = Outlook.NONE
    missing: tuple[int, ...] = ()


class Question(NamedTuple):
    """A server, by rank, is to be asked on the management network whom a chunk lacks."""

    server: int
    chunk: int


@dataclass
class Inquiry:
    """The oldest chunk is overdue: queries find out whom it lacks."""

    row: int
    chunk: int
    where: str
    reason: str | None  # to give up; None: the chunk has waited for as long as the worker's patience
    until: float
    due: float  # when to ask again


@dataclass(eq=False)
class UnderWay:
    """An all-reduce under way, and the memory that its core uses: `values`, `result` (elements,) and `announcement` (k,).

    Result and values may be the same memory: a chunk is not needed any more when its sum comes.
    """

    started: Sum
    values: NDArray[Any]
    result: NDArray[Any]
    announcement: NDArray[np.int32]


class Stream(ABC):
    """The sending half of a worker, with a number of chunks outstanding, of any number of tensors.

    Chunks to different peers take different paths: each has round trips of its own, and order holds on each alone, among chunks of
    one owner where they have owners.
    `epoch` is that of the group; what comes from another is refused.
    `patience` is how long, in seconds, the oldest chunk may wait for its result before giving up, whatever else arrives. Where
    the driver has a pulse the workers are `watched`: a worker that is alive may take as long as it likes.
    Without one its silence counts as the network's.

    `start`, `received` and `expired` raise AggregationError where a sum cannot be completed.
    """

    operations: tuple[Operation, ...] = (Operation.SUM,)  # that it has
    unnumbered = False  # its packets have checks that cover IP's header

    def __init__(self, membership: Membership, rows: int, record: np.dtype, patience: float) -> None:
        """Up to `rows` chunks are outstanding; each has two packets, the second of which is for the scheme's queries."""
        if not 1 <= rows <= MOST_ROWS:
            raise ValueError(f"from 1 to {MOST_ROWS} chunks can be under way, not {rows}")
        self.membership, self.record, self.patience, self.count = membership, record, patience, rows
        self.watched = False
        self.k: int = record["vector"].shape[0]
        self.sender = Datagrams(2 * rows, record)
        self.window, self.together = rows, rows // BURSTS  # packets under way; those that may leave as one burst
        self.sends: list[Send] = []  # which the driver takes
        self.counters = Counters()
        self.timeline: Timeline | None = None  # to note packets in, where somebody wants to see them
        self.under_way: dict[int, UnderWay] = {}  # in the order in which they were started
        self.started = 0  # sums, which numbers them
        self.patient_from = 0.0  # since when no chunk that was the oldest has come
        self.oldest_chunk = -1  # when that was looked at last
        self.inquiry: Inquiry | None = None
        self.recovering = -1  # the chunk that was left to recovery when its worker had waited once
        self.question: Question | None = None  # which the driver asks, and answers by `told`

    def _set_up(self, core: Any) -> None:
        """Of this scheme's core, which has a stream."""
        self.core, self.stream, self.stream_pointer = core, core.stream, ffi.addressof(core, "stream")
        self._counted = ffi.buffer(ffi.addressof(core.stream, "counters"))
        self.rows = values(self.stream.rows, self.count)  # records with fields, one a chunk under way
        self.timers = [RetransmissionTimer(of=ffi.addressof(self.stream.paths[i], "timer")) for i in range(self.stream.paths_count)]

    @property
    def heard_at(self) -> float:
        """When the last result came."""
        return float(self.stream.heard_at)

    def _chunk(self, row: int) -> int:
        """That waits in a row, -1: none."""
        return int(self.rows["chunk"][row])

    # --- what a driver calls

    def start(self, started: Sum, now: float) -> None:
        """Take in a tensor."""
        taken_in = self._taken_in(started)
        flat, self.started = taken_in.values, self.started + 1
        self.under_way[self.started] = taken_in
        t = ffi.new("Transfer *")
        t.id, t.length, t.elements = self.started, self._chunks(flat.size), flat.size
        self._share_out(t, started)
        t.floats, t.tag = flat.dtype == np.float32, tag(started.flat, started.empties, started.label)
        t.values, t.result = (ffi.cast("void *", array.ctypes.data) for array in (flat, taken_in.result))
        t.announcement = ffi.cast("int32_t *", taken_in.announcement.ctypes.data)
        self._start(t, now)
        self._collect(now)

    def received(self, packets: Datagrams, now: float) -> bool:
        """Take in packets; False if none of them is a result that was waited for."""
        fresh = self._receive(packets.c, now)
        self._collect(now)
        if self.inquiry is not None:
            self._ask_on(now)
        return fresh

    def expired(self, now: float) -> float:
        """Do what is due at this time, and find when the next thing is, unless packets come before."""
        watch = library().stream_expired(self.stream_pointer, now)
        oldest = int(watch.oldest)
        self._collect(now)
        if self.inquiry is None:
            if oldest != self.oldest_chunk:
                self.oldest_chunk, self.patient_from = oldest, now
            elif oldest >= 0 and now >= self.patient_from + self.patience:  # as it is planned below, to the bit
                self._inquire(None, now)
        else:
            self._ask_on(now)
        if self.inquiry is None:
            return min(float(watch.deadline), self.patient_from + self.patience)
        return min(float(watch.deadline), self.inquiry.due, self.inquiry.until)

    def driven(self, now: float) -> None:
        """See to what the core leaves to be done, after a driver has let it go on by itself."""
        self._collect(now)

    @property
    def may_be_driven(self) -> float:
        """Until when a driver may let the core go on by itself. 0: not at all, as packets are noted, or an inquiry is under way."""
        return 0.0 if self.timeline or self.inquiry else self.patient_from + self.patience

    def attended(self, now: float) -> None:
        """Somebody waits for a sum from now on: the time before does not count as the network's silence."""
        self.patient_from = now

    def give_up(self, reason: str, now: float) -> None:
        """There is a reason to give up: ask whom the oldest chunk lacks, and raise AggregationError when that is known."""
        if self.inquiry is None or self.inquiry.reason is None:
            self._inquire(reason, now)

    def told(self, absence: Absence, now: float) -> None:
        """The answer to `question`."""
        self.question = None
        self._conclude(absence, now)

    def nap(self) -> float:
        """Seconds in which more results may come, to be handled in one batch: a quarter of what is outstanding takes so long."""
        return float(library().stream_nap(self.stream_pointer))

    # --- what differs between schemes

    @abstractmethod
    def _taken_in(self, started: Sum) -> UnderWay:
        """A tensor as the core takes it: float32 that it makes integers of, or int32."""

    @abstractmethod
    def _chunks(self, elements: int) -> int:
        """Of a tensor."""

    def _share_out(self, transfer: Any, started: Sum) -> None:  # noqa: B027 (for schemes whose chunks have owners)
        """Say who owns a tensor's chunks."""

    @abstractmethod
    def _start(self, transfer: Any, now: float) -> None:
        """Have the core take in a tensor."""

    @abstractmethod
    def _receive(self, packets: Any, now: float) -> bool:
        """Have the core take in packets; see received."""

    @abstractmethod
    def _total(self, t: UnderWay) -> NDArray[Any]:
        """The sum, (elements,), of a tensor whose result is complete."""

    @abstractmethod
    def _where(self, row: int) -> str:
        """What a row's chunk is called in messages."""

    @abstractmethod
    def _ask_whom(self, row: int) -> None:
        """Ask the network whom a row's chunk lacks."""

    @abstractmethod
    def _forget_answers(self, row: int) -> None:
        """What has been answered about a row before does not count."""

    @abstractmethod
    def _answered(self, row: int) -> bool:
        """Whether the answers about a row are enough."""

    @abstractmethod
    def _absence(self, row: int) -> Absence | Question:
        """Whom a row's chunk lacks by what has been answered, or whom to ask beside the network."""

    # --- what the core leaves to be done

    def _collect(self, now: float) -> None:
        """Take what the core wants sent, and conclude what is over. Raises AggregationError if a worker sums another tensor."""
        s, counters = self.stream, self.counters
        before = counters.sent, counters.retransmissions, counters.results
        vars(counters).update(zip(COUNTERS, COUNTED.unpack(self._counted), strict=True))
        if s.outbox.count:
            self.sends += sends_of(s.outbox)
        if s.announced_count:
            self._check_announcements()
        if s.finished_count:
            over, s.finished_count = taken(s.finished, s.finished_count), 0
            for number in over.tolist():
                t = self.under_way.pop(number)
                t.started.end(self._total(t))
        if self.timeline:
            sent, again, results = counters.sent - before[0], counters.retransmissions - before[1], counters.results - before[2]
            if sent or results:
                self.timeline.note(now, int((self.rows["chunk"] >= 0).sum()), sent - again, again, results)

    def _announcement(self, started: Sum) -> NDArray[np.int32]:
        return announce(started.flat, self.membership.rank, self.membership.size, self.k, started.empties, started.label)

    def _check_announcements(self) -> None:
        s = self.stream
        totals = values(s.announcements, s.announced_count * self.k).reshape(-1, self.k)
        numbers, s.announced_count = values(s.announced, s.announced_count).tolist(), 0
        for number, total in zip(numbers, totals, strict=True):
            self._check_announcement(total, self.under_way[number].started)

    def _check_announcement(self, total: NDArray[np.int32], started: Sum) -> None:
        """Raise AggregationError if some worker sums another tensor."""
        m = self.membership
        if unlike := differences(total, started.flat, m.names(range(m.size)), self.k, started.empties, started.label):
            who = f"{m.name}: job {self.membership.job}"
            raise AggregationError(f"{who} cannot be completed: {unlike}", incomplete=True)

    # --- when a sum cannot be completed

    def _inquire(self, reason: str | None, now: float) -> None:
        row = int(library().stream_oldest_row(self.stream_pointer))
        self.inquiry = Inquiry(row, self._chunk(row), self._where(row), reason, now + QUERY_PATIENCE, now)
        self._forget_answers(row)
        self._ask_on(now)

    def _ask_on(self, now: float) -> None:
        """Go on with the inquiry, to its end where enough is known, its time is over, or the chunk's result has come."""
        inquiry = self.inquiry
        assert inquiry is not None
        row, come = inquiry.row, self._chunk(inquiry.row) != inquiry.chunk
        if come or self._answered(row) or now >= inquiry.until:
            found = self._absence(row)
            if isinstance(found, Absence):
                self._conclude(found, now)
            else:
                self.question = found
        elif now >= inquiry.due:
            self._ask_whom(row)
            self.stream.counters.queries += 1
            self._collect(now)
            inquiry.due = now + QUERY_AGAIN

    def _conclude(self, absence: Absence, now: float) -> None:
        """Raise AggregationError, unless there is no reason to: the result has come, or a worker that is alive is only slow.

        A slow worker's part may have come just now, and the chunk be incomplete for a moment because this worker's part was given
        up while it waited, or because the result is on its way. Recovery has another patience to see to that.
        """
        inquiry, self.inquiry = self.inquiry, None
        assert inquiry is not None
        self.patient_from = now
        reason = inquiry.reason
        if reason is None:
            if self._chunk(inquiry.row) != inquiry.chunk:
                return
            left_to_recovery = absence.outlook is Outlook.RECOVERY and inquiry.chunk != self.recovering
            self.recovering = inquiry.chunk if left_to_recovery else -1
            if self.watched and (left_to_recovery or absence.outlook is Outlook.OTHERS):
                log.warning("%s: %s waits: %s", self.membership.name, inquiry.where, absence.text)
                return
            reason = f"nothing arrived for {self.patience:g} s"
            if self.heard_at > now - self.patience:
                reason = f"its result did not come for {self.patience:g} s, though others did"
        text = f"{self.membership.name}: {inquiry.where} cannot be completed: {reason}; {absence.text}"
        raise AggregationError(text, incomplete=True, missing=absence.missing)


def sends_of(outbox: Any) -> list[Send]:
    """What is to be sent, which is taken out of a core."""
    rows = np.frombuffer(ffi.buffer(outbox.leaving, 8 * outbox.rows), np.int64).copy()
    found = [outbox.sends[i] for i in range(outbox.count)]
    outbox.rows = outbox.count = 0
    return [Send(rows[send.first : send.first + send.count], send.peer, send.length or None, send.urgent) for send in found]
