"""A Summation Service (BytePS, OSDI '20, section 3): it adds what all workers push, and gives the sums back.

Of each partition the workers' parts are added in the order of their ranks, ((x0 + x1) + x2) + …, in whatever order they come. So
the sum has the same bits in every run, and whichever service adds it, however the tensor is cut.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.byteps import wire
from hosts.byteps.channel import Channels
from hosts.byteps.wire import Header
from hosts.collective import AggregationError, Membership, node_name, workers
from hosts.tcp.meeting import Meeting, MeetingError, await_group

LAST_WORDS = 2.0  # seconds to send why the group cannot go on


def service_name(rank: int, size: int) -> str:
    """What the service on a host of a group with `size` workers is called in messages."""
    return f"the service of worker {rank}" if rank < size else node_name(rank, size)


@dataclass
class Entry:
    """A partition that not all workers have pushed yet."""

    kind: int  # PUSH or KEEP
    dtype: bytes
    size: int  # bytes
    elements: int  # of the whole tensor
    total: NDArray[Any] | None = None  # of the ranks below `next`
    next: int = 0
    parked: dict[int, NDArray[Any]] = field(default_factory=dict)  # parts of later ranks

    def take(self, rank: int, part: NDArray[Any]) -> None:
        """Add a worker's part, or keep it until those before it have come."""
        self.parked[rank] = part
        while self.next in self.parked:
            following = self.parked.pop(self.next)
            if self.total is None:
                self.total = following
            else:
                self.total += following
            self.next += 1

    def lacks(self, workers: int) -> list[int]:
        """Ranks that have not pushed."""
        return [rank for rank in range(self.next, workers) if rank not in self.parked]


@dataclass
class Kept:
    """A partition's sum, and what was added to it since."""

    total: NDArray[Any]
    version: int = 0  # changes so far

    def change(self, part: NDArray[Any]) -> bytes:
        """Add a worker's change; what is kept then."""
        self.total += part
        self.version += 1
        return self.total.tobytes()


class Service:
    """Of one group of workers. Not thread-safe."""

    def __init__(self, membership: Membership, meeting: Meeting) -> None:
        self.membership, self.workers = membership, membership.size
        self.channels = Channels(meeting.sockets)
        self.rooms: dict[int, bytearray] = {}  # by rank: the body that is coming
        self.entries: dict[tuple[int, int], Entry] = {}  # by number of the sum and partition
        self.kept: dict[tuple[int, int], Kept] = {}  # likewise
        self.announced: dict[int, dict[int, str]] = {}  # by sum and rank: what is summed, in words
        self.left: list[int] = []  # ranks of workers that have closed their connections

    @classmethod
    def of_next_group(cls, membership: Membership, peers: list[str], patience: float, over: Callable[[], bool]) -> Service | None:
        """The service of the next group of workers that connects; None once `over`. Raises AggregationError."""
        try:
            meeting = await_group(membership.rank, range(membership.size), peers, wire.TCP_PORT, patience, over)
        except MeetingError as error:
            name = service_name(membership.rank, membership.size)
            who = node_name(error.rank, membership.size)
            raise AggregationError(f"{name}: job {membership.job} cannot be completed: {who} {error.what}", True) from None
        return None if meeting is None else cls(membership, meeting)

    def serve(self) -> None:
        """Add until all workers have left; raises AggregationError where they disagree, or one leaves before the others."""
        while len(self.left) < self.workers:
            for rank, events in self.channels.ready():
                if rank in self.left:
                    continue
                try:
                    if events & EVENT_READ:
                        self._read(rank)
                    if events & EVENT_WRITE:
                        self.channels.write(rank)
                except (OSError, ValueError) as error:
                    self._leave(rank, error)

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            body = self.rooms.pop(rank)
            match header.kind:
                case wire.PUSH | wire.KEEP:
                    self._push(rank, header, body)
                case wire.CHANGE:
                    self._change(rank, header, body)
                case wire.ANNOUNCE:
                    self._compare(rank, header, body.decode(errors="replace"))
                case wire.ASK:
                    entry = self.entries.get((header.number, header.partition))
                    lacks = entry.lacks(self.workers) if entry else []
                    self.channels.put(rank, header._replace(kind=wire.MISSING, size=len(lacks)), bytes(lacks))

    def _room(self, rank: int, header: Header) -> memoryview:
        fits = {wire.ASK: header.size == 0, wire.ANNOUNCE: header.size <= wire.LONGEST_NAME}
        if not fits.get(header.kind, header.kind in (wire.PUSH, wire.KEEP, wire.CHANGE) and header.size % 4 == 0):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        self.rooms[rank] = bytearray(header.size)
        return memoryview(self.rooms[rank])

    def _push(self, rank: int, header: Header, body: bytearray) -> None:
        key = header.number, header.partition
        entry = self.entries.setdefault(key, Entry(header.kind, header.dtype, header.size, header.elements))
        if rank not in entry.lacks(self.workers):
            raise ValueError(f"partition {header.partition} of sum {header.number} twice")
        if (header.dtype, header.size, header.elements) != (entry.dtype, entry.size, entry.elements):
            whose = f"{header.elements:,} elements of {wire.DTYPES[header.dtype]} on worker {rank}"
            self._refuse(f"the workers sum different tensors: {whose}, {entry.elements:,} of {wire.DTYPES[entry.dtype]} on another")
        if header.kind != entry.kind:
            self._refuse(f"some workers want sum {header.number} to be kept, and others do not")
        entry.take(rank, np.frombuffer(body, wire.DTYPES[header.dtype]))
        if gone := [other for other in entry.lacks(self.workers) if other in self.left]:
            self._refuse(f"{workers(gone)} left before sum {header.number}", gone)
        if entry.next == self.workers:
            assert entry.total is not None
            del self.entries[key]
            if entry.kind == wire.KEEP:
                self.kept[key] = Kept(entry.total.copy())
            for other in range(self.workers):
                self.channels.put(other, header._replace(kind=wire.RESULT), entry.total.data)

    def _change(self, rank: int, header: Header, body: bytearray) -> None:
        kept = self.kept.get((header.number, header.partition))
        if kept is None or kept.total.nbytes != header.size or kept.total.dtype != wire.DTYPES[header.dtype]:
            raise ValueError(
                f"a change of {header.size} bytes to partition {header.partition} of sum {header.number}, which is not kept"
            )
        now = kept.change(np.frombuffer(body, kept.total.dtype))
        self.channels.put(rank, header._replace(kind=wire.RESULT, version=kept.version), now)

    def _compare(self, rank: int, header: Header, name: str) -> None:
        """All workers are to sum the same tensor."""
        told = self.announced.setdefault(header.number, {})
        told[rank] = f"{header.elements:,} elements of {wire.DTYPES[header.dtype]}" + f" ({name})" * bool(name)
        if len(set(told.values())) > 1:
            groups: dict[str, list[int]] = {}
            for who, what in sorted(told.items()):
                groups.setdefault(what, []).append(who)
            unlike = "; ".join(f"{what} on {workers(who)}" for what, who in groups.items())
            self._refuse(f"the workers sum different tensors: {unlike}")
        if len(told) == self.workers:
            del self.announced[header.number]

    # --- when it cannot go on

    def _leave(self, rank: int, error: Exception) -> None:
        """A worker's connection has ended. One that leaves in order leaves no sum open; else nobody can go on."""
        self.left.append(rank)
        self.channels.selector.unregister(self.channels[rank].socket)
        if isinstance(error, ValueError):
            self._refuse(f"{node_name(rank, self.workers)} sent an invalid message: {error}", [rank])
        elif self.entries or any(rank not in told for told in self.announced.values()) or self.channels[rank].amid_a_message:
            self._refuse(f"{node_name(rank, self.workers)} is gone: {error}", [rank])

    def _refuse(self, reason: str, missing: list[int] | None = None) -> None:
        """Tell all workers that are there, and raise it here."""
        body = struct.pack(">B", len(missing or [])) + bytes(missing or []) + reason.encode()
        remaining = {rank: channel for rank, channel in self.channels.of.items() if rank not in self.left}
        for channel in remaining.values():
            channel.put(Header(wire.REFUSE, priority=-(1 << 31), size=len(body)), body)
        end = time.monotonic() + LAST_WORDS
        while remaining and time.monotonic() < end:
            for rank, channel in list(remaining.items()):
                try:
                    channel.say_last()
                except OSError:
                    del remaining[rank]
            time.sleep(0.01)
        name = service_name(self.membership.rank, self.workers)
        raise AggregationError(f"{name}: job {self.membership.job} cannot be completed: {reason}", True, tuple(missing or ()))

    def close(self) -> None:
        """Close the connections."""
        self.channels.close()
