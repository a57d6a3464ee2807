"""The host that holds the model: it adds workers' updates as they come, and gives the model to whoever fetches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import workers
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.parts import Parts
from inalab.hosts.tcp.serving import GroupServer
from inalab.hosts.updates import wire
from inalab.hosts.updates.model import Model, behind, correction
from inalab.hosts.updates.wire import Header, Member


@dataclass
class Part:
    """A sum to which not all workers have given."""

    kind: int  # GIVE or KEEP
    dtype: bytes
    elements: int
    parts: Parts = field(default_factory=Parts)


class ModelServer(GroupServer[Header]):
    """Of one group of workers.

    `staleness` bounds how many updates a worker may be ahead of the slowest, None means no bound (hosts.updates.model.behind);
    `corrected`: late updates count for less (hosts.updates.model.correction).
    """

    port = wire.TCP_PORT
    most = 1  # workers whose updates come as one

    def __init__(self, group: Group, meeting: Meeting, staleness: int | None = None, corrected: bool = False) -> None:
        super().__init__(group, meeting, Header)
        self.staleness, self.corrected = staleness, corrected
        self.rooms: dict[int, bytearray] = {}  # by rank: the body that is coming
        self.sums: dict[int, Part] = {}  # by number
        self.model: Model | None = None
        self.clocks = [0] * self.workers  # updates applied, by worker
        self.fetching: dict[int, Header] = {}  # workers that want the model

    @classmethod
    def of_next_group(
        cls, group: Group, over: Callable[[], bool], staleness: int | None = None, corrected: bool = False
    ) -> ModelServer | None:
        """The server of the next group of workers that connects; None once `over`. Raises AggregationError."""
        meeting = cls.met(group, over)
        return None if meeting is None else cls(group, meeting, staleness, corrected)

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            self._take(rank, header, self.rooms.pop(rank))
            self._let_fetch()

    def _take(self, rank: int, header: Header, body: bytearray) -> None:
        """Do what follows from a message."""
        match header.kind:
            case wire.GIVE | wire.KEEP:
                self._give(rank, header, body)
            case wire.UPDATE:
                self._update(rank, header, body)
            case wire.FETCH:
                self.fetching[rank] = header
            case wire.ASK:
                lacks = self._lacks(rank)
                self.channels.put(rank, Header(wire.WAITS, priority=wire.URGENT, size=len(lacks)), bytes(lacks))

    def _room(self, rank: int, header: Header) -> memoryview:
        """Where the body of a message belongs."""
        if not self._fits(rank, header):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        self.rooms[rank] = bytearray(header.size)
        return memoryview(self.rooms[rank])

    def _fits(self, rank: int, header: Header) -> bool:
        """Whether this node can have sent a message that begins like this."""
        if header.kind in (wire.GIVE, wire.KEEP):
            return 0 < 4 * header.elements <= wire.LONGEST and header.size in (0, 4 * header.elements)
        if header.kind == wire.UPDATE:
            return self.model is not None and header.members <= self.most and self._is_an_update(self.model, header)
        return header.size == 0 and (header.kind == wire.ASK or (header.kind == wire.FETCH and self._has_a(header.dtype)))

    def _has_a(self, dtype: bytes) -> bool:
        """Whether there is a model of this kind."""
        return self.model is not None and wire.DTYPES[dtype] == self.model.weights.dtype

    @staticmethod
    def _is_an_update(model: Model, header: Header) -> bool:
        size = header.members * wire.MEMBER.size + model.weights.nbytes
        return header.members > 0 and header.size == size and wire.DTYPES[header.dtype] == model.weights.dtype

    def _give(self, rank: int, header: Header, body: bytearray) -> None:
        part = self.sums.setdefault(header.number, Part(header.kind, header.dtype, header.elements))
        if rank not in part.parts.lacks(self.workers):
            raise ValueError(f"sum {header.number} twice")
        if (header.kind, header.dtype, header.elements) != (part.kind, part.dtype, part.elements):
            self._refuse(
                f"the workers sum different tensors: {_tensor(header)} on worker {rank}, "
                f"{_tensor(Header(part.kind, part.dtype, elements=part.elements))} on another"
            )
        dtype = wire.DTYPES[header.dtype]
        part.parts.take(rank, np.frombuffer(body, dtype) if body else np.zeros(header.elements, dtype))
        self._sum_up(header.number)

    def _sum_up(self, number: int) -> None:
        """Return a sum once no part is missing. If a worker left before there was a model, the job ends; later, its part is 0."""
        part = self.sums[number]
        if gone := [other for other in part.parts.lacks(self.workers) if other in self.left]:
            if self.model is None:
                self._refuse(f"{workers(gone)} left before sum {number}", *gone)
            for other in gone:
                part.parts.take(other, None)
        if (total := part.parts.total) is None or part.parts.next < self.workers:
            return
        del self.sums[number]
        if part.kind == wire.KEEP:
            self._keep(Model(total.copy()))
        header = Header(wire.RESULT, part.dtype, number, size=total.nbytes)
        for other in range(self.workers):
            if other not in self.left:
                self.channels.put(other, header, total.data)

    def _keep(self, model: Model) -> None:
        self.model = model

    def _update(self, rank: int, header: Header, body: bytearray) -> None:
        members, elements = self._update_of(rank, header, body)
        assert self.model is not None
        late = correction(self.model.version - members[0].version, self.workers) if self.corrected else 1.0
        self._apply(members, elements, late)

    def _update_of(self, rank: int, header: Header, body: bytearray) -> tuple[list[Member], NDArray[Any]]:
        """Who is in an update, and its elements. ValueError for what no worker can have computed."""
        assert self.model is not None
        members = wire.members(memoryview(body), header.members)
        for member in members:
            if rank not in (other.rank for other in members) or member.rank >= self.workers or member.version > self.model.version:
                raise ValueError(f"an update of worker {member.rank}, computed on version {member.version}")
            if not member.norm >= 0:
                raise ValueError(f"an update of norm {member.norm:g}")
        return members, np.frombuffer(body, self.model.weights.dtype, offset=len(members) * wire.MEMBER.size)

    def _apply(self, members: list[Member], elements: NDArray[Any], weight: float = 1.0) -> None:
        assert self.model is not None
        before = self.model.apply(members, elements, weight)
        for member in members:
            self.clocks[member.rank] += 1
            if member.rank not in self.left:
                now = self.driver.monotonic()
                notice = Header(wire.APPLIED, number=member.number, version=before, at=now, norm=self._distance())
                self.channels.put(member.rank, notice)

    def _distance(self) -> float:
        """The norms of what a replica lacks of the model."""
        return wire.NO_REPLICA

    def _let_fetch(self) -> None:
        """Send the model to those that want it and need not wait for slower workers."""
        for rank, header in list(self.fetching.items()):
            if self.model is not None and not self._slower(rank):
                del self.fetching[rank]
                if header.rate:
                    self.channels[rank].connection.pace(header.rate)
                # a copy: the next update may come before this one has left
                answer = header._replace(kind=wire.MODEL, size=self.model.weights.nbytes, version=self.model.version)
                self.channels.put(rank, answer, self.model.weights.tobytes())

    def _slower(self, rank: int) -> list[int]:
        return [] if self.staleness is None else behind(self.clocks, rank, self.staleness, self.left)

    def _lacks(self, rank: int) -> list[int]:
        """Whom a worker waits for."""
        if rank in self.fetching:
            return self._slower(rank)
        oldest = self.sums[min(self.sums)] if self.sums else None
        return oldest.parts.lacks(self.workers) if oldest else []

    def _expected(self, rank: int) -> bool:
        return self.model is None and bool(self.sums)

    def _leave(self, rank: int, error: Exception) -> None:
        self.fetching.pop(rank, None)
        super()._leave(rank, error)
        for number in list(self.sums):
            self._sum_up(number)
        self._let_fetch()

    def _refusal(self, size: int) -> Header:
        return Header(wire.REFUSE, priority=wire.URGENT, size=size)


def _tensor(header: Header) -> str:
    kept = " to be kept" * (header.kind == wire.KEEP)
    return f"{header.elements:,} elements of {wire.DTYPES[header.dtype]}{kept}"
