"""What a worker does about chunks whose results do not come: send them again, or ask first what has become of them.

Silence has many causes. The worker's own packet is lost, or its result, or another worker's packet; another worker is slow;
or all is well, and a queue is long. Sending a chunk again helps against the first two alone, and costs a full packet in every
other case, from every worker at once. A query is a header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.stream import compiled_rows
from inalab.hosts.stream.retransmission import MOST_BACKOFF, RetransmissionTimer

if TYPE_CHECKING:
    from inalab.hosts.stream.stream import Stream

RECOVERIES = ("ask", "paper")
NEVER = np.full(MOST_BACKOFF + 1, np.inf)  # timeouts by number of tries
GAP = 3  # results of chunks sent later after which one is overdue
LONGEST_BACKOFF = 3  # doublings of the time, or of the results, between two queries about a chunk that lacks others
LONGEST_WAIT = 1.0  # seconds between them
UNSAMPLED = 4  # timeouts without a sample after which a result that comes twice shows that they are too short
MOST_URGENT_GROWTH = 64  # of the round trips of urgent queries: a result that answers one waits in queues of vectors
SHORTEST_URGENT = 0.005  # seconds that what is urgent is waited for at least
Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]


class Recovery(ABC):
    """Of one stream: it learns what is sent and what has come, and acts on rows that are overdue."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.probing = 1  # of the rows that nothing has overtaken: so many are tried next in a silence
        self.pressed = np.zeros(len(stream.chunk), np.int64)  # queries about the row for which results had overtaken it

    def sent(self, rows: Rows) -> None:  # noqa: B027 (not all remember)
        """Packets of these rows have been sent, for the first time or again."""

    @abstractmethod
    def settled(self, rows: Rows, once: Flags, now: float) -> None:
        """Results of these rows have come, and are counted in `overtaken`; `once` where no worker sent a packet again."""

    @abstractmethod
    def expired(self, rows: Rows, now: float) -> None:
        """The deadlines of these rows are over; gives them new ones."""

    def needless(self, paths: NDArray[np.int64], now: float) -> None:  # noqa: B027
        """Results that are not awaited have come over these paths."""

    def _pull(self, now: float) -> bool:
        """Others move, so what is not asked about yet was lost, not late, if it waits for another timeout.

        Returns whether there are gaps: rows that results have overtaken.
        """
        s = self.stream
        gaps: bool = compiled_rows.pull(now, s.backoffs, s.path, s.chunk, self.pressed, s.overtaken, s.deadline)
        return gaps

    def _go_on(self) -> None:
        """The silence goes on: try two rows next, four, up to an eighth of all. A burst of losses lasts for so many packets."""
        self.probing = min(2 * self.probing, max(1, len(self.stream.chunk) // 8))


class Resending(Recovery):
    """A chunk whose timer has run out is sent again (SwitchML, section 3.5); with `at_gaps` also one that results have overtaken.

    A chunk that only waits in a queue is spared: something sent later must have come back, or nothing for a whole timeout.
    """

    def __init__(self, stream: Stream, at_gaps: bool = False) -> None:
        super().__init__(stream)
        self.at_gaps = at_gaps

    def settled(self, rows: Rows, once: Flags, now: float) -> None:
        s = self.stream
        self.probing = 1
        if self._pull(now) and self.at_gaps:
            waiting = s.outstanding()
            s.retransmit(waiting[(s.overtaken[waiting] >= GAP) & (s.tries[waiting] == 0)], now)

    def expired(self, rows: Rows, now: float) -> None:
        s = self.stream
        timeouts = s.timeouts(rows)
        if s.heard_at <= s.sent_at[s.outstanding()].min():  # a straggler, more often than losses
            s.deadline[rows] = now + timeouts
            lost = rows[s.order[rows].argsort()[: self.probing]]  # the oldest
            self._go_on()
        else:
            again = s.heard_at + timeouts
            late = (s.overtaken[rows] == 0) & (again > now)
            s.deadline[rows[late]] = again[late]
            lost = rows[~late]
        if len(lost):
            s.counters.timeouts += 1
            s.timed_out_at = now
        s.retransmit(lost, now)

    def needless(self, paths: NDArray[np.int64], now: float) -> None:
        """Some of what was sent again was not lost."""
        for path in np.unique(paths):
            self.stream.timers[path].needless(now)


class Asking(Recovery):
    """A chunk that is overdue is asked about, and sent again where the answer is that the switch lacks it.

    One is overdue when three results of chunks sent later have come, or fewer at the end of what is under way, or when its
    timer runs out and no results come. Where the answer is that others are missing, the next query waits: for a window of results,
    then for two; or for two round trips of what is urgent, then for twice that, and then for timeouts.

    In a silence the oldest chunk is asked about for all. While the silence lasts others are, in turn, more at a time and less
    often: two workers may each wait for a packet that the other one has lost.

    Where results have overtaken a chunk, its packet has left this host, and so it has, nearly always, where an answer to an earlier
    query is overdue: the query is urgent, and so is what is sent again for an answer. They leave before what waits in this host's
    queue, and their round trips have a timer of their own.
    """

    def __init__(self, stream: Stream, ask: Callable[[Rows, Flags, bool], None]) -> None:
        """`ask` sends queries about rows, urgent ones or not; those that are marked have been asked about, or answered, before."""
        super().__init__(stream)
        self.ask = ask
        self.since_sent = np.zeros((len(stream.chunk), 3), np.int64)
        # queries since the chunk was sent, or sent again; those of them for which results had overtaken it; and which query was the
        # next one when the last status came, 0: none has come
        self.asked, self.pressed, self.informed = self.since_sent.T
        for timer in stream.timers:
            timer.margin = 1 / 4  # of a round trip
        self.silence = 0  # how often chunks were asked about since the last result
        self.asked_at = np.zeros(len(stream.chunk))  # when the last query was sent, if that was urgent, else 0
        # round trips of urgent queries, by what answers: a status is quick, and a result waits in queues of vectors
        self.by_status = RetransmissionTimer(shortest=SHORTEST_URGENT, most_growth=MOST_URGENT_GROWTH)
        self.by_result = RetransmissionTimer(shortest=SHORTEST_URGENT, most_growth=MOST_URGENT_GROWTH)

    def sent(self, rows: Rows) -> None:
        self.since_sent[rows] = 0

    def settled(self, rows: Rows, once: Flags, now: float) -> None:
        s = self.stream
        repeated = rows[~once]
        if len(repeated):
            self._answers(repeated, self.by_result, now)
            if (self.asked[repeated] > np.maximum(self.informed[repeated], 1)).any():
                self.by_result.needless(now)
        if len(repeated) and (self.asked[rows] > 0).all():
            self._follow(s.path[repeated], now)
        else:
            self.probing, self.silence = 1, 0
        if not self._pull(now):
            return  # as nearly always
        late = compiled_rows.overdue(GAP, LONGEST_BACKOFF, s.path, s.chunk, s.order, s.overtaken, self.pressed)
        self._overdue(late, now)

    def expired(self, rows: Rows, now: float) -> None:
        s = self.stream
        waiting = s.outstanding()
        quiet = waiting[(s.overtaken[waiting] == 0) & (self.pressed[waiting] == 0) & (s.tries[waiting] == 0)]
        rows = self._patiently(rows, quiet, now)
        if not len(rows):
            return
        s.counters.timeouts += 1
        s.timed_out_at = now
        self._overdue(np.setdiff1d(rows, quiet), now)
        for _, of_path in s.by_path(quiet):
            self._in_silence(quiet[of_path], np.intersect1d(quiet[of_path], rows), now)

    def _patiently(self, rows: Rows, quiet: Rows, now: float) -> Rows:
        """Those of these rows whose time is up: what nothing has overtaken waits in a queue while results come over its path."""
        s = self.stream
        margins = s.backoffs[:, 0] - [timer.srtt for timer in s.timers]
        until = np.where(np.isin(rows, quiet), (s.heard_on + margins)[s.path[rows]], now)
        s.deadline[rows] = until
        return rows[until <= now]

    def _in_silence(self, quiet: Rows, silent: Rows, now: float) -> None:
        """Of the rows of a path that nothing has overtaken, the deadlines of some are over: ask about those asked about least."""
        if not len(silent):
            return
        s = self.stream
        first = quiet[np.lexsort((s.order[quiet], self.asked[quiet]))[: self.probing]]
        if len(due := np.intersect1d(first, silent)):
            known = self.asked[due] > 0
            self._query(due[~known], now)
            self._query(due[known], now, urgent=True)
            if self.silence:
                self._go_on()
            self.silence += 1
        rest = np.setdiff1d(silent, first)
        self._pause(rest, now)
        s.deadline[rest] = np.maximum(s.deadline[first].max(), s.deadline[rest])

    def _follow(self, paths: NDArray[np.int64], now: float) -> None:
        """What was asked about in a silence was lost, and so may be what was sent after it: ask about more of that at once."""
        if not self.silence:
            return
        self._go_on()
        s = self.stream
        waiting = s.outstanding()
        untouched = (s.overtaken[waiting] == 0) & (s.tries[waiting] == 0) & (self.asked[waiting] == 0)
        quiet = waiting[untouched & np.isin(s.path[waiting], paths)]
        for _, of_path in s.by_path(quiet):
            self._query(quiet[of_path][s.order[quiet[of_path]].argsort()[: self.probing]], now, urgent=True)

    def answered(self, rows: Rows, lacking: Flags, now: float, near: bool = False) -> None:
        """What the network says of these rows' chunks: that it lacks this worker's part, or only others'.

        `near`: it may be the next switch that says so, where others are behind it. How soon that answers tells too little of them.
        """
        s = self.stream
        self.informed[rows] = self.asked[rows] + 1
        self._pause(rows[~lacking], now)
        if not near:
            self._answers(rows, self.by_status, now)
        again = rows[lacking]
        if len(again):
            s.retransmit(again, now, urgent=True)
            compiled_rows.hasten(again, now, self._urgent_timeouts(), s.tries, s.deadline)
            self._follow(s.path[again], now)

    def _answers(self, rows: Rows, timer: RetransmissionTimer, now: float) -> None:
        """Statuses about these rows, or results that were sent again, have come: round trips of urgent queries, by Karn's rule.

        A result is as good an answer as a status, and slower: it waits where vectors do. If it did not count, queries would be
        repeated while their answers wait, each for another vector, until slow links carry nothing else.
        What was sent again for somebody else's sake counts, too, and makes timeouts longer: without it ATP's sums take 1.9 times as
        long at 0.8 Mbit/s and 1 % loss, with it 1.3 (--target virtual).
        """
        asked_at = self.asked_at[rows[self.asked[rows] == 1]]
        timer.sample(now - asked_at[asked_at > 0])

    def needless(self, paths: NDArray[np.int64], now: float) -> None:
        """Queries may cross their results. But a timer that never sees a round trip without a query is too short."""
        s = self.stream
        for path in np.unique(paths):
            if now - s.sampled_on[path] > UNSAMPLED * s.timers[path].timeout:
                s.timers[path].needless(now)

    def lost(self, rows: Rows, now: float) -> None:
        """Results of these rows are known to be lost."""
        self._overdue(rows, now)

    def _pause(self, rows: Rows, now: float) -> None:
        """Set when these rows are asked about again, where others are missing."""
        s = self.stream
        soon = 2 * self._urgent_timeouts()[0]
        compiled_rows.pause(
            rows, now, self.silence, LONGEST_BACKOFF, LONGEST_WAIT, s.backoffs, soon, s.path, self.asked, self.pressed, s.deadline
        )

    def _urgent_timeouts(self) -> NDArray[np.float64]:
        """By number of tries, in seconds; infinite until a round trip is known. Who asks waits for the slower kind of answer."""
        known = [timer.timeouts for timer in (self.by_status, self.by_result) if timer.srtt]
        return np.max(known, axis=0) if known else NEVER

    def _overdue(self, rows: Rows, now: float) -> None:
        """Ask about rows that others have overtaken; not again before another window of results has."""
        s = self.stream
        self.pressed[rows] += 1
        s.overtaken[rows] = 0
        self._query(rows, now, urgent=True)

    def _query(self, rows: Rows, now: float, urgent: bool = False) -> None:
        if not len(rows):
            return
        s = self.stream
        again = compiled_rows.query(
            rows, now, urgent, s.backoffs, self._urgent_timeouts()[0], s.path, self.asked, self.informed, self.asked_at, s.deadline
        )
        self.ask(rows, again, urgent)
        s.counters.queries += len(rows)
