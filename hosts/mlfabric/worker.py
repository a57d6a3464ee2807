"""MLfabric's worker: it adds the updates that it has absorbed to its own, and sends the sum when the scheduler grants it. While it
computes, it passes the model that it fetched last on to other workers."""

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
    """Over connections to the server, the scheduler, and all other workers, who may absorb updates and pass on models.

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
        self.model: tuple[int, bytes] | None = None  # what was fetched last, and its version

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
        """For the server's model, or another worker's that contains the update.

        If the update was dropped: one newer than it was computed on. If there was no update: only the server's.
        """
        change = self.change
        assert change is not None
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
        asked = self.scheduler if self.change else self.server
        self.channels.put(asked, Header(wire.ASK, priority=wire.URGENT))
        return asked

    # --- what comes

    def _room(self, rank: int, header: Header) -> memoryview:
        if rank == self.scheduler:
            told = header.kind in (wire.WAITS, wire.REFUSE)
            order = self.change is not None and (header.size > 0 if header.kind == wire.GRANT else header.kind == wire.DROP)
            fetching = header.kind == wire.FETCH or (header.kind == wire.PASS and self.model is not None)
            if not (told or order or fetching) or (header.size and not (told or header.kind == wire.GRANT)):
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
        elif header.kind == wire.MODEL:
            self._take_model(rank, header)
        else:
            super()._take(rank, header)
        if header.kind == wire.APPLIED:
            self._ask_to_fetch()

    def _take_model(self, rank: int, header: Header) -> None:
        """Go on with the model, unless one has already come from elsewhere."""
        weights = self.tensors.pop(rank)
        if self.change is None or header.number != self.fetches:
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
        if header.kind in (wire.WAITS, wire.REFUSE):
            super()._take(self.scheduler, header)
            return
        if header.kind == wire.PASS:
            self._pass_on(header)
            return
        if self.change is None or (header.kind == wire.FETCH and header.number != self.fetches):
            return  # the model has come from a worker that has died since
        match header.kind:
            case wire.GRANT:
                self._push(header, list(self.bodies[self.scheduler]))
            case wire.DROP:
                self.change.sent, self.change.octets, self.change.way = None, 0, ""  # the worker that was to send it on has died
                self._ask_to_fetch()
            case wire.FETCH:
                rate = header.rate / self.overhead
                self.channels.put(self.server, Header(wire.FETCH, dtype_of(self.change.started), self.fetches, rate=rate))

    def _pass_on(self, header: Header) -> None:
        """Send the model to a worker, unless the connection to it is lost."""
        assert self.model is not None
        version, octets = self.model
        if header.rank in self.channels.of:
            pace(self.channels[header.rank].socket, header.rate / self.overhead)
            answer = Header(wire.MODEL, self.dtype, header.number, size=len(octets), version=version)
            self.channels.put(header.rank, answer, octets)

    def _absorb(self, rank: int) -> None:
        """Keep what another worker has sent until it is to be sent on."""
        body = self.coming.pop(rank)
        (member,) = wire.members(memoryview(body), 1)
        if member.rank != rank:
            raise ValueError(f"an update of worker {member.rank}")
        if self.change is None or self.change.member is None:  # too late: its last bytes were on their way when its sender died
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
        """Other workers may leave or die, or the network to one may fail. The scheduler then reschedules what was on its way."""
        if rank in (self.server, self.scheduler):
            super()._lost(rank, error)
        self._forget(rank)
        self._tell(Header(wire.APART, rank=rank))
