"""A worker that sends its updates to the host that holds the model, and fetches the model behind each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Operation, Sum, Update, node_name
from inalab.hosts.tcp.connected import DEAD, Connected
from inalab.hosts.tcp.connection import Meeting, MeetingError
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.serving import reason_of
from inalab.hosts.updates import wire
from inalab.hosts.updates.wire import Header, Member

KINDS = {Operation.SUM: wire.GIVE, Operation.KEEP: wire.KEEP}


@dataclass(eq=False)
class Change:
    """An update under way, and the model that is fetched after it; `member` is None where only the model is fetched."""

    started: Sum
    member: Member | None
    requested: float
    turn: float | None = None  # from when on it had the links to itself, where that is scheduled
    sent: float | None = None
    octets: int = 0
    way: str = ""
    applied_at: int | None = None  # the version
    applied: float | None = None
    fetching: bool = False  # the model has been asked for
    distance: float | None = None  # norms of what the server's model then had and the replica lacked


class ModelWorker(Connected[Header]):
    """Sums, and changes of the model that is kept, over one connection to the server, which is the node behind the workers."""

    operations = (Operation.SUM, Operation.KEEP, Operation.CHANGE, Operation.FETCH)

    def __init__(self, group: Group) -> None:
        """Raises AggregationError where the server cannot be reached."""
        super().__init__(group)
        self.server = group.membership.size
        try:
            self._connect(self._meet(group, min(group.patience, DEAD)), Header)
        except MeetingError as error:
            raise self._error(f"{self._name(error.rank)} {error.what}", error.rank) from None
        self.sums: dict[int, Sum] = {}  # under way, by number
        self.started = self.updates = self.fetches = 0  # sums, updates and fetches so far
        self.kept: tuple[str, int] | None = None  # name and elements of the model
        self.dtype = b"f"  # of the model
        self.version = 0  # of the model that was fetched last
        self.change: Change | None = None
        self.bodies: dict[int, memoryview] = {}  # by node: what comes
        self.tensors: dict[int, NDArray[Any]] = {}  # by node: likewise, where it is a tensor

    def _meet(self, group: Group, patience: float) -> Meeting:
        return group.reach([self.server], wire.TCP_PORT, patience)

    def _name(self, rank: int) -> str:
        return node_name(rank, self.membership.size)

    # --- what is started

    def _start(self, started: Sum) -> None:
        if not self.sums and self.change is None:
            self._begin()
        if started.operation in KINDS:
            self._give(started)
        else:
            self._change(started)

    def _give(self, started: Sum) -> None:
        if started.operation == Operation.KEEP:
            if self.kept:
                raise ValueError(f"tensor {self.kept[0]!r} is kept, and no other can be")
            self.kept, self.dtype = (started.label.name, started.flat.size), dtype_of(started)
        self.sums[self.started] = started
        self.started += 1
        self._send_part(self.started - 1, started)

    def _send_part(self, number: int, started: Sum) -> None:
        octets = started.flat.view(np.uint8).data if started.flat.any() else memoryview(b"")
        kind, elements = KINDS[started.operation], started.flat.size
        self._put(Header(kind, dtype_of(started), number, size=len(octets), elements=elements), octets)

    def _put(self, header: Header, octets: bytes | memoryview = b"") -> None:
        """Send the server a message when it is its turn."""
        self.channels.put(self.server, header, octets)

    def _change(self, started: Sum) -> None:
        name, flat = started.label.name, started.flat
        if self.kept != (name, flat.size):
            raise ValueError(f"no tensor of {flat.size:,} elements is kept under the name {name!r}")
        if self.change is not None:
            raise ValueError(f"tensor {name!r} is being changed: one change of a worker's is under way at a time")
        self.change = Change(started, None, self.driver.monotonic())
        self.fetches += 1
        if started.operation == Operation.CHANGE:
            self.change.member = Member(self.membership.rank, self.updates, self.version, Update.norm_of(flat))
            self.updates += 1
        self._announce(self.change)

    def _announce(self, change: Change) -> None:
        """Send the update, and fetch the model behind it."""
        started = change.started
        if change.member is not None:
            octets = change.member.pack() + started.flat.tobytes()  # a copy: the model may be written over the update
            self._put(Header(wire.UPDATE, dtype_of(started), members=1, size=len(octets)), octets)
            change.sent, change.octets, change.way = change.requested, len(octets), self._name(self.server)
        self._put(Header(wire.FETCH, dtype_of(started), self.fetches))

    # --- what comes

    def _read(self, rank: int) -> None:
        for header in self.channels[rank].read(lambda header: self._room(rank, header)):
            self.answered = True
            self._take(rank, header)

    def _take(self, rank: int, header: Header) -> None:
        """Do what follows from a message."""
        match header.kind:
            case wire.RESULT:
                self._over_with(self.sums.pop(header.number), self.tensors.pop(rank))
            case wire.APPLIED:
                assert self.change is not None
                self.change.applied_at, self.change.applied = header.version, header.at
                self.progress_at = self.driver.monotonic()
            case wire.MODEL:
                self._fetched(rank, header, self.tensors.pop(rank))
            case wire.WAITS:
                if (missing := list(self.bodies[rank])) and (self.change or self.sums):
                    self._waits("the model" if self.change else f"sum {min(self.sums)}", missing)
            case wire.REFUSE:
                reason, lacking = reason_of(bytes(self.bodies[rank]))
                raise self._error(reason, *lacking)

    def _room(self, rank: int, header: Header) -> memoryview:
        """Where the body of a message belongs."""
        started: Sum | None = None
        if header.kind == wire.RESULT:
            started = self.sums.get(header.number)
        elif header.kind == wire.MODEL and self.change is not None and header.number == self.fetches:
            started = self.change.started
        if started is not None:
            if (header.size, header.dtype) != (started.flat.nbytes, dtype_of(started)):
                raise ValueError(f"{header.size} bytes for a tensor of {started.flat.nbytes}")
            overwrite = started.overwrite and started.flat.flags.writeable
            self.tensors[rank] = started.flat if overwrite else np.empty_like(started.flat)
            self.bodies[rank] = self.tensors[rank].data.cast("B")
        elif header.kind in (wire.WAITS, wire.REFUSE):
            self.bodies[rank] = memoryview(bytearray(header.size))
        elif header.kind == wire.APPLIED and self.change is not None and self.change.member is not None and not header.size:
            self.bodies[rank] = memoryview(b"")
        else:
            raise ValueError(f"a message {header.kind} with {header.size} bytes")
        return self.bodies[rank]

    def _fetched(self, rank: int, header: Header, weights: NDArray[Any]) -> None:
        change, self.change = self.change, None
        assert change is not None
        self.version = change.started.version = header.version
        if change.member is not None:
            computed_on, norm = change.member.version, change.member.norm
            change.started.update = Update(
                computed_on, change.applied_at, norm, change.octets, change.requested, change.sent, change.applied, change.way,
                self._name(rank), change.distance, change.turn,
            )  # fmt: skip
        self._over_with(change.started, weights)

    def _over_with(self, started: Sum, result: NDArray[Any]) -> None:
        self.progress_at = self.driver.monotonic()
        self._count()
        started.end(result)

    def _sent(self, headers: list[Header]) -> None:
        pass

    def _ask(self) -> int:
        self._put(Header(wire.ASK, priority=wire.URGENT))
        return self.server


def dtype_of(started: Sum) -> bytes:
    """A key of wire.DTYPES."""
    return started.flat.dtype.char.encode()
