"""MLfabric's server: it holds the model, and applies what comes in the order of its tickets, whenever it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hosts.collective import Membership
from hosts.mlfabric.scheduler import node_name, rank_of, with_scheduler
from hosts.tcp.meeting import Meeting, MeetingError
from hosts.updates import wire
from hosts.updates.server import ModelServer
from hosts.updates.wire import Header, Member


class OrderedServer(ModelServer):
    """Of one group, which has a scheduler of the rank behind the server's."""

    def __init__(self, membership: Membership, meeting: Meeting) -> None:
        super().__init__(membership, meeting)
        self.most = membership.size
        self.scheduler = rank_of(membership.size)
        self.next = 0  # ticket
        self.come: dict[int, tuple[list[Member], NDArray[Any]]] = {}  # by ticket, and not applied yet
        self.skipped: set[int] = set()  # tickets that are void; what comes with them is thrown away

    @classmethod
    def of_next_scheduled_group(
        cls, membership: Membership, peers: list[str], control: list[str], patience: float, over: Callable[[], bool]
    ) -> OrderedServer | None:
        """The server of the next group that connects; `control` are the nodes' addresses on the management network, the
        scheduler's behind them. None once `over`. Raises AggregationError."""
        meeting = cls.met(membership, peers, patience, over)
        if meeting is None:
            return None
        try:
            return cls(membership, with_scheduler(meeting, membership, control, patience))
        except MeetingError as error:
            raise cls.incomplete(membership, f"{node_name(error.rank, membership.size)} {error.what}") from None

    def _room(self, rank: int, header: Header) -> memoryview:
        if (rank == self.scheduler) != (header.kind == wire.SKIP) or (header.kind == wire.SKIP and header.size):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        return memoryview(self.rooms.setdefault(rank, bytearray())) if rank == self.scheduler else super()._room(rank, header)

    def _read(self, rank: int) -> None:
        if rank != self.scheduler:
            super()._read(rank)
            return
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            if header.ticket >= self.next and header.ticket not in self.come:
                self.skipped.add(header.ticket)
                self._tell(wire.SKIPPED, header.ticket)
                self._apply_in_order()

    def _update(self, rank: int, header: Header, body: bytearray) -> None:
        if header.ticket in self.skipped:  # its last bytes were on their way when the worker died
            return
        if header.ticket < self.next or header.ticket in self.come:
            raise ValueError(f"ticket {header.ticket}, which is used")
        self.come[header.ticket] = self._update_of(rank, header, body)
        self._apply_in_order()
        self._tell(wire.APPLIED, header.ticket)

    def _tell(self, kind: int, ticket: int) -> None:
        """The scheduler, as long as there is one: workers notice themselves when it has gone."""
        if self.scheduler not in self.left:
            self.channels.put(self.scheduler, Header(kind, ticket=ticket))

    def _apply_in_order(self) -> None:
        while self.next in self.come or self.next in self.skipped:
            if self.next in self.come:
                self._apply(*self.come.pop(self.next))
            self.next += 1

    def _who(self, rank: int) -> str:
        return node_name(rank, self.workers)

    def _expected(self, rank: int) -> bool:
        return rank != self.scheduler and super()._expected(rank)
