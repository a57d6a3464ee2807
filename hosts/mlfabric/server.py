"""MLfabric's server: it holds the model, and applies updates in the order of their tickets, no matter when they arrive.

With a replica it applies nothing by which the norms of what the replica lacks would exceed the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.mlfabric.group import Ranks, with_node, with_scheduler
from inalab.hosts.mlfabric.replication import MODEL
from inalab.hosts.tcp.connection import Meeting, MeetingError
from inalab.hosts.tcp.group import Group
from inalab.hosts.updates import wire
from inalab.hosts.updates.model import Model
from inalab.hosts.updates.server import ModelServer
from inalab.hosts.updates.wire import Header, Member

ORDERS = (wire.SKIP, wire.HELD, wire.REPLICATE, wire.ALONE)  # what the scheduler tells a server


class Came(NamedTuple):
    """What came with a ticket: updates, and their sum."""

    members: list[Member]
    elements: NDArray[Any]

    @property
    def norm(self) -> float:
        """An upper bound on the norm of the sum."""
        return sum(member.norm for member in self.members)

    def pack(self) -> bytes:
        """As on the wire."""
        return b"".join(member.pack() for member in self.members) + self.elements.tobytes()


class OrderedServer(ModelServer):
    """Of one group, which has a scheduler. `distance` bounds how far the replica's model is from this one; 0 in a chain. `overhead`
    is what headers make of a byte on the wire."""

    def __init__(self, group: Group, meeting: Meeting, ranks: Ranks, distance: float = 0.0, overhead: float = 1.0) -> None:
        super().__init__(group, meeting)
        self.overhead = overhead
        self.ranks, self.most = ranks, self.workers
        self.bound, self.replica = distance, ranks.replica
        self.next = 0  # ticket
        self.come: dict[int, Came] = {}  # by ticket, and not applied yet
        self.skipped: set[int] = set()  # tickets that are void; what comes with them is thrown away
        self.lacking: dict[int, Came] = {}  # by ticket: what has come, and the replica lacks

    @classmethod
    def of_next_scheduled_group(
        cls, group: Group, over: Callable[[], bool], control: list[str], ranks: Ranks, distance: float = 0.0, overhead: float = 1.0
    ) -> OrderedServer | None:
        """The server of the next group that connects; `control` are the nodes' addresses on the management network, the
        scheduler's behind them. None once `over`. Raises AggregationError."""
        meeting = cls.met(group, over)
        if meeting is None:
            return None
        try:
            if ranks.replica is not None and ranks.replica != group.membership.rank:
                meeting = with_node(meeting, ranks.replica, group, wire.TCP_PORT, group.patience)
            meeting = with_scheduler(meeting, ranks, replace(group, peers=control), group.patience)
            return cls(group, meeting, ranks, distance, overhead)
        except MeetingError as error:
            raise cls.incomplete(group.membership, f"{ranks.name(error.rank)} {error.what}") from None

    # --- what comes

    def _fits(self, rank: int, header: Header) -> bool:
        if rank < self.workers:
            return super()._fits(rank, header)
        listed = header.kind in (wire.HELD, wire.REPLICATE)
        return rank == self.ranks.scheduler and header.kind in ORDERS and (listed or not header.size)

    def _take(self, rank: int, header: Header, body: bytearray) -> None:
        if rank < self.workers:
            super()._take(rank, header, body)
            return
        match header.kind:
            case wire.SKIP if header.ticket >= self.next and header.ticket not in self.come:
                self.skipped.add(header.ticket)
                self._tell(Header(wire.SKIPPED, ticket=header.ticket))
            case wire.HELD:
                for ticket in wire.numbers(body):
                    self.lacking.pop(ticket, None)
            case wire.REPLICATE:
                self._send_copy(header, wire.numbers(body))
            case wire.ALONE:
                self.replica = None
                self.lacking.clear()
        self._apply_in_order()

    def _update(self, rank: int, header: Header, body: bytearray) -> None:
        if header.ticket in self.skipped:  # its last bytes were on their way when the worker died, or it is late
            self._tell(Header(wire.LATE, ticket=header.ticket))
            return
        if header.ticket < self.next or header.ticket in self.come:
            raise ValueError(f"ticket {header.ticket}, which is used")
        self.come[header.ticket] = Came(*self._update_of(rank, header, body))
        if self.replica is not None:
            self.lacking[header.ticket] = self.come[header.ticket]
        self._apply_in_order()
        self._tell(Header(wire.APPLIED, ticket=header.ticket))

    def _tell(self, header: Header, body: bytes = b"") -> None:
        """The scheduler, as long as there is one: workers notice themselves when it has gone."""
        if self.ranks.scheduler not in self.left:
            self.channels.put(self.ranks.scheduler, header, body)

    # --- what is applied

    def _apply_in_order(self) -> None:
        while self.next in self.skipped or (self.next in self.come and self._may_apply(self.next)):
            ticket = self.next
            self.next += 1
            if ticket in self.come:
                self._apply(*self.come.pop(ticket))

    def _may_apply(self, ticket: int) -> bool:
        """Whether the distance stays within its bound."""
        came = self.lacking.get(ticket)
        return came is None or fsum((*self._lacked(), came.norm)) <= self.bound

    def _lacked(self) -> list[float]:
        """Norms of what is in the model, and the replica lacks."""
        return [came.norm for ticket, came in self.lacking.items() if ticket < self.next]

    def _distance(self) -> float:
        return super()._distance() if self.replica is None else fsum(self._lacked())

    # --- the replica

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        if self.replica is not None and self.replica not in self.left:
            header = Header(wire.MODEL, model.weights.dtype.char.encode(), MODEL, size=model.weights.nbytes)
            self.channels.put(self.replica, header, model.weights.tobytes())

    def _send_copy(self, order: Header, tickets: list[int]) -> None:
        if self.replica is None or self.replica in self.left:  # the scheduler will hear of it
            return
        if any(ticket not in self.lacking for ticket in tickets):
            raise ValueError(f"a copy of tickets {tickets}")
        self.channels[self.replica].connection.pace(order.rate / self.overhead)
        header, octets = copy_of(order.number, [self.lacking[ticket] for ticket in tickets])
        self.channels.put(self.replica, header, octets)

    # --- who leaves

    def _who(self, rank: int) -> str:
        return self.ranks.name(rank)

    def _expected(self, rank: int) -> bool:
        return rank < self.workers and super()._expected(rank)

    def _leave(self, rank: int, error: Exception) -> None:
        super()._leave(rank, error)
        if rank == self.replica:
            self._tell(Header(wire.APART, rank=rank))


def copy_of(number: int, came: list[Came]) -> tuple[Header, bytes]:
    """The copy of this number, of these updates: what is ahead of it, and its body."""
    members = [member for one in came for member in one.members]
    total = np.add.reduce([one.elements for one in came], dtype=came[0].elements.dtype)
    octets = Came(members, total).pack()
    return Header(wire.COPY, total.dtype.char.encode(), number, members=len(members), size=len(octets)), octets
