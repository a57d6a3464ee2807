"""The scheduler's process, on the management network: it hears of updates, and tells workers when and where to send them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from selectors import EVENT_READ

from inalab.hosts.collective import Membership
from inalab.hosts.mlfabric.group import PORT, Ranks
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Action, Drop, Fetch, Held, Pass, Push, Replicate, Skip
from inalab.hosts.tcp.channel import Channels
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.serving import GroupServer
from inalab.hosts.updates import wire
from inalab.hosts.updates.wire import Header

log = logging.getLogger("inalab")


class Scheduler(GroupServer[Header]):
    """Of one group: its workers, the server, and its replica if there is one."""

    port, pulse = PORT, 0.5

    def __init__(self, group: Group, meeting: Meeting | Channels[Header], schedule: Schedule) -> None:
        super().__init__(group, meeting, Header)
        self.schedule = schedule
        self.ranks = Ranks(self.workers, schedule.replication is not None)
        self.server, self.replica = self.ranks.server, self.ranks.replica
        self.deaf: set[int] = set()  # workers that are not listened to until they know that the server has died
        self.over: set[int] = set()  # workers that need no server any more
        self.body = bytearray()  # of the replica's TAKEN

    @classmethod
    def of_next_group(cls, group: Group, over: Callable[[], bool], schedule: Schedule) -> Scheduler | None:
        """The scheduler of the next group that connects; its addresses are those on the management network. None once `over`."""
        meeting = cls.met(group, over)
        return None if meeting is None else cls(group, meeting, schedule)

    @classmethod
    def partners(cls, membership: Membership) -> range:
        return range(membership.rank)

    @classmethod
    def name(cls, membership: Membership) -> str:
        return "the scheduler"

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            if header.kind == wire.OVER:
                self.over.add(rank)
            elif header.kind == wire.TAKEN:
                self._taken(rank)
            elif rank in self.deaf and header.kind != wire.APART:
                continue
            elif header.kind == wire.ASK:
                busy = self.schedule.busy()
                self.channels.put(rank, Header(wire.WAITS, priority=wire.URGENT, size=len(busy)), bytes(busy))
            elif header.kind == wire.APART and header.rank == self.replica:
                self._lose_replica(f"{self._who(rank)} does not reach it")
            else:
                self._do(self._event(rank, header, self.driver.monotonic()))

    def _room(self, rank: int, header: Header) -> memoryview:
        """Only the replica's TAKEN has a body."""
        counts = 4 * self.workers if (rank, header.kind) == (self.ranks.replica, wire.TAKEN) else 0
        if header.kind not in self._says(rank) or header.size != counts:
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        if header.size:
            self.body = bytearray(header.size)
        return memoryview(self.body if header.size else b"")

    def _says(self, rank: int) -> tuple[int, ...]:
        """Kinds of messages that a node may send."""
        if rank < self.workers:
            return wire.REQUEST, wire.FETCH, wire.MODEL, wire.ARRIVED, wire.APART, wire.ASK, wire.TAKEN, wire.OVER
        server = (wire.APPLIED, wire.SKIPPED, wire.LATE, wire.APART)
        return (wire.HELD, wire.TAKEN) + server * (rank == self.server) if rank == self.ranks.replica else server

    def _event(self, rank: int, header: Header, now: float) -> list[Action]:
        match header.kind:
            case wire.REQUEST:
                return self.schedule.request(rank, header.number, header.version, header.load, header.norm, now)
            case wire.FETCH:
                return self.schedule.fetch(rank, header.number, header.version, header.load, now)
            case wire.MODEL:
                return self.schedule.fetched(rank, header.number, header.version, now)
            case wire.ARRIVED:
                return self.schedule.absorbed(header.rank, header.number, rank, now)
            case wire.APART if header.rank < self.workers:
                return self.schedule.part(rank, header.rank, now)
            case wire.APPLIED:
                return self.schedule.applied(header.ticket, now)
            case wire.SKIPPED:
                return self.schedule.skipped(header.ticket, now)
            case wire.LATE:
                return self.schedule.came_late(header.ticket, now)
            case wire.HELD if self.schedule.replication is not None:
                return self.schedule.held(header.number, now)
        return []  # about a replica that counts no longer

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Push():
                    members = bytes(action.members)
                    header = Header(wire.GRANT, rank=action.destination, ticket=action.ticket, size=len(members), at=action.turn)
                    self._tell(action.worker, header._replace(rate=action.rate), members)
                case Fetch():
                    self._tell(action.worker, Header(wire.FETCH, number=action.number, rate=action.rate))
                case Pass():
                    header = Header(
                        wire.PASS, number=action.number, rank=action.destination, rate=action.rate, ticket=self.schedule.first
                    )
                    self._tell(action.worker, header)
                case Drop():
                    self._tell(action.worker, Header(wire.DROP))
                case Skip():
                    self._tell(self.server, Header(wire.SKIP, ticket=action.ticket))
                case Replicate():
                    tickets = wire.pack_numbers(action.tickets)
                    header = Header(
                        wire.REPLICATE, number=action.number, rank=action.destination, rate=action.rate, size=len(tickets)
                    )
                    self._tell(action.source, header, tickets)
                case Held():
                    tickets = wire.pack_numbers(action.tickets)
                    self._tell(self.server, Header(wire.HELD, size=len(tickets)), tickets)

    def go_on(self) -> None:
        """Other jobs' transfers may have left uplinks."""
        self._do(self.schedule.go_on(self.driver.monotonic()))

    def _look_after(self) -> None:
        now = self.driver.monotonic()
        for job in self.schedule.reserved.should_have_ended(now):
            what = f"{job.what.name.lower()} from {self._who(job.source)} to {self._who(job.destination)}"
            log.warning("job %d: the %s is late: others wait for it no longer", self.membership.job, what)
            self._do(self.schedule.wait_no_longer(job, now))

    def _tell(self, rank: int, header: Header, body: bytes = b"") -> None:
        if rank not in self.left:
            self.channels.put(rank, header, body)

    def _who(self, rank: int) -> str:
        return self.ranks.name(rank)

    def _expected(self, rank: int) -> bool:
        return False  # workers go on without another, and notice themselves that a server without replica is gone

    def _leave(self, rank: int, error: Exception) -> None:
        super()._leave(rank, error)
        if rank < self.workers:
            self.deaf.discard(rank)
            self._do(self.schedule.gone(rank, self.driver.monotonic()))
        elif self._serves_somebody():
            if rank == self.replica:
                self._lose_replica(str(error))
            elif rank == self.server and self.replica is not None:
                self._take_over()

    def _serves_somebody(self) -> bool:
        """Whether there are workers that have not said that they leave. A server ends when all have left."""
        for rank, events in self.channels.ready(0):
            if rank < self.workers and rank not in self.left and events & EVENT_READ:
                try:
                    self._read(rank)
                except (OSError, ValueError) as error:
                    self._leave(rank, error)
        return any(rank not in self.left and rank not in self.over for rank in range(self.workers))

    # --- the replica

    def _take_over(self) -> None:
        """The server has died: have the replica take its place, and then the workers go on with it."""
        replication, replica = self.schedule.replication, self.replica
        assert replication is not None and replica is not None
        if not replication.ready:
            self._refuse(f"{self._who(self.server)} is gone, and {self._who(replica)} did not have the model yet")
        self.deaf = {rank for rank in range(self.workers) if rank not in self.left}
        self.schedule.take_over()
        self.server = replica
        self._tell(replica, Header(wire.ALONE, rank=replica, ticket=self.schedule.first, version=self.schedule.version))

    def _taken(self, rank: int) -> None:
        """The replica has taken over, or a worker knows that it has."""
        if rank in self.deaf:
            self.deaf.remove(rank)
        elif rank == self.replica == self.server:
            self.replica = None
            for worker, updates in enumerate(wire.numbers(self.body)):
                body = wire.pack_numbers((updates, self.schedule.met.get(worker, 0)))
                header = Header(wire.ALONE, rank=rank, ticket=self.schedule.first, version=self.schedule.version, size=len(body))
                self._tell(worker, header, body)
        else:
            raise ValueError("it says that it has taken over")

    def _lose_replica(self, why: str) -> None:
        """The server goes on alone, if it can."""
        replica, self.replica = self.replica, None
        assert replica is not None
        if replica == self.server:  # it was about to take over
            self._refuse(f"{self._who(self.ranks.server)} and {self._who(replica)} are gone")
        log.warning("job %d goes on without a replica: %s is gone: %s", self.membership.job, self._who(replica), why)
        for rank in (self.server, *range(self.workers)):
            self._tell(rank, Header(wire.ALONE, rank=self.server))
        self._do(self.schedule.alone(self.driver.monotonic()))

    def _refusal(self, size: int) -> Header:
        return Header(wire.REFUSE, priority=wire.URGENT, size=size)
