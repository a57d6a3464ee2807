"""Connections between the nodes of a group, as who uses them sees them: over TCP, a kernel's or of virtual time, or queue pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from inalab.hosts.collective import Counters


class Segments(NamedTuple):
    """That an end of a connection has sent: all, and those that it sent again; and what its host's processor has handled.

    Over TCP that is every segment, sent or received. Over RDMA it is messages, which the network interface makes packets of.
    """

    sent: int
    again: int
    handled: int = 0


class Connection(Protocol):
    """One end of a connection, which does not block: what cannot go on raises BlockingIOError. OSError tells that it has ended."""

    def fileno(self) -> int:
        """By what its driver's selectors know it."""
        ...

    def send(self, parts: Sequence[memoryview | bytes]) -> int:
        """Hand over as many bytes as there is room for; how many."""
        ...

    def receive(self, into: memoryview) -> int:
        """Take as many bytes as have come, and fit; 0 where the other end sends no more."""
        ...

    def unread(self) -> int:
        """Bytes that have come and were not taken."""
        ...

    def finish(self) -> None:
        """Send no more."""
        ...

    def limit_unsent(self, octets: int) -> None:
        """Take no more bytes while so many have not been sent; what waits elsewhere may still be overtaken."""
        ...

    def notice_silence(self, seconds: float) -> None:
        """End the connection when its other end has not answered for so many seconds, at least about three."""
        ...

    def pace(self, rate: float) -> None:
        """Send no more than so many bytes of data per second; 0 means no limit.

        A connection that has a link to itself then leaves no queue behind which acknowledgments of others would wait.
        """
        ...

    def segments(self) -> Segments: ...

    def close(self) -> None: ...


class MeetingError(RuntimeError):
    """A node is not there: its `rank`, and `what` it did not do."""

    def __init__(self, rank: int, what: str) -> None:
        super().__init__(f"node {rank} {what}")
        self.rank, self.what = rank, what


@dataclass
class Meeting:
    """The epoch of a group, and its connections by rank."""

    epoch: int
    connections: dict[int, Connection] = field(default_factory=dict)

    def close(self) -> None:
        """Close all connections."""
        for made in self.connections.values():
            made.close()


def count_segments(counters: Counters, connections: Iterable[Connection]) -> None:
    """Set `sent`, `retransmissions` and `handled` to the connections' sums so far."""
    found = [connection.segments() for connection in connections]
    counters.handled = sum(segments.handled for segments in found)
    counters.sent = sum(segments.sent for segments in found)
    counters.retransmissions = sum(segments.again for segments in found)
