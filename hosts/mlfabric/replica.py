"""The replica of MLfabric's server: it adds copies of updates to a model of its own, and takes over when the server has died.

Sums that were under way then are asked for again. Some workers may have got their results. Each sends the last one that it has got
to the new server, for those that lack it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Membership
from inalab.hosts.mlfabric.group import Ranks
from inalab.hosts.mlfabric.replication import MODEL
from inalab.hosts.mlfabric.server import OrderedServer
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.updates import wire
from inalab.hosts.updates.model import Model
from inalab.hosts.updates.wire import Header


class Replica(OrderedServer):
    """Stands by until the scheduler says that it is the only server; from then on it is an OrderedServer without a replica."""

    def __init__(self, group: Group, meeting: Meeting, ranks: Ranks, *server: float) -> None:
        super().__init__(group, meeting, ranks, *server)
        self.replica = None
        self.standing_by = True
        self.copies: set[int] = set()  # numbers of those that it has
        self.updates = [0] * self.workers  # of each worker up to the last that the model has
        self.results: dict[int, tuple[Header, NDArray[Any]]] = {}  # by number of the sum: what workers have got already
        self.past = [-1] * self.workers  # number of the last sum whose result each has got

    @classmethod
    def partners(cls, membership: Membership) -> range:
        return range(membership.rank)  # workers, and the server

    # --- what comes

    def _fits(self, rank: int, header: Header) -> bool:
        if header.kind == wire.COPY and rank <= self.ranks.server:
            return self.model is not None and self._is_an_update(self.model, header)
        if self.standing_by and rank == self.ranks.server:
            return header.kind == wire.MODEL and self.model is None and 0 < header.size <= wire.LONGEST
        if self.standing_by:
            return rank == self.ranks.scheduler and header.kind == wire.ALONE and self.model is not None and not header.size
        if header.kind == wire.RESULT and rank < self.workers:
            return 0 < header.size <= wire.LONGEST
        return super()._fits(rank, header)

    def _take(self, rank: int, header: Header, body: bytearray) -> None:
        match header.kind:
            case wire.COPY:
                self._add(header, body)
            case wire.MODEL:
                self._keep(Model(np.frombuffer(body, wire.DTYPES[header.dtype])))
                self._tell(Header(wire.HELD, number=MODEL))
            case wire.RESULT:
                self._pass_result(rank, header, body)
            case wire.ALONE:
                self._take_over(header)
            case _:
                super()._take(rank, header, body)

    def _add(self, header: Header, body: bytearray) -> None:
        """Add a copy, unless it already came from a worker that has since died. What comes after the take-over is ignored."""
        assert self.model is not None
        if not self.standing_by or header.number in self.copies:
            return
        self.copies.add(header.number)
        members = wire.members(memoryview(body), header.members)
        self.model.apply(members, np.frombuffer(body, self.model.weights.dtype, offset=len(members) * wire.MEMBER.size))
        for member in members:
            self.updates[member.rank] = max(self.updates[member.rank], member.number + 1)
        self._tell(Header(wire.HELD, number=header.number))

    # --- the take-over

    def _take_over(self, header: Header) -> None:
        assert self.model is not None
        self.standing_by = False
        self.next, self.model.version = header.ticket, header.version
        body = wire.pack_numbers(self.updates)
        self._tell(Header(wire.TAKEN, size=len(body)), body)

    def _pass_result(self, rank: int, header: Header, body: bytearray) -> None:
        """A worker has this sum: answer those that wait for it."""
        self.past[rank] = max(self.past[rank], header.number)
        self.results[header.number] = header, np.frombuffer(body, wire.DTYPES[header.dtype])
        for number in list(self.sums):
            self._sum_up(number)

    def _sum_up(self, number: int) -> None:
        part = self.sums[number]
        if part.kind == wire.KEEP and self.model is not None:  # it is the model; no worker trains before all have it
            header = Header(wire.RESULT, part.dtype, number, size=self.model.weights.nbytes)
            self.results[number] = header, self.model.weights.copy()
        lacks = part.parts.lacks(self.workers)
        if number in self.results:
            header, total = self.results[number]
            del self.sums[number]
            for other in range(self.workers):
                if other not in self.left and other not in lacks:
                    self.channels.put(other, header, total.data)
        elif over := [other for other in lacks if self.past[other] > number]:
            self._refuse(f"{self._who(self.ranks.server)} died before all had sum {number}, which others had", *over)
        else:
            super()._sum_up(number)
