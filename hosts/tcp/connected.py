"""A worker whose collectives are messages to and from other nodes over TCP: how it waits, and whom it names when nothing comes."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from selectors import EVENT_READ, EVENT_WRITE
from typing import Generic

from inalab.hosts.collective import NEVER, AggregationError, Counters, Sum, Summing, workers
from inalab.hosts.tcp.channel import Channel, Channels, Header
from inalab.hosts.tcp.connection import Meeting, count_segments
from inalab.hosts.tcp.group import Group

PULSE = 0.5  # seconds after which the pulse is felt again
SILENCE = 4.0  # seconds without a byte after which a node is asked whom it lacks
ANSWER = 4.0  # seconds that it has to answer
DEAD = 8.0  # seconds after which a connection ends whose other end is gone
log = logging.getLogger("inalab")


class Connected(Summing, Generic[Header]):
    """All-reduces over connections to other nodes of a group, by rank."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.membership, self.patience, self.pulse, self.driver = group.membership, group.patience, group.pulse, group.driver
        self.counters, self.past = Counters(), Counters()  # the latter of nodes that are gone
        self.uncounted: set[int] = set()  # nodes that are not on the data network
        self.channels: Channels[Header]
        self.heard_at = self.progress_at = self.pulsed_at = self.asked_at = 0.0  # when bytes moved, something was over
        self.answered = True
        self.asked = 0  # rank of the node that was asked
        self.wording = ""  # whom a sum waits for, as it was last found out

    def _connect(self, meeting: Meeting, header: type[Header]) -> None:
        """Take over the connections of a meeting."""
        for made in meeting.connections.values():
            made.notice_silence(min(self.patience, DEAD))
        self.channels = Channels(meeting.connections, header, self.driver.selector())

    @abstractmethod
    def _name(self, rank: int) -> str:
        """What a node is called in messages."""

    def _named(self, ranks: list[int]) -> str:
        return workers(ranks)

    @abstractmethod
    def _read(self, rank: int) -> None:
        """Take in what a node has sent. ValueError for what it cannot have."""

    @abstractmethod
    def _sent(self, headers: list[Header]) -> None:
        """These messages have left."""

    @abstractmethod
    def _ask(self) -> int:
        """In a silence: ask a node whom it lacks; its rank."""

    def _error(self, reason: str, *missing: int) -> AggregationError:
        m = self.membership
        text = f"worker {m.rank}: job {m.job} cannot be completed: {reason}"
        return AggregationError(text, True, tuple(rank for rank in missing if rank < m.size))

    def _advance(self, started: Sum, interrupt: int) -> None:
        with self._interrupted_by(interrupt):
            while started.total is None and self._serve_ready():
                if started.total is None:
                    self._watch_over(self.driver.monotonic())

    @contextmanager
    def _interrupted_by(self, interrupt: int) -> Iterator[None]:
        """Watch this file descriptor, too, unless it is NEVER."""
        if interrupt != NEVER:
            self.channels.selector.register(interrupt, EVENT_READ, NEVER)
        try:
            yield
        finally:
            if interrupt != NEVER:
                self.channels.selector.unregister(interrupt)

    def _serve_ready(self) -> bool:
        """Serve every node that is ready, once one is, or for a moment; False once interrupted."""
        ready = self.channels.ready(PULSE)
        for rank, events in ready:
            if rank in self.channels.of:  # else it is the interrupt, or one that was forgotten meanwhile
                self._serve(rank, events)
        return all(rank != NEVER for rank, _ in ready)

    def _serve(self, rank: int, events: int) -> None:
        """Send to and receive from a node as much as goes without blocking."""
        channel = self.channels[rank]
        before = channel.sent + channel.received
        try:
            if events & EVENT_READ:
                self._read(rank)
            if events & EVENT_WRITE:
                self._sent(self.channels.write(rank))
        except ValueError as error:
            raise self._error(f"{self._name(rank)} sent an invalid message: {error}") from None
        except OSError as error:
            self._lost(rank, error)
        if channel.sent + channel.received > before:
            self.heard_at = self.driver.monotonic()

    def _lost(self, rank: int, error: OSError) -> None:
        """The connection to a node has ended."""
        raise self._error(f"{self._name(rank)} is gone: {error}", rank) from None

    def _begin(self) -> None:
        """Something is under way from now on."""
        self.heard_at = self.progress_at = self.driver.monotonic()

    def _count(self) -> None:
        """Set the counters to what has been sent and received so far."""
        channels = [channel for rank, channel in self.channels.of.items() if rank not in self.uncounted]
        self._add_up(self.counters, self.past, channels)

    def _forget(self, rank: int) -> None:
        """Go on without a node, whose counters stay."""
        self._add_up(self.past, replace(self.past), [self.channels[rank]])
        self.channels.drop(rank)

    @staticmethod
    def _add_up(into: Counters, before: Counters, channels: list[Channel[Header]]) -> None:
        """What was counted before, and of these connections."""
        count_segments(into, [channel.connection for channel in channels])
        into.sent += before.sent
        into.retransmissions += before.retransmissions
        into.handled += before.handled
        into.bytes_sent = before.bytes_sent + sum(channel.sent for channel in channels)
        into.bytes_received = before.bytes_received + sum(channel.received for channel in channels)

    # --- when nothing comes

    def _watch_over(self, now: float) -> None:
        """Give up where somebody knows a reason; in a silence, ask who is missing."""
        if now - self.pulsed_at < min(PULSE, self.patience / 4):
            return
        self.pulsed_at, silent = now, now - self.heard_at
        if self.pulse and (reason := self.pulse()):
            raise self._error(reason)
        if not self.answered and now - max(self.asked_at, self.heard_at) > ANSWER:
            raise self._error(f"{self._name(self.asked)} has not answered for {ANSWER:g} s", self.asked)
        if self.answered and silent > min(SILENCE, self.patience / 2):
            self.asked_at, self.answered, self.heard_at = now, False, now
            self.asked = self._ask()

    def _waits(self, what: str, missing: list[int]) -> None:
        """A node has answered whom it lacks for what is under way."""
        wording = f"{what} waits for {self._named(missing)}"
        if self.pulse is None and self.driver.monotonic() - self.progress_at > self.patience:
            raise self._error(f"{wording}, for {self.patience:g} s", *missing)
        if wording != self.wording:
            log.warning("worker %d: job %d: %s", self.membership.rank, self.membership.job, wording)
        self.wording = wording

    def close(self) -> None:
        """Close the connections."""
        self.channels.close()
