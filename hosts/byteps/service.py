"""A Summation Service (BytePS, OSDI '20, section 3): it adds what all workers push, and gives the sums back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.byteps import wire
from inalab.hosts.byteps.processor import ServiceProcessor, Speeds
from inalab.hosts.byteps.wire import Header
from inalab.hosts.collective import Membership, node_name, workers
from inalab.hosts.floats import add
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.parts import Parts
from inalab.hosts.tcp.serving import GroupServer

AT_ONCE = Speeds()


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
    parts: Parts = field(default_factory=Parts)


@dataclass
class Kept:
    """A partition's sum, and what was added to it since."""

    total: NDArray[Any]
    version: int = 0  # changes so far

    def change(self, part: NDArray[Any]) -> None:
        """Add a worker's change."""
        add(self.total, part)
        self.version += 1


class Service(GroupServer[Header]):
    """Of one group of workers, on a worker's host or a spare one."""

    port = wire.TCP_PORT

    def __init__(self, group: Group, meeting: Meeting, speeds: Speeds = AT_ONCE) -> None:
        super().__init__(group, meeting, Header)
        self.processor = ServiceProcessor(speeds)
        self.later: deque[tuple[float, int, Header, Any]] = deque()  # when the processor is done: to whom goes what
        self.rooms: dict[int, bytearray] = {}  # by rank: the body that is coming
        self.entries: dict[tuple[int, int], Entry] = {}  # by number of the sum and partition
        self.kept: dict[tuple[int, int], Kept] = {}  # likewise
        self.announced: dict[int, dict[int, str]] = {}  # by sum and rank: what is summed, in words

    @classmethod
    def of_next_group(cls, group: Group, over: Callable[[], bool], speeds: Speeds = AT_ONCE) -> Service | None:
        """The service of the next group of workers that connects; None once `over`. Raises AggregationError."""
        meeting = cls.met(group, over)
        return None if meeting is None else cls(group, meeting, speeds)

    @classmethod
    def name(cls, membership: Membership) -> str:
        return service_name(membership.rank, membership.size)

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            body = self.rooms.pop(rank)
            match header.kind:
                case wire.PUSH | wire.KEEP:
                    self._push(rank, header, body)
                case wire.CHANGE | wire.FETCH:
                    self._give_kept(rank, header, body)
                case wire.ANNOUNCE:
                    self._compare(rank, header, body.decode(errors="replace"))
                case wire.ASK:
                    entry = self.entries.get((header.number, header.partition))
                    lacks = entry.parts.lacks(self.workers) if entry else []
                    self.channels.put(rank, header._replace(kind=wire.MISSING, size=len(lacks)), bytes(lacks))

    def _room(self, rank: int, header: Header) -> memoryview:
        fits = {wire.ASK: header.size == 0, wire.FETCH: header.size == 0, wire.ANNOUNCE: header.size <= wire.LONGEST_NAME}
        if not fits.get(header.kind, header.kind in (wire.PUSH, wire.KEEP, wire.CHANGE) and header.size % 4 == 0):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        self.rooms[rank] = bytearray(header.size)
        return memoryview(self.rooms[rank])

    def _push(self, rank: int, header: Header, body: bytearray) -> None:
        key = header.number, header.partition
        entry = self.entries.setdefault(key, Entry(header.kind, header.dtype, header.size, header.elements))
        if rank not in entry.parts.lacks(self.workers):
            raise ValueError(f"partition {header.partition} of sum {header.number} twice")
        if (header.dtype, header.size, header.elements) != (entry.dtype, entry.size, entry.elements):
            whose = f"{header.elements:,} elements of {wire.DTYPES[header.dtype]} on worker {rank}"
            self._refuse(f"the workers sum different tensors: {whose}, {entry.elements:,} of {wire.DTYPES[entry.dtype]} on another")
        if header.kind != entry.kind:
            self._refuse(f"some workers want sum {header.number} to be kept, and others do not")
        entry.parts.take(rank, np.frombuffer(body, wire.DTYPES[header.dtype]))
        self.processor.add(header.size, self.driver.monotonic())
        if gone := [other for other in entry.parts.lacks(self.workers) if other in self.left]:
            self._refuse(f"{workers(gone)} left before sum {header.number}", *gone)
        if (total := entry.parts.total) is not None and entry.parts.next == self.workers:
            del self.entries[key]
            if entry.kind == wire.KEEP:
                self.kept[key] = Kept(total.copy())
            done = self.processor.update(header.size, self.driver.monotonic())
            for other in range(self.workers):
                self._put(done, other, header._replace(kind=wire.RESULT), total.data)

    def _give_kept(self, rank: int, header: Header, body: bytearray) -> None:
        """What is kept, after a change if there is one."""
        kept = self.kept.get((header.number, header.partition))
        what = f"partition {header.partition} of sum {header.number}"
        if kept is None or kept.total.dtype != wire.DTYPES[header.dtype]:
            raise ValueError(f"a message about {what}, which is not kept")
        if header.kind == wire.CHANGE:
            if kept.total.nbytes != header.size:
                raise ValueError(f"a change of {header.size} bytes to {what} with {kept.total.nbytes}")
            kept.change(np.frombuffer(body, kept.total.dtype))
        now = self.driver.monotonic()
        answer = header._replace(kind=wire.RESULT, size=kept.total.nbytes, version=kept.version, at=now)
        # a copy: the next change may come before this has left
        self.processor.add(header.size, now)
        self._put(self.processor.update(header.size, now), rank, answer, kept.total.tobytes())

    def _put(self, done: float, rank: int, header: Header, body: bytes | memoryview) -> None:
        """Send a message when the processor is done with it."""
        if self.processor.speeds.unlimited:
            self.channels.put(rank, header, body)
        else:
            self.later.append((done, rank, header, body))

    def _rest(self) -> float | None:
        return max(0.0, self.later[0][0] - self.driver.monotonic()) if self.later else None

    def _look_after(self) -> None:
        while self.later and self.later[0][0] <= self.driver.monotonic():
            _, rank, header, body = self.later.popleft()
            self.channels.put(rank, header, body)

    def _compare(self, rank: int, header: Header, name: str) -> None:
        """All workers are to sum the same tensor."""
        given = self.announced.setdefault(header.number, {})
        given[rank] = f"{header.elements:,} elements of {wire.DTYPES[header.dtype]}" + f" ({name})" * bool(name)
        if len(set(given.values())) > 1:
            groups: dict[str, list[int]] = {}
            for who, what in sorted(given.items()):
                groups.setdefault(what, []).append(who)
            unlike = "; ".join(f"{what} on {workers(who)}" for what, who in groups.items())
            self._refuse(f"the workers sum different tensors: {unlike}")
        if len(given) == self.workers:
            del self.announced[header.number]

    # --- when it cannot go on

    def _expected(self, rank: int) -> bool:
        open_sums = (
            self.entries
            or any(to == rank for _, to, _, _ in self.later)
            or any(rank not in given for given in self.announced.values())
        )
        return bool(open_sums) or self.channels[rank].amid_a_message

    def _refusal(self, size: int) -> Header:
        return Header(wire.REFUSE, priority=-(1 << 31), size=size)
