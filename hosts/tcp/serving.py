"""A server of a group of workers over TCP: how it is met, how long it serves, and how it ends when the group cannot go on."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE
from typing import ClassVar, Generic

from inalab.hosts.collective import AggregationError, Membership, node_name
from inalab.hosts.tcp.channel import Channels, Header
from inalab.hosts.tcp.connection import Meeting, MeetingError
from inalab.hosts.tcp.group import Group

LAST_WORDS = 2.0  # seconds to send why the group cannot go on


class GroupServer(ABC, Generic[Header]):
    """Of one group: all its workers connect to it, and whoever else its `partners` are. Not thread-safe."""

    port: ClassVar[int]
    pulse: ClassVar[float | None] = None  # seconds after which it looks after what is under way, though nothing comes

    def __init__(self, group: Group, meeting: Meeting | Channels[Header], header: type[Header]) -> None:
        """With the connections of a meeting, or channels that watch them already."""
        self.membership, self.workers, self.driver = group.membership, group.membership.size, group.driver
        if isinstance(meeting, Meeting):
            meeting = Channels(meeting.connections, header, self.driver.selector())
        self.channels = meeting
        self.left: list[int] = []  # ranks of those that have closed their connections

    @classmethod
    def met(cls, group: Group, over: Callable[[], bool], port: int | None = None) -> Meeting | None:
        """The next group of workers that connects, where it is not to another port; None once `over`. Raises AggregationError."""
        try:
            return group.await_all(cls.partners(group.membership), port or cls.port, over)
        except MeetingError as error:
            who = node_name(error.rank, group.membership.size)
            raise cls.incomplete(group.membership, f"{who} {error.what}") from None

    @classmethod
    def partners(cls, membership: Membership) -> range:
        """Ranks of those that connect to it."""
        return range(membership.size)

    @classmethod
    def name(cls, membership: Membership) -> str:
        """What the server is called in messages."""
        return node_name(membership.rank, membership.size)

    @classmethod
    def incomplete(cls, membership: Membership, reason: str, *missing: int) -> AggregationError:
        """To be raised when the group lacks these workers."""
        text = f"{cls.name(membership)}: job {membership.job} cannot be completed: {reason}"
        return AggregationError(text, True, missing)

    def serve(self) -> None:
        """Serve until all workers have left; raises AggregationError where they disagree, or one leaves before the others."""
        while any(rank not in self.left for rank in range(self.workers)):
            for rank, events in self.channels.ready(self._rest()):
                if rank in self.left:
                    continue
                try:
                    if events & EVENT_READ:
                        self._read(rank)
                    if events & EVENT_WRITE:
                        self.channels.write(rank)
                except (OSError, ValueError) as error:
                    self._leave(rank, error)
            self._look_after()

    def _rest(self) -> float | None:
        """Seconds after which it looks after what is under way; None: when something comes."""
        return self.pulse

    def _look_after(self) -> None:
        """Do what is due, though nothing has come."""

    @abstractmethod
    def _read(self, rank: int) -> None:
        """Take in what a worker has sent. ValueError for what it cannot have."""

    @abstractmethod
    def _expected(self, rank: int) -> bool:
        """Whether a worker has left too early: others still need it, or it still needs something from them."""

    @abstractmethod
    def _refusal(self, size: int) -> Header:
        """What goes ahead of so many bytes that say why the group cannot go on."""

    def _who(self, rank: int) -> str:
        """What one of those that connect is called in messages."""
        return node_name(rank, self.workers)

    def _leave(self, rank: int, error: Exception) -> None:
        """A worker's connection has ended. The group cannot go on if it was still expected, or sent an invalid message."""
        self.left.append(rank)
        self.channels.ignore(rank)
        if isinstance(error, ValueError):
            self._refuse(f"{self._who(rank)} sent an invalid message: {error}", rank)
        elif self._expected(rank):
            self._refuse(f"{self._who(rank)} is gone: {error}", rank)

    def _refuse(self, reason: str, *missing: int) -> None:
        """Tell all workers that are there, and raise it here."""
        body = refused(reason, missing)
        remaining = {rank: self.channels[rank] for rank in range(self.workers) if rank not in self.left}
        for channel in remaining.values():
            channel.put(self._refusal(len(body)), body)
        end = self.driver.monotonic() + LAST_WORDS
        while remaining and self.driver.monotonic() < end:
            for rank, channel in list(remaining.items()):
                try:
                    channel.say_last()
                except OSError:
                    del remaining[rank]
            self.driver.sleep(0.01)
        raise self.incomplete(self.membership, reason, *missing)

    def close(self) -> None:
        """Close the connections."""
        self.channels.close()


def refused(reason: str, missing: tuple[int, ...]) -> bytes:
    """Why a group cannot go on, and the ranks that it lacks."""
    return struct.pack(">B", len(missing)) + bytes(missing) + reason.encode()


def reason_of(body: bytes | bytearray) -> tuple[str, tuple[int, ...]]:
    """What `refused` wrote; ValueError for what it cannot have written."""
    if not body:
        raise ValueError("a refusal without a reason")
    return body[1 + body[0] :].decode(errors="replace"), tuple(body[1 : 1 + body[0]])
