"""MLfabric's worker: it adds the updates that it has absorbed to its own, and sends the sum when the scheduler grants it. While it
computes, it passes the model that it fetched last on to other workers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import workers
from inalab.hosts.mlfabric.group import Ranks, with_scheduler
from inalab.hosts.mlfabric.server import Came, copy_of
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.updates import wire
from inalab.hosts.updates.wire import Header, Member
from inalab.hosts.updates.worker import Change, ModelWorker, dtype_of

WORD = 5.0  # seconds in which the scheduler says who takes the server's place


class MLfabric(ModelWorker):
    """Over connections to the server, the scheduler, and all other workers, who may absorb updates and pass on models.

    `control` are the addresses of all nodes on the management network, the scheduler's behind them; `overhead` is what headers make
    of a byte on the wire. If there is a replica of the server, the worker goes on with it when the server dies. It `keeps` what it
    has sent to the server, to send it to the replica, too, unless the server does that.
    """

    def __init__(self, group: Group, control: list[str], overhead: float, ranks: Ranks | None = None, keeps: bool = False) -> None:
        self.ranks = ranks or Ranks(group.membership.size)
        self.control, self.overhead, self.scheduler = control, overhead, self.ranks.scheduler
        self.replica = self.ranks.replica
        super().__init__(group)
        self.keeps = keeps
        self.kept_back: dict[int, Came] = {}  # by ticket: what the server was sent, and the replica lacks
        self.result: tuple[Header, bytes] | None = None  # of the last sum that is over, if there is a replica
        self.first = 0  # ticket of the server that there is now
        self.orphaned: tuple[float, OSError] | None = None  # since when the server is gone, and why
        self.parts: dict[int, tuple[Member, NDArray[Any]]] = {}  # by worker: what has been absorbed
        self.coming: dict[int, bytearray] = {}  # by worker: what is being absorbed
        self.model: tuple[int, bytes] | None = None  # what was fetched last, and its version

    def _meet(self, group: Group, patience: float) -> Meeting:
        others = [rank for rank in self.ranks.on_data_network if rank != self.membership.rank]
        meeting = group.meet(others, wire.TCP_PORT, patience)
        self.uncounted.add(self.scheduler)
        return with_scheduler(meeting, self.ranks, replace(group, peers=self.control), patience)

    def _name(self, rank: int) -> str:
        return self.ranks.name(rank)

    def _named(self, ranks: list[int]) -> str:
        own = [rank for rank in ranks if rank < self.membership.size]
        return " and ".join([*[workers(own)] * bool(own), *(self._name(rank) for rank in ranks if rank not in own)])

    # --- what the scheduler is asked

    def _announce(self, change: Change) -> None:
        if (member := change.member) is None:
            self._ask_to_fetch()
            return
        self.parts.clear()
        request = Header(wire.REQUEST, number=member.number, version=member.version, load=self._load(), norm=member.norm)
        self._tell(request)

    def _ask_to_fetch(self) -> None:
        """For the server's model, or another worker's that contains the update.

        If the update was dropped: one newer than it was computed on. If there was no update: only the server's.
        """
        change = self.change
        assert change is not None
        change.fetching = True
        met = self.version if change.applied_at is None else change.applied_at
        least = wire.LATEST if change.member is None else int(met) + 1
        self._tell(Header(wire.FETCH, number=self.fetches, load=self._load(), version=least))

    def _load(self) -> float:
        assert self.change is not None
        return self.overhead * self.change.started.flat.nbytes

    def _tell(self, header: Header) -> None:
        """Tell the scheduler at once: others may wait for this, even when this worker waits for nothing."""
        self.channels.put(self.scheduler, header)
        with suppress(OSError):  # reading from it will show that it is gone
            self.channels.write(self.scheduler)

    def _ask(self) -> int:
        asked = self.scheduler if self.change or self.orphaned else self.server
        self.channels.put(asked, Header(wire.ASK, priority=wire.URGENT))
        return asked

    # --- what comes

    def _room(self, rank: int, header: Header) -> memoryview:
        if rank == self.scheduler:
            if not self._can_be_told(header):
                raise ValueError(f"a message {header.kind} with {header.size} bytes")
            self.bodies[rank] = memoryview(bytearray(header.size))
            return self.bodies[rank]
        if header.kind == wire.MODEL:
            if not self.kept or (header.size, header.dtype) != (4 * self.kept[1], self.dtype):
                raise ValueError(f"a model of {header.size} bytes")
            # room of its own: two may come, if the first one's sender has died
            self.tensors[rank] = np.empty(self.kept[1], wire.DTYPES[header.dtype])
            return self.tensors[rank].data.cast("B")
        if rank == self.server:
            room = super()._room(rank, header)
            if header.kind == wire.RESULT and self.ranks.replica is not None:
                # room of its own: if only a part comes, the worker has to give the replica what the sum was started with
                self.tensors[rank] = np.empty_like(self.tensors[rank])
                room = self.bodies[rank] = self.tensors[rank].data.cast("B")
            return room
        size = wire.MEMBER.size + 4 * self.kept[1] if self.kept else -1
        if (header.kind, header.members, header.size) != (wire.UPDATE, 1, size):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        self.coming[rank] = bytearray(header.size)
        return memoryview(self.coming[rank])

    def _can_be_told(self, header: Header) -> bool:
        """Whether this can come from the scheduler."""
        match header.kind:
            case wire.WAITS | wire.REFUSE | wire.REPLICATE:
                return True
            case wire.GRANT:
                return self.change is not None and header.size > 0
            case wire.DROP:
                return self.change is not None and not header.size
            case wire.PASS:
                return self.model is not None and not header.size
            case wire.ALONE:
                return header.size == (0 if header.rank == self.membership.size else len(wire.pack_numbers((0, 0))))
        return header.kind == wire.FETCH and not header.size

    def _take(self, rank: int, header: Header) -> None:
        if rank == self.scheduler:
            self._follow(header)
        elif header.kind == wire.UPDATE:
            self._absorb(rank, header)
        elif header.kind == wire.MODEL:
            self._take_model(rank, header)
        else:
            if header.kind == wire.RESULT and self.replica is not None:
                self.result = header, self.tensors[rank].tobytes()
            super()._take(rank, header)
        if header.kind == wire.APPLIED:
            assert self.change is not None
            self.change.distance = None if header.norm == wire.NO_REPLICA else header.norm
            self._ask_to_fetch()

    def _take_model(self, rank: int, header: Header) -> None:
        """Go on with the model, unless one has already come from elsewhere."""
        weights = self.tensors.pop(rank)
        if self.change is None or header.number != self.fetches or self._is_outdated(rank, header):
            return
        self.model = header.version, weights.tobytes()
        self._tell(Header(wire.MODEL, number=header.number, version=header.version))
        self._fetched(rank, header, weights)

    def _attend(self, interrupt: int) -> None:
        with self._interrupted_by(interrupt):
            while self._serve_ready():
                pass

    def _follow(self, header: Header) -> None:
        """Do what the scheduler says."""
        match header.kind:
            case wire.WAITS | wire.REFUSE:
                super()._take(self.scheduler, header)
            case wire.PASS:
                self._pass_on(header)
            case wire.REPLICATE:
                self._replicate(header)
            case wire.ALONE:
                self._go_on_with(header)
            case _:
                self._change_on(header)

    def _change_on(self, header: Header) -> None:
        """Do what the scheduler says about the change that is under way."""
        if self.change is None or (header.kind == wire.FETCH and header.number != self.fetches):
            return  # the model has come from a worker that has died since
        match header.kind:
            case wire.GRANT:
                self._push(header, list(self.bodies[self.scheduler]))
            case wire.DROP:
                if self.change.member is not None:
                    self._forget_late(self.change.member)
                self.change.turn = self.change.sent = None  # late, or who was to send it on has died
                self.change.octets, self.change.way = 0, ""
                self._ask_to_fetch()
            case wire.FETCH:
                rate = header.rate / self.overhead
                self._put(Header(wire.FETCH, dtype_of(self.change.started), self.fetches, rate=rate))

    def _pass_on(self, header: Header) -> None:
        """Send the model to a worker, unless the connection to it is lost."""
        assert self.model is not None
        version, octets = self.model
        if header.rank in self.channels.of:
            self.channels[header.rank].connection.pace(header.rate / self.overhead)
            answer = Header(wire.MODEL, self.dtype, header.number, size=len(octets), version=version, ticket=header.ticket)
            self.channels.put(header.rank, answer, octets)

    def _is_outdated(self, rank: int, header: Header) -> bool:
        """Whether a worker has sent this when there was another server."""
        return rank < self.membership.size and header.ticket < self.first

    def _absorb(self, rank: int, header: Header) -> None:
        """Keep what another worker has sent until it is to be sent on."""
        body = self.coming.pop(rank)
        (member,) = wire.members(memoryview(body), 1)
        if member.rank != rank:
            raise ValueError(f"an update of worker {member.rank}")
        if self.change is None or self.change.member is None or self._is_outdated(rank, header):
            return  # its last bytes were on their way when its sender died, or the server
        self.parts[rank] = member, np.frombuffer(body, self.change.started.flat.dtype, offset=wire.MEMBER.size)
        self._tell(Header(wire.ARRIVED, rank=rank, number=member.number))

    def _push(self, header: Header, ranks: list[int]) -> None:
        """Send the update, and with it those of these workers."""
        change, own = self.change, self.membership.rank
        assert change is not None and change.member is not None
        if own not in ranks or any(rank != own and rank not in self.parts for rank in ranks):
            raise ValueError(f"a grant for the updates of workers {ranks}")
        members = [change.member] + [self.parts[rank][0] for rank in ranks if rank != own]
        total = change.started.flat
        for rank in ranks:
            if rank != own:
                total = total + self.parts[rank][1]
        octets = Came(members, total).pack()
        self._forget_late(change.member)
        if header.rank in self.channels.of:  # else it has died, and the scheduler will have it sent again
            change.turn, change.sent = header.at, self.driver.monotonic()
            change.way, change.octets = self._name(header.rank), len(octets)
            self.channels[header.rank].connection.pace(header.rate / self.overhead)
            kind = Header(wire.UPDATE, dtype_of(change.started), members=len(members), size=len(octets), ticket=header.ticket)
            self.channels.put(header.rank, kind, octets)
            if self.keeps and self.replica is not None and header.rank == self.server:
                elements = np.frombuffer(octets, total.dtype, offset=len(members) * wire.MEMBER.size)
                self.kept_back[header.ticket] = Came(members, elements)

    def _forget_late(self, member: Member) -> None:
        """What was kept of an update with which it was late: the server has thrown it away."""
        for ticket in [ticket for ticket, came in self.kept_back.items() if came.members[0] == member]:
            del self.kept_back[ticket]

    def close(self) -> None:
        scheduler = self.channels[self.scheduler]
        scheduler.put(Header(wire.OVER))
        with suppress(OSError):  # it may be gone
            scheduler.write()
        super().close()

    # --- the replica

    def _replicate(self, header: Header) -> None:
        """Send the replica the sum of what came to the server with these tickets."""
        tickets = wire.numbers(self.bodies[self.scheduler])
        if self.replica is None:  # the scheduler will hear of it
            return
        if any(ticket not in self.kept_back for ticket in tickets):
            raise ValueError(f"an order to copy tickets {tickets}")
        kind, octets = copy_of(header.number, [self.kept_back.pop(ticket) for ticket in tickets])
        if header.rank in self.channels.of:
            self.channels[header.rank].connection.pace(header.rate / self.overhead)
            self.channels.put(header.rank, kind, octets)

    def _go_on_with(self, header: Header) -> None:
        """With one server alone. If it is the replica, ask it for everything again that the other has not answered."""
        self.kept_back.clear()
        gone, self.replica = self.replica if header.rank == self.server else self.server, None
        if gone in self.channels.of:
            self._forget(gone)
        if header.rank == self.server:
            return
        if header.rank not in self.channels.of:
            raise self._error(f"{self._name(header.rank)}, which has taken over, cannot be reached")
        self.server, self.first, self.orphaned, self.answered = header.rank, header.ticket, None, True
        self.version = min(self.version, header.version)
        self.parts.clear()
        self._tell(Header(wire.TAKEN))
        if self.result:
            self._put(*self.result)
        for number, started in self.sums.items():
            self._send_part(number, started)
        if self.change is not None:
            self._ask_again(self.change, header)

    def _ask_again(self, change: Change, header: Header) -> None:
        updates, met = wire.numbers(self.bodies[self.scheduler])
        if change.member is None or change.fetching:
            self._ask_to_fetch()
        elif change.member.number + 1 == updates:  # the replica has it
            change.applied_at, change.applied = met, self.driver.monotonic()
            self._ask_to_fetch()
        else:
            change.turn = change.sent = None
            change.octets, change.way = 0, ""
            change.member = change.member._replace(version=min(change.member.version, header.version))
            self._announce(change)

    def _put(self, header: Header, octets: bytes | memoryview = b"") -> None:
        if self.server in self.channels.of:  # else it will be sent to the replica
            super()._put(header, octets)

    def _watch_over(self, now: float) -> None:
        super()._watch_over(now)
        if self.orphaned and now - self.orphaned[0] > WORD:
            super()._lost(self.server, self.orphaned[1])

    def _lost(self, rank: int, error: OSError) -> None:
        """Other workers may leave or die, or the network to one may fail. The scheduler then reschedules what was on its way."""
        if rank == self.scheduler or (rank == self.server and self.replica is None):
            super()._lost(rank, error)
        self._forget(rank)
        if rank == self.server:
            self.orphaned = self.driver.monotonic(), error
            return
        if rank == self.replica:
            self.replica = None
            if self.orphaned:
                super()._lost(self.server, self.orphaned[1])
            self.kept_back.clear()
        self._tell(Header(wire.APART, rank=rank))
