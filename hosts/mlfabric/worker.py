"""MLfabric's worker: it adds the updates that it has absorbed to its own, and sends the sum when the scheduler grants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.collective import Membership
from hosts.mlfabric.scheduler import node_name, rank_of, with_scheduler
from hosts.tcp.kernel import pace
from hosts.tcp.meeting import Meeting, meet
from hosts.updates import wire
from hosts.updates.wire import Header, Member
from hosts.updates.worker import Change, ModelWorker, dtype_of


class MLfabric(ModelWorker):
    """Over connections to the server, the scheduler, and all other workers, who may absorb updates.

    `control` are the addresses of all nodes on the management network, the scheduler's behind them; `overhead` is what headers make
    of a byte on the wire.
    """

    def __init__(
        self, membership: Membership, epoch: int, peers: list[str], control: list[str], overhead: float, patience: float = 30.0,
        pulse: Callable[[], str | None] | None = None,
    ) -> None:  # fmt: skip
        self.control, self.overhead, self.scheduler = control, overhead, rank_of(membership.size)
        super().__init__(membership, epoch, peers, patience, pulse)
        self.parts: dict[int, tuple[Member, NDArray[Any]]] = {}  # by worker: what has been absorbed
        self.coming: dict[int, bytearray] = {}  # by worker: what is being absorbed

    def _meet(self, epoch: int, peers: list[str], patience: float) -> Meeting:
        m = self.membership
        others = [rank for rank in range(m.size + 1) if rank != m.rank]
        meeting = meet(m.rank, others, m.size, peers, wire.TCP_PORT, patience, epoch)
        self.uncounted.add(self.scheduler)
        return with_scheduler(meeting, m, self.control, patience)

    def _name(self, rank: int) -> str:
        return node_name(rank, self.membership.size)

    # --- what the scheduler is asked

    def _announce(self, change: Change) -> None:
        if (member := change.member) is None:
            self._ask_to_fetch()
            return
        self.parts.clear()
        request = Header(wire.REQUEST, number=member.number, version=member.version, load=self._load(), norm=member.norm)
        self._tell(request)

    def _ask_to_fetch(self) -> None:
        self._tell(Header(wire.FETCH, load=self._load()))

    def _load(self) -> float:
        assert self.change is not None
        return self.overhead * self.change.started.flat.nbytes

    def _tell(self, header: Header) -> None:
        """The scheduler, at once: what the worker has fetched holds up others, although its own wait is over."""
        self.channels.put(self.scheduler, header)
        with suppress(OSError):  # that it is gone is found out by what is read from it
            self.channels.write(self.scheduler)

    def _ask(self) -> int:
        asked = self.scheduler if self.change else self.server
        self.channels.put(asked, Header(wire.ASK, priority=wire.URGENT))
        return asked

    # --- what comes

    def _room(self, rank: int, header: Header) -> memoryview:
        if rank == self.scheduler:
            told = header.kind in (wire.WAITS, wire.REFUSE)
            order = {wire.GRANT: header.size > 0, wire.FETCH: header.size == 0, wire.DROP: header.size == 0}
            if not told and not (self.change is not None and order.get(header.kind, False)):
                raise ValueError(f"a message {header.kind} with {header.size} bytes")
            self.bodies[rank] = memoryview(bytearray(header.size))
            return self.bodies[rank]
        if rank == self.server:
            return super()._room(rank, header)
        size = wire.MEMBER.size + 4 * self.kept[1] if self.kept else -1
        if (header.kind, header.members, header.size) != (wire.UPDATE, 1, size):
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        self.coming[rank] = bytearray(header.size)
        return memoryview(self.coming[rank])

    def _take(self, rank: int, header: Header) -> None:
        if rank == self.scheduler:
            self._follow(header)
        elif header.kind == wire.UPDATE:
            self._absorb(rank)
        else:
            super()._take(rank, header)
        if header.kind == wire.APPLIED:
            self._ask_to_fetch()
        elif header.kind == wire.MODEL:
            self._tell(Header(wire.MODEL))

    def _follow(self, header: Header) -> None:
        """Do what the scheduler says."""
        if header.kind in (wire.WAITS, wire.REFUSE):
            super()._take(self.scheduler, header)
            return
        assert self.change is not None
        match header.kind:
            case wire.GRANT:
                self._push(header, list(self.bodies[self.scheduler]))
            case wire.DROP:
                self.change.sent, self.change.octets, self.change.way = None, 0, ""  # who was to send it on has died
                self._ask_to_fetch()
            case wire.FETCH:
                fetch = Header(wire.FETCH, dtype_of(self.change.started), rate=header.rate / self.overhead)
                self.channels.put(self.server, fetch)

    def _absorb(self, rank: int) -> None:
        """Keep what another worker has sent until it is to be sent on."""
        body = self.coming.pop(rank)
        (member,) = wire.members(memoryview(body), 1)
        if member.rank != rank:
            raise ValueError(f"an update of worker {member.rank}")
        if self.change is None or self.change.member is None:  # too late: its last bytes were on their way when the worker died
            return
        self.parts[rank] = member, np.frombuffer(body, self.change.started.flat.dtype, offset=wire.MEMBER.size)
        self._tell(Header(wire.ARRIVED, rank=rank))

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
        octets = b"".join(member.pack() for member in members) + total.tobytes()
        if header.rank in self.channels.of:  # else it has died, and the scheduler will have it sent again
            change.sent, change.way, change.octets = time.monotonic(), self._name(header.rank), len(octets)
            pace(self.channels[header.rank].socket, header.rate / self.overhead)
            kind = Header(wire.UPDATE, dtype_of(change.started), members=len(members), size=len(octets), ticket=header.ticket)
            self.channels.put(header.rank, kind, octets)

    def _lost(self, rank: int, error: OSError) -> None:
        """Other workers may leave or die. The scheduler then reschedules what was sent to them."""
        if rank in (self.server, self.scheduler):
            super()._lost(rank, error)
        self._forget(rank)
