"""The core of a worker that sums a stream of chunks: what is outstanding, when it is overdue, and what to send.

A core has no socket, no clock and no thread. A driver (hosts.drivers) calls it: `start` with a tensor, `received` with packets,
`expired` when the time has come that the core named. What it wants sent is in `sends` after each call.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Counters, Membership, Sum
from inalab.hosts.stream import compiled_rows
from inalab.hosts.stream.announcement import announce, differences
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.stream.recovery import Recovery
from inalab.hosts.stream.retransmission import MOST_BACKOFF, RetransmissionTimer
from inalab.hosts.stream.timeline import Timeline

MAX_ROWS = 1 << 15
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.005  # seconds that results may wait to be handled in one batch
QUERY_PATIENCE = 1.0  # seconds to wait for an answer to "whom do you lack?"
QUERY_AGAIN = 0.1  # seconds between two such questions


log = logging.getLogger("inalab")


@dataclass(frozen=True)
class Absence:
    """What is known of the workers that a chunk lacks: a sentence, whether waiting for them makes sense, and their ranks.

    It does where the network answers and the chunk lacks other workers than this one.
    """

    text: str
    worth_waiting: bool = False
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
    """An all-reduce under way: which of the stream's numbers are its, and how many of its chunks have no result yet."""

    started: Sum
    start: int
    length: int
    remaining: int


class Stream(ABC):
    """The sending half of a worker, up to `rows` chunks outstanding, of any number of tensors.

    Chunks to different peers take different paths: each has round trips of its own, and order holds on each alone.
    `epoch` is that of the group; what comes from another is refused.
    `patience` is how long, in seconds, the oldest chunk may wait for its result before giving up, whatever else arrives. Where
    the driver has a pulse the workers are `watched`: a worker that is alive may take as long as it likes.
    Without one its silence counts as the network's.

    `start`, `received` and `expired` raise AggregationError where a sum cannot be completed.
    """

    recovery: Recovery  # which the scheme sets

    def __init__(
        self, membership: Membership, epoch: int, paths: int, rows: int, record: np.dtype, patience: float, spare: int = 0
    ) -> None:
        """`spare` packets beside those of the rows are for the scheme's own use."""
        if not 1 <= rows <= MAX_ROWS:
            raise ValueError(f"from 1 to {MAX_ROWS} chunks can be under way, not {rows}")
        self.membership, self.epoch, self.record, self.patience = membership, epoch, record, patience
        self.watched = False
        self.k: int = record["vector"].shape[0]
        self.sender = Datagrams(rows + spare, record)
        self.sends: list[Send] = []  # which the driver takes
        self.counters = Counters()
        self.timers = [RetransmissionTimer() for _ in range(paths)]
        self.backoffs = np.array([timer.timeouts for timer in self.timers])  # of which the timers have the rows
        for timer, timeouts in zip(self.timers, self.backoffs, strict=True):
            timer.timeouts = timeouts
        self.timeline: Timeline | None = None  # to note packets in, where somebody wants to see them
        self.under_way: list[Any] = []  # of the scheme's own kind of UnderWay, in the order in which they were started
        self.position = 0  # of what is started next, in the stream
        self.chunk = np.full(rows, -1, np.int64)  # outstanding in each row, -1: none
        self.path = np.zeros(rows, np.int64)  # number of the peer that the row's chunk goes to
        self.packets = 0  # that have been sent, which numbers them
        self.order = np.zeros(rows, np.int64)  # number of the row's packet
        self.sent_at = np.zeros(rows)
        self.deadline = np.full(rows, np.inf)
        self.tries = np.zeros(rows, np.int64)
        self.overtaken = np.zeros(rows, np.int64)  # results since then of chunks that were sent later, and once
        self.heard_at = 0.0  # when the last result came
        self.heard_on = np.zeros(paths)  # by path, of a chunk that no worker sent again
        self.sampled_on = np.zeros(paths)  # by path, when a round trip has told of the network
        self.timed_out_at = 0.0
        self.patient_from = 0.0  # since when no chunk that was the oldest has come
        self.oldest_chunk = -1  # when that was looked at last
        self.inquiry: Inquiry | None = None
        self.question: Question | None = None  # which the driver asks, and answers by `told`

    def timeouts(self, rows: NDArray[np.intp], tries: NDArray[np.int64] | int = 0) -> NDArray[np.float64]:
        """Of these rows' paths after so many tries, in seconds."""
        found: NDArray[np.float64] = self.backoffs[self.path[rows], np.minimum(tries, MOST_BACKOFF)]
        return found

    def by_path(self, rows: NDArray[np.intp]) -> Iterator[tuple[RetransmissionTimer, NDArray[np.bool_]]]:
        """Each path's timer, and which of these rows are of that path."""
        if len(self.timers) == 1:
            yield self.timers[0], np.ones(len(rows), bool)
        else:
            yield from ((timer, self.path[rows] == path) for path, timer in enumerate(self.timers))

    def outstanding(self) -> NDArray[np.intp]:
        """Rows that wait for a result."""
        return np.flatnonzero(self.chunk >= 0)

    def oldest(self) -> int:
        """The row of the oldest outstanding chunk."""
        return int(np.where(self.chunk >= 0, self.chunk, np.iinfo(np.int64).max).argmin())

    # --- what a driver calls

    @abstractmethod
    def start(self, started: Sum, now: float) -> None:
        """Take in a tensor."""

    def received(self, packets: Datagrams, now: float) -> bool:
        """Take in packets; False if none of them is a result that was waited for."""
        fresh = self._receive(packets, now)
        if self.inquiry is not None:
            self._ask_on(now)
        return fresh

    def expired(self, now: float) -> float:
        """Do what is due at this time, and find when the next thing is, unless packets come before."""
        first, _, oldest = compiled_rows.watch(self.chunk, self.deadline)
        if first <= now:
            self.recovery.expired(np.flatnonzero(self.deadline <= now), now)
            first, _, oldest = compiled_rows.watch(self.chunk, self.deadline)
        if self.inquiry is None:
            if oldest != self.oldest_chunk:
                self.oldest_chunk, self.patient_from = oldest, now
            elif now - self.patient_from >= self.patience:
                self._inquire(None, now)
        else:
            self._ask_on(now)
        if self.inquiry is None:
            return min(first, self.patient_from + self.patience)
        return min(first, self.inquiry.due, self.inquiry.until)

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
        share = np.count_nonzero(self.chunk >= 0) / len(self.chunk)
        round_trip = min(timer.srtt for timer in self.timers)
        return min(max(share * round_trip / 4, min(SHORTEST_NAP, round_trip / 4)), LONGEST_NAP)

    # --- what differs between schemes

    @abstractmethod
    def _receive(self, packets: Datagrams, now: float) -> bool:
        """See received."""

    @abstractmethod
    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        """Mark these rows' packets as sent again."""

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

    # --- the announcement

    def _announcement(self, tensor: NDArray[Any]) -> NDArray[np.int32]:
        return announce(tensor, self.membership.rank, self.membership.size, self.k)

    def _check_announcement(self, total: NDArray[np.int32], tensor: NDArray[Any]) -> None:
        """Raise AggregationError if some worker sums another tensor."""
        if unlike := differences(total, tensor, self.membership.size, self.k):
            who = f"worker {self.membership.rank}: job {self.membership.job}"
            raise AggregationError(f"{who} cannot be completed: {unlike}", incomplete=True)

    # --- when a sum cannot be completed

    def _inquire(self, reason: str | None, now: float) -> None:
        row = self.oldest()
        self.inquiry = Inquiry(row, int(self.chunk[row]), self._where(row), reason, now + QUERY_PATIENCE, now)
        self._forget_answers(row)
        self._ask_on(now)

    def _ask_on(self, now: float) -> None:
        """Go on with the inquiry, to its end where enough is known, its time is over, or the chunk's result has come."""
        inquiry = self.inquiry
        assert inquiry is not None
        row, come = inquiry.row, self.chunk[inquiry.row] != inquiry.chunk
        if come or self._answered(row) or now >= inquiry.until:
            found = self._absence(row)
            if isinstance(found, Absence):
                self._conclude(found, now)
            else:
                self.question = found
        elif now >= inquiry.due:
            self._ask_whom(row)
            self.counters.queries += 1
            inquiry.due = now + QUERY_AGAIN

    def _conclude(self, absence: Absence, now: float) -> None:
        """Raise AggregationError, unless there is no reason to: the result has come, or a worker that is alive is only slow."""
        inquiry, self.inquiry = self.inquiry, None
        assert inquiry is not None
        self.patient_from = now
        reason = inquiry.reason
        if reason is None:
            if self.chunk[inquiry.row] != inquiry.chunk:
                return
            if self.watched and absence.worth_waiting:
                log.warning("worker %d: %s waits: %s", self.membership.rank, inquiry.where, absence.text)
                return
            reason = f"nothing arrived for {self.patience:g} s"
            if self.heard_at > now - self.patience:
                reason = f"its result did not come for {self.patience:g} s, though others did"
        text = f"worker {self.membership.rank}: {inquiry.where} cannot be completed: {reason}; {absence.text}"
        raise AggregationError(text, incomplete=True, missing=absence.missing)

    # --- sending

    def _put(self, rows: NDArray[np.intp], urgent: bool, length: int | None = None, behind: int = 0) -> None:
        """Have packets sent to these rows' peers: their own, or those that stand so many places `behind` them."""
        self.counters.bytes_sent += len(rows) * (self.record.itemsize if length is None else length)
        if len(self.timers) == 1:
            self.sends.append(Send(rows + behind, 0, length, urgent))
            return
        for path in range(len(self.timers)):
            if len(mine := rows[self.path[rows] == path]):
                self.sends.append(Send(mine + behind, path, length, urgent))

    def _send(self, rows: NDArray[np.intp], now: float, urgent: bool = False) -> None:
        """Send these rows' packets."""
        self._put(rows, urgent)
        compiled_rows.sent(
            rows, now, self.packets, self.backoffs, self.path, self.tries, self.sent_at, self.order, self.deadline, self.overtaken
        )
        self.packets += len(rows)
        self.recovery.sent(rows)
        self.counters.sent += len(rows)
        if self.timeline:
            again = int((self.tries[rows] > 0).sum())
            self.timeline.note(now, int((self.chunk >= 0).sum()), len(rows) - again, again)

    def retransmit(self, rows: NDArray[np.intp], now: float, urgent: bool = False) -> None:
        """Send these rows' packets again, marked; urgent ones leave this host before what waits."""
        if not len(rows):
            return
        self.counters.retransmissions += len(rows)
        self.tries[rows] += 1
        self._mark_again(rows)
        self._send(rows, now, urgent)

    # --- receiving

    def _settled(self, rows: NDArray[np.intp], once: NDArray[np.bool_], now: float) -> None:
        """Results have come for these rows; `once` where no worker sent a packet of the chunk again, so the round trip counts."""
        self.heard_at = now
        first = rows[once & (self.tries[rows] == 0)]  # what can overtake others
        self.heard_on[self.path[first]] = now
        # what waited through a timeout, of this worker or of others at the same time, tells nothing of the network
        waited, telling, paths = compiled_rows.settle(
            rows, once, now, self.timed_out_at, self.path, self.tries, self.sent_at, self.chunk, self.deadline
        )
        self.sampled_on[paths] = now
        for path, timer in enumerate(self.timers):
            timer.sample(telling if len(self.timers) == 1 else telling[paths == path])
        self.counters.waited += waited
        self.counters.results += len(rows)
        compiled_rows.overtake(first, len(self.timers), self.path, self.order, self.chunk, self.overtaken)
        self.recovery.settled(rows, once, now)

    def _needless(self, paths: NDArray[np.int64], now: float) -> None:
        """Results that are not awaited have come over these paths."""
        self.counters.duplicates += len(paths)
        self.recovery.needless(paths, now)
