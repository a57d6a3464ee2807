"""Messages over a TCP connection that does not block: urgent ones leave first, and incoming bytes are read straight into
their destination."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Any, Generic, Protocol, Self, TypeVar

from inalab.hosts.tcp.connection import Connection

UNSENT = 1 << 14  # bytes that the connection holds and has not sent; what waits here may still be overtaken
AT_ONCE = 1 << 18  # bytes that are taken from a connection before others have their turn


class Message(Protocol):
    """What goes ahead of a message's body."""

    @staticmethod
    def length() -> int:
        """Bytes of what `pack` gives, the same for all."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the body."""
        ...

    @property
    def priority(self) -> int:
        """The lower, the sooner it is sent."""
        ...

    def pack(self) -> bytes:
        """As on the wire."""
        ...

    @classmethod
    def unpack(cls, octets: Any) -> Self:
        """What `pack` wrote; ValueError for what it cannot have written."""
        ...


Header = TypeVar("Header", bound=Message)
Room = Callable[[Header], memoryview]


class Channel(Generic[Header]):
    """One connection. Raises OSError when it has ended, and ValueError for what is no message."""

    def __init__(self, made: Connection, header: type[Header]) -> None:
        made.limit_unsent(UNSENT)
        self.connection = made
        self.sent = self.received = 0  # bytes
        self.waiting: list[tuple[int, int, Header, memoryview]] = []  # a heap of messages by priority and order
        self.order = count()
        self.kind = header
        self.sending: Header | None = None  # the message that is being sent
        self.leaving: list[memoryview] = []  # what is left of it
        self.head = memoryview(bytearray(header.length()))
        self.header: Header | None = None  # of the message that is coming
        self.body = memoryview(b"")
        self.filled = 0  # bytes of the head, or of the body

    def put(self, header: Header, body: bytes | memoryview = b"") -> None:
        """Send a message when it is its turn."""
        heapq.heappush(self.waiting, (header.priority, next(self.order), header, memoryview(body).cast("B")))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send."""
        return not self.leaving and not self.waiting

    @property
    def amid_a_message(self) -> bool:
        """Whether a message has begun, in either direction, and not ended."""
        return bool(self.filled or self.header or not self.idle)

    def write(self) -> list[Header]:
        """Send as much as goes; the messages that were sent to their ends."""
        ended: list[Header] = []
        with suppress(BlockingIOError):
            while not self.idle:
                if not self.leaving:
                    _, _, self.sending, body = heapq.heappop(self.waiting)
                    self.leaving = [memoryview(self.sending.pack()), body]
                size = self.connection.send(self.leaving)
                self.sent += size
                while self.leaving and size >= len(self.leaving[0]):
                    size -= len(self.leaving.pop(0))
                if self.leaving:
                    self.leaving[0] = self.leaving[0][size:]
                else:
                    assert self.sending is not None
                    ended.append(self.sending)
        return ended

    def read(self, room: Room[Header]) -> Iterator[Header]:
        """Take in what has come; each message's header once its body is where `room` wants it."""
        left = AT_ONCE
        while left > 0:
            into = self.head if self.header is None else self.body
            if self.filled < len(into):
                try:
                    size = self.connection.receive(into[self.filled :])
                except BlockingIOError:
                    return
                if not size:
                    raise ConnectionResetError("it has closed the connection")
                self.filled += size
                self.received += size
                left -= size
            if self.filled < len(into):
                continue
            self.filled = 0
            if self.header is None:
                self.header = self.kind.unpack(self.head)
                self.body = room(self.header)
            else:
                header, self.header = self.header, None
                yield header

    def say_last(self) -> None:
        """Send as much as goes, and then the end; what comes is thrown away. Raises OSError once the other end has left.

        Closing a connection on which something has come that was not read would take back what was sent last.
        """
        self.write()
        if self.idle:
            self.connection.finish()
        with suppress(BlockingIOError):
            while self.connection.receive(memoryview(bytearray(AT_ONCE))):
                pass
            raise ConnectionResetError("it has closed the connection")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Channels(Generic[Header]):
    """The connections of a node by the ranks of the others, each watched for what there is to read and to send."""

    def __init__(self, connections: Mapping[int, Connection], header: type[Header], selector: BaseSelector) -> None:
        self.of: dict[int, Channel[Header]] = {rank: Channel(made, header) for rank, made in connections.items()}
        self.selector = selector
        for rank, channel in self.of.items():
            self.selector.register(channel.connection, EVENT_READ, rank)

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, rank: int) -> Channel[Header]:
        return self.of[rank]

    def ready(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Ranks whose connections can be read (EVENT_READ) or written (EVENT_WRITE), once there are any."""
        return [(key.data, events) for key, events in self.selector.select(timeout)]

    def put(self, rank: int, header: Header, body: bytes | memoryview = b"") -> None:
        """Send a message when it is its turn."""
        self.of[rank].put(header, body)
        self._watch(rank)

    def write(self, rank: int) -> list[Header]:
        """Send as much as goes; the messages that were sent to their ends."""
        ended = self.of[rank].write()
        self._watch(rank)
        return ended

    def _watch(self, rank: int) -> None:
        channel = self.of[rank]
        wanted = EVENT_READ | (0 if channel.idle else EVENT_WRITE)
        if self.selector.get_key(channel.connection).events != wanted:
            self.selector.modify(channel.connection, wanted, rank)

    def ignore(self, rank: int) -> None:
        """Watch one no longer."""
        self.selector.unregister(self.of[rank].connection)

    def drop(self, rank: int) -> None:
        """Close one, and forget it."""
        self.ignore(rank)
        self.of.pop(rank).close()

    def close(self) -> None:
        """Close all."""
        self.selector.close()
        for channel in self.of.values():
            channel.close()
