"""A stream of chunks that results acknowledge: what is outstanding, when it is sent again, and when to give up.

A row is a place for an outstanding chunk and its packet: a slot of SwitchML's pool, a place in ATP's window.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hosts.collective import AggregationError, Counters, Membership
from hosts.datagrams import BatchSocket
from hosts.retransmission import RetransmissionTimer
from hosts.timeline import Timeline

MAX_ROWS = 1 << 15
LONGEST_NAP = 0.005  # seconds that results may wait to be handled in one batch
BURSTS = 16  # that a window is sent in at least, so that the link is never idle between two


class Progress(Protocol):
    """How far an all-reduce is: chunks of it, and those without a result yet."""

    length: int
    remaining: int


class Stream(ABC):
    """The sending half of a worker, up to `rows` chunks outstanding. Not thread-safe.

    Chunks to different peers take different paths: each has round trips of its own, and order holds on each alone.
    `pulse` is called about every half second while nothing arrives; what it returns, if anything, is the reason to give up
    (a worker is known to be dead). `patience` is the longest silence, in seconds, before giving up in any case.
    """

    def __init__(
        self, membership: Membership, local: tuple[str, int], peers: list[tuple[str, int]], rows: int, record: np.dtype,
        patience: float, pulse: Callable[[], str | None],
    ) -> None:  # fmt: skip
        if not 1 <= rows <= MAX_ROWS:
            raise ValueError(f"from 1 to {MAX_ROWS} chunks can be under way, not {rows}")
        self.membership, self.record, self.patience, self.pulse = membership, record, patience, pulse
        self.socket = BatchSocket(local, peers, record, rows, max(64, 2 * rows), rows // BURSTS)
        self.counters = Counters()
        self.timers = [RetransmissionTimer() for _ in peers]  # by path
        self.timeline: Timeline | None = None  # to note packets in, where somebody wants to see them
        self.position = 0  # of the stream
        self.chunk = np.full(rows, -1, np.int64)  # outstanding in each row, -1: none
        self.sent_at = np.zeros(rows)
        self.deadline = np.full(rows, np.inf)
        self.tries = np.zeros(rows, np.int64)
        self.probing = 1  # rows that ask next time, while no result of a collective has come
        self.heard_at = 0.0  # when the last result came
        self.timed_out_at = 0.0
        self.newest = np.zeros(len(peers))  # by path, when the newest of the chunks that came back was sent

    def _paths(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Which peer each row's chunk goes to."""
        return np.zeros(len(rows), np.int64)

    def _timeouts(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Of these rows' paths, in seconds."""
        return np.array([timer.timeout for timer in self.timers])[self._paths(rows)]

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x (float32 or int32, any shape) over all workers.

        Raises TypeError for another dtype and AggregationError when the sum cannot be completed.
        """
        if x.dtype not in (np.float32, np.int32):
            raise TypeError(f"float32 and int32 can be aggregated, {x.dtype} cannot")
        if x.size == 0:
            return x.copy()
        return self._sum(np.ascontiguousarray(x).reshape(-1)).reshape(-1)[: x.size].reshape(x.shape)

    @abstractmethod
    def _sum(self, flat: NDArray[Any]) -> NDArray[Any]:
        """The sum of a tensor (elements,) over all workers, in its dtype, by chunks (chunks, k)."""

    def _in_chunks(self, flat: NDArray[Any]) -> NDArray[Any]:
        """A tensor as (chunks, k), padded with zeros."""
        k = self.record["vector"].shape[0]
        values = np.zeros((-(-flat.size // k), k), flat.dtype)
        values.reshape(-1)[: flat.size] = flat
        return values

    @abstractmethod
    def _receive(self, t: Any) -> bool:
        """Take in all results that are there and send what they release; False if nothing new came."""

    @abstractmethod
    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        """Mark these rows' packets as sent again."""

    @abstractmethod
    def _explain(self, reason: str) -> AggregationError:
        """Why the oldest chunk cannot be completed."""

    def _run(self, t: Progress) -> None:
        """Wait for results, send again what is lost, until nothing remains; raises AggregationError."""
        self.probing = 1
        self.heard_at = pulsed = time.monotonic()
        while t.remaining:
            now = time.monotonic()
            expired = np.flatnonzero(self.deadline <= now)
            if len(expired):
                lost = self._lost(expired, now) if t.remaining < t.length else self._probe(expired, now)
                if len(lost):
                    self.counters.timeouts += 1
                    self.timed_out_at = now
                self._retransmit(lost)
            nearest = float(self.deadline.min())
            if self.socket.wait(min(nearest - now, 0.5)):
                nap = min(min(timer.srtt for timer in self.timers) / 4, LONGEST_NAP)
                if nap > 1e-4:
                    time.sleep(nap)
                if self._receive(t):
                    pulsed = self.heard_at
                    continue
            now = time.monotonic()
            if now - self.heard_at > self.patience:
                raise self._explain(f"nothing arrived for {self.patience:g} s")
            if now - pulsed > 0.5:
                pulsed = now
                if reason := self.pulse():
                    raise self._explain(reason)

    # --- sending

    def _transmit(self, rows: NDArray[np.intp]) -> int:
        """Hand these rows' packets to the kernel; how many it took."""
        return self.socket.send(rows, give_up_at=time.monotonic() + self.patience)

    def _send(self, rows: NDArray[np.intp]) -> None:
        if self._transmit(rows) < len(rows):
            raise AggregationError(f"job {self.membership.job}: the interface of worker {self.membership.rank} takes no packets")
        now = time.monotonic()
        self.sent_at[rows] = now
        paths = self._paths(rows)
        for path, timer in enumerate(self.timers):
            mine = rows[paths == path]
            self.deadline[mine] = now + timer.after(self.tries[mine])
        self.counters.sent += len(rows)
        if self.timeline:
            again = int((self.tries[rows] > 0).sum())
            self.timeline.note(int((self.chunk >= 0).sum()), len(rows) - again, again)
        self.counters.bytes_sent += len(rows) * self.record.itemsize

    def _retransmit(self, rows: NDArray[np.intp]) -> None:
        if not len(rows):
            return
        self.counters.retransmissions += len(rows)
        self.tries[rows] += 1
        self._mark_again(rows)
        self._send(rows)

    def _lost(self, expired: NDArray[np.intp], now: float) -> NDArray[np.intp]:
        """Those of the expired chunks that are lost and not only queued: something sent later has come back, or nothing has.

        The others get until the network has been silent for a whole timeout.
        """
        timeouts = self._timeouts(expired)
        if now - self.heard_at >= timeouts.max():
            return expired
        overtaken = self.sent_at[expired] < self.newest[self._paths(expired)]
        self.deadline[expired[~overtaken]] = self.heard_at + timeouts[~overtaken]
        return expired[overtaken]

    def _probe(self, expired: NDArray[np.intp], now: float) -> NDArray[np.intp]:
        """Before the first result of a collective, silence means a straggler more often than loss: one row asks for all.

        As it goes on, two ask, four, up to an eighth of the rows: a burst of losses ends after so many packets, not seconds.
        """
        oldest = expired[self.chunk[expired].argsort(kind="stable")[: self.probing]]
        self.probing = min(2 * self.probing, max(1, len(self.chunk) // 8))
        self.deadline[expired] = now + self._timeouts(expired)
        return oldest

    # --- receiving

    def _settled(self, rows: NDArray[np.intp], once: NDArray[np.bool_]) -> None:
        """Results have come for these rows; `once` where nobody sent a packet of the chunk again, so the round trip counts."""
        now = time.monotonic()
        self.heard_at = now
        # what waited through a time-out, of this worker or of others at the same time, tells nothing of the network
        telling = once & (self.tries[rows] == 0) & (self.sent_at[rows] > self.timed_out_at)
        paths = self._paths(rows)
        for path, timer in enumerate(self.timers):
            mine = paths == path
            if mine.any():
                self.newest[path] = max(self.newest[path], self.sent_at[rows[mine]].max())
                timer.sample((now - self.sent_at[rows])[telling & mine])
        self.counters.waited += float((now - self.sent_at[rows]).sum())
        self.counters.results += len(rows)
        self.chunk[rows] = -1
        self.deadline[rows] = np.inf
        # the others move: whoever still waits after this long was lost, not late
        waiting = np.flatnonzero(np.isfinite(self.deadline))
        self.deadline[waiting] = np.minimum(self.deadline[waiting], now + self._timeouts(waiting))

    def _needless(self, paths: NDArray[np.int64]) -> None:
        """Results that nobody waits for have come over these paths: some of what was sent again was not lost."""
        self.counters.duplicates += len(paths)
        for path in np.unique(paths):
            self.timers[path].needless(time.monotonic())

    def _oldest(self) -> int:
        """The row of the oldest outstanding chunk."""
        return int(np.where(self.chunk >= 0, self.chunk, np.iinfo(np.int64).max).argmin())

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
