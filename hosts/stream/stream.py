"""A stream of chunks that results acknowledge: what is outstanding, and the loop that waits for what is under way.

A row is a place for an outstanding chunk and its packet: a slot of SwitchML's pool, a place in ATP's window. What is done about
chunks whose results do not come is hosts.stream.recovery's.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Counters, Membership, Sum, Summing
from inalab.hosts.stream import compiled_rows
from inalab.hosts.stream.announcement import announce, differences
from inalab.hosts.stream.datagrams import BatchSocket
from inalab.hosts.stream.recovery import Recovery
from inalab.hosts.stream.retransmission import MOST_BACKOFF, RetransmissionTimer
from inalab.hosts.stream.timeline import Timeline

MAX_ROWS = 1 << 15
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.005  # seconds that results may wait to be handled in one batch
PULSE = 0.5  # seconds without a result after which the pulse is felt
BURSTS = 8  # that a window is sent in at least, so that the link is never idle between two


log = logging.getLogger("inalab")


@dataclass(frozen=True)
class Absence:
    """What is known of the workers that a chunk lacks: a sentence, whether waiting for them makes sense, and their ranks.

    It does where the network answers and the chunk lacks other workers than this one.
    """

    text: str
    worth_waiting: bool = False
    missing: tuple[int, ...] = ()


@dataclass(eq=False)
class UnderWay:
    """An all-reduce under way: which of the stream's numbers are its, and how many of its chunks have no result yet."""

    started: Sum
    start: int
    length: int
    remaining: int


class Stream(Summing):
    """The sending half of a worker, up to `rows` chunks outstanding, of any number of tensors. Not thread-safe.

    Chunks to different peers take different paths: each has round trips of its own, and order holds on each alone.
    `epoch` is that of the group; what comes from another is refused.
    `patience` is how long, in seconds, the oldest chunk may wait for its result before giving up, whatever else arrives. Where
    somebody watches over the workers there is a `pulse`: called about every half second while nothing arrives, it gives the
    reason to give up, if there is one (a worker is known to be dead). A worker that is alive may then take as long as it likes.
    Without a pulse its silence counts as the network's.
    """

    recovery: Recovery  # which the scheme sets

    def __init__(
        self, membership: Membership, epoch: int, local: tuple[str, int], peers: list[tuple[str, int]], rows: int,
        record: np.dtype, patience: float, pulse: Callable[[], str | None] | None, spare: int = 0,
    ) -> None:  # fmt: skip
        """`spare` packets beside those of the rows are for the scheme's own use."""
        super().__init__()
        if not 1 <= rows <= MAX_ROWS:
            raise ValueError(f"from 1 to {MAX_ROWS} chunks can be under way, not {rows}")
        self.membership, self.epoch, self.record, self.patience, self.pulse = membership, epoch, record, patience, pulse
        self.k: int = record["vector"].shape[0]
        self.socket = BatchSocket(local, peers, record, rows + spare, max(64, 2 * rows), rows // BURSTS)
        self.counters = Counters()
        self.timers = [RetransmissionTimer() for _ in peers]  # by path
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
        self.heard_on = np.zeros(len(peers))  # by path, of a chunk that no worker sent again
        self.sampled_on = np.zeros(len(peers))  # by path, when a round trip has told of the network
        self.timed_out_at = 0.0
        self.pulsed = self.patient_from = 0.0  # when the pulse was felt, and since when no chunk that was the oldest has come
        self.oldest_chunk = -1  # when that was looked at last

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

    def _of(self, numbers: NDArray[np.int64]) -> Iterator[tuple[Any, NDArray[np.bool_]]]:
        """The all-reduces that these numbers of the stream are of, and which of the numbers."""
        for t in list(self.under_way):
            if (mine := (numbers >= t.start) & (numbers < t.start + t.length)).any():
                yield t, mine

    def _announcement(self, tensor: NDArray[Any]) -> NDArray[np.int32]:
        return announce(tensor, self.membership.rank, self.membership.size, self.k)

    def _check_announcement(self, total: NDArray[np.int32], tensor: NDArray[Any]) -> None:
        """Raise AggregationError if some worker sums another tensor."""
        if unlike := differences(total, tensor, self.membership.size, self.k):
            who = f"worker {self.membership.rank}: job {self.membership.job}"
            raise AggregationError(f"{who} cannot be completed: {unlike}", incomplete=True)

    @abstractmethod
    def _receive(self) -> bool:
        """Take in all that is there and send what it releases; False if no new result came."""

    @abstractmethod
    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        """Mark these rows' packets as sent again."""

    def _gone(self) -> str | None:
        """Why to give up, if the scheme itself knows a reason."""
        return None

    @abstractmethod
    def _where(self, row: int) -> str:
        """What a row's chunk is called in messages."""

    @abstractmethod
    def _absence(self, row: int) -> Absence:
        """Find out whom a row's chunk lacks."""

    def _failure(self, where: str, reason: str, absence: Absence) -> AggregationError:
        text = f"worker {self.membership.rank}: {where} cannot be completed: {reason}; {absence.text}"
        return AggregationError(text, incomplete=True, missing=absence.missing)

    def _explain(self, reason: str) -> AggregationError:
        """Why the oldest chunk cannot be completed."""
        row = self.oldest()
        where = self._where(row)
        return self._failure(where, reason, self._absence(row))

    def _out_of_patience(self) -> None:
        """The oldest chunk has waited for `patience`: raise AggregationError, unless a worker that is alive is only slow."""
        row = self.oldest()
        where, chunk = self._where(row), self.chunk[row]
        absence = self._absence(row)
        if self.chunk[row] != chunk:
            return  # its result has come at last
        if self.pulse is None or not absence.worth_waiting:
            reason = f"nothing arrived for {self.patience:g} s"
            if self.heard_at > time.monotonic() - self.patience:
                reason = f"its result did not come for {self.patience:g} s, though others did"
            raise self._failure(where, reason, absence)
        log.warning("worker %d: %s waits: %s", self.membership.rank, where, absence.text)

    def _advance(self, started: Sum, interrupt: int) -> None:
        """Wait for results and recover what is lost until a sum is over, or there is something else to do."""
        if not self.socket.interrupted:  # else the same silence goes on
            self.pulsed = self.patient_from = time.monotonic()
        while started.total is None:
            now = time.monotonic()
            first, outstanding, oldest = compiled_rows.watch(self.chunk, self.deadline)
            if oldest != self.oldest_chunk:
                self.oldest_chunk, self.patient_from = oldest, now
            elif now - self.patient_from > self.patience:
                self._out_of_patience()
                self.patient_from = time.monotonic()
            if first <= now:
                self.recovery.expired(np.flatnonzero(self.deadline <= now), now)
                first, outstanding, _ = compiled_rows.watch(self.chunk, self.deadline)
            arrived = self.socket.wait(min(first - now, PULSE), interrupt)
            if self.socket.interrupted:
                return
            if arrived:
                self._nap(outstanding)
                if self._receive():
                    self.pulsed = self.heard_at
                    continue
            now = time.monotonic()
            if started.total is None and now - self.pulsed > PULSE:
                self.pulsed = now
                if reason := self._gone() or (self.pulse and self.pulse()):
                    raise self._explain(reason)

    def _nap(self, outstanding: int) -> None:
        """Let more results come, to be handled in one batch: for a quarter of what is outstanding, a millisecond at least."""
        share = outstanding / len(self.chunk)
        round_trip = min(timer.srtt for timer in self.timers)
        time.sleep(min(max(share * round_trip / 4, min(SHORTEST_NAP, round_trip / 4)), LONGEST_NAP))

    # --- sending

    def _transmit(self, rows: NDArray[np.intp]) -> int:
        """Hand these rows' packets to the kernel; how many it took."""
        return self.socket.send(rows, give_up_at=time.monotonic() + self.patience)

    def _send(self, rows: NDArray[np.intp]) -> None:
        if self._transmit(rows) < len(rows):
            raise AggregationError(f"job {self.membership.job}: the interface of worker {self.membership.rank} takes no packets")
        now = time.monotonic()
        compiled_rows.sent(
            rows, now, self.packets, self.backoffs, self.path, self.tries, self.sent_at, self.order, self.deadline, self.overtaken
        )
        self.packets += len(rows)
        self.recovery.sent(rows)
        self.counters.sent += len(rows)
        if self.timeline:
            again = int((self.tries[rows] > 0).sum())
            self.timeline.note(int((self.chunk >= 0).sum()), len(rows) - again, again)
        self.counters.bytes_sent += len(rows) * self.record.itemsize

    def retransmit(self, rows: NDArray[np.intp], urgent: bool = False) -> None:
        """Send these rows' packets again, marked; urgent ones leave this host before what waits."""
        if not len(rows):
            return
        self.counters.retransmissions += len(rows)
        self.tries[rows] += 1
        self._mark_again(rows)
        with self.urgently(urgent):
            self._send(rows)

    @contextmanager
    def urgently(self, urgent: bool) -> Iterator[None]:
        """What is sent here leaves this host before what waits, if it is urgent."""
        if urgent:
            self.socket.set_urgent(True)
        try:
            yield
        finally:
            if urgent:
                self.socket.set_urgent(False)

    # --- receiving

    def _settled(self, rows: NDArray[np.intp], once: NDArray[np.bool_]) -> None:
        """Results have come for these rows; `once` where no worker sent a packet of the chunk again, so the round trip counts."""
        now = time.monotonic()
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

    def _needless(self, paths: NDArray[np.int64]) -> None:
        """Results that are not awaited have come over these paths."""
        self.counters.duplicates += len(paths)
        self.recovery.needless(paths, time.monotonic())

    def oldest(self) -> int:
        """The row of the oldest outstanding chunk."""
        return int(np.where(self.chunk >= 0, self.chunk, np.iinfo(np.int64).max).argmin())

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
