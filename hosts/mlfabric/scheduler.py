"""The scheduler's process, on the management network: it hears of updates, and tells workers when and where to send them."""

from __future__ import annotations

import time
from collections.abc import Callable

from hosts import collective
from hosts.collective import Membership
from hosts.mlfabric.schedule import Action, Drop, Fetch, Pass, Push, Schedule, Skip
from hosts.tcp.meeting import Meeting, MeetingError, reach
from hosts.tcp.serving import GroupServer
from hosts.updates import wire
from hosts.updates.wire import Header


def rank_of(workers: int) -> int:
    """The scheduler's, behind those of the workers and the server."""
    return workers + 1


def node_name(rank: int, workers: int) -> str:
    """What a node of a group with a scheduler is called in messages."""
    return "the scheduler" if rank == rank_of(workers) else collective.node_name(rank, workers)


def with_scheduler(meeting: Meeting, membership: Membership, control: list[str], patience: float) -> Meeting:
    """The meeting of a worker or the server, and its connection to the scheduler; `control` are all addresses on the management
    network. Raises MeetingError, and closes the meeting, if the scheduler cannot be reached."""
    try:
        meeting.sockets |= reach(
            membership.rank, [rank_of(membership.size)], control, Scheduler.port, patience, meeting.epoch
        ).sockets  # fmt: skip
    except MeetingError:
        meeting.close()
        raise
    return meeting


class Scheduler(GroupServer[Header]):
    """Of one group: its workers, and the server, which is the node behind them. The scheduler's own rank is one more."""

    port = 48868

    def __init__(self, membership: Membership, meeting: Meeting, schedule: Schedule) -> None:
        super().__init__(membership, meeting, Header)
        self.schedule = schedule
        self.server = self.workers

    @classmethod
    def of_next_group(
        cls, membership: Membership, peers: list[str], patience: float, over: Callable[[], bool], schedule: Schedule
    ) -> Scheduler | None:
        """The scheduler of the next group that connects; `peers` are addresses on the management network. None once `over`."""
        meeting = cls.met(membership, peers, patience, over)
        return None if meeting is None else cls(membership, meeting, schedule)

    @classmethod
    def partners(cls, membership: Membership) -> range:
        return range(membership.size + 1)

    @classmethod
    def name(cls, membership: Membership) -> str:
        return node_name(membership.rank, membership.size)

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(_nothing):
            if (rank == self.server) != (header.kind in (wire.APPLIED, wire.SKIPPED)):
                raise ValueError(f"a message {header.kind}")
            if header.kind == wire.ASK:
                busy = self.schedule.busy()
                self.channels.put(rank, Header(wire.WAITS, priority=wire.URGENT, size=len(busy)), bytes(busy))
            else:
                self._do(self._event(rank, header, time.monotonic()))

    def _event(self, rank: int, header: Header, now: float) -> list[Action]:
        match header.kind:
            case wire.REQUEST:
                return self.schedule.request(rank, header.number, header.version, header.load, header.norm, now)
            case wire.FETCH:
                return self.schedule.fetch(rank, header.number, header.version, header.load, now)
            case wire.MODEL:
                return self.schedule.fetched(rank, header.number, header.version, now)
            case wire.ARRIVED:
                return self.schedule.absorbed(header.rank, rank, now)
            case wire.APART:
                return self.schedule.part(rank, header.rank, now)
            case wire.APPLIED:
                return self.schedule.applied(header.ticket, now)
            case wire.SKIPPED:
                return self.schedule.skipped(header.ticket, now)
        raise ValueError(f"a message {header.kind}")

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Push():
                    members = bytes(action.members)
                    header = Header(wire.GRANT, rank=action.destination, ticket=action.ticket, rate=action.rate, size=len(members))
                    self._tell(action.worker, header, members)
                case Fetch():
                    self._tell(action.worker, Header(wire.FETCH, number=action.number, rate=action.rate))
                case Pass():
                    header = Header(wire.PASS, number=action.number, rank=action.destination, rate=action.rate)
                    self._tell(action.worker, header)
                case Drop():
                    self._tell(action.worker, Header(wire.DROP))
                case Skip():
                    self._tell(self.server, Header(wire.SKIP, ticket=action.ticket))

    def _tell(self, rank: int, header: Header, body: bytes = b"") -> None:
        if rank not in self.left:
            self.channels.put(rank, header, body)

    def _who(self, rank: int) -> str:
        return "the server" if rank == self.server else super()._who(rank)

    def _expected(self, rank: int) -> bool:
        return False  # workers go on without another, and notice themselves that the server is gone

    def _leave(self, rank: int, error: Exception) -> None:
        super()._leave(rank, error)
        if rank != self.server:
            self._do(self.schedule.gone(rank, time.monotonic()))

    def _refusal(self, size: int) -> Header:
        return Header(wire.REFUSE, priority=wire.URGENT, size=size)


def _nothing(header: Header) -> memoryview:
    """What nodes tell the scheduler has no body."""
    if header.size:
        raise ValueError(f"a message {header.kind} with {header.size} bytes")
    return memoryview(b"")
