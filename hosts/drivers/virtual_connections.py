"""TCP connections in virtual time, as those who use them see them; what carries their bytes is the network's."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any, Protocol

from inalab.hosts.drivers.virtual_time import FOR_EVER, Event, VirtualTime
from inalab.hosts.tcp.connection import Connection, Meeting, MeetingError, Segments

BUFFER = 4 << 20  # bytes that a connection takes and has not sent, or that were not acknowledged: Linux's largest (tcp_wmem)
ANY = -1  # epoch
Connect = Callable[[str, str, int], tuple[Connection, Connection]]


class Waitable(Protocol):
    """What a selector waits for."""

    wake: Callable[[], None] | None  # called when one of the events that are wanted happens to it
    wanted: int

    def ready(self) -> int:
        """EVENT_READ and EVENT_WRITE, as far as they are."""
        ...


class VirtualConnection(ABC):
    """A hosts.tcp.connection.Connection."""

    def __init__(self, time: VirtualTime) -> None:
        self.time = time
        self.descriptor = -1
        self.outgoing = bytearray()  # what the other end has not acknowledged
        self.incoming = bytearray()
        self.limit = BUFFER
        self.ended = False  # the other end sends no more
        self.finished = self.closed = False  # this one
        self.broken: OSError | None = None
        self.wake: Callable[[], None] | None = None
        self.wanted = 0

    @abstractmethod
    def unsent(self) -> int:
        """Bytes of `outgoing` that have not been sent."""

    @abstractmethod
    def pump(self) -> None:
        """Send what may be."""

    @abstractmethod
    def reset(self) -> None:
        """End the connection for the other end, too."""

    @abstractmethod
    def notice_silence(self, seconds: float) -> None:
        """See Connection, as all that follow."""

    @abstractmethod
    def pace(self, rate: float) -> None: ...

    @abstractmethod
    def segments(self) -> Segments: ...

    def fileno(self) -> int:
        return self.descriptor

    def send(self, parts: Sequence[memoryview | bytes]) -> int:
        if self.broken or self.finished:
            raise self.broken or _error(errno.EPIPE)
        if not (room := self._room()):
            raise BlockingIOError
        before = len(self.outgoing)
        for part in parts:
            self.outgoing += part[: room - (len(self.outgoing) - before)]
        taken = len(self.outgoing) - before
        self.pump()
        return taken

    def _room(self) -> int:
        """Bytes that may be handed over."""
        return max(0, min(self.limit - self.unsent(), BUFFER - len(self.outgoing)))

    def unread(self) -> int:
        return len(self.incoming)

    def receive(self, into: memoryview) -> int:
        size = min(len(into), len(self.incoming))
        if size:
            into[:size] = self.incoming[:size]
            del self.incoming[:size]
        elif self.broken:
            raise self.broken
        elif not self.ended:
            raise BlockingIOError
        return size

    def ready(self) -> int:
        """See Waitable."""
        if self.broken:
            return EVENT_READ | EVENT_WRITE
        readable = EVENT_READ if self.incoming or self.ended else 0
        return readable | (EVENT_WRITE if 2 * self.unsent() < self.limit and len(self.outgoing) < BUFFER else 0)

    def finish(self) -> None:
        self.finished = True
        self.pump()

    def limit_unsent(self, octets: int) -> None:
        self.limit = octets

    def close(self) -> None:
        """What comes from now on, or has come and was not read, resets the connection, as in Linux."""
        if self.closed or self.broken:
            return
        self.closed = True
        if self.incoming:
            self.break_off(errno.ECONNABORTED)
            self.reset()
        else:
            self.finish()

    def changed(self) -> None:
        """Something has come, or there is room."""
        if self.wake and self.ready() & self.wanted:
            self.wake()

    def break_off(self, why: int) -> None:
        """The connection has ended, for this reason (errno). What has come before can still be read."""
        self.broken = _error(why)
        self.outgoing.clear()
        self.changed()


def _error(why: int) -> OSError:
    return OSError(why, os.strerror(why))


class VirtualSelector(BaseSelector):
    """Of a host's connections and signals, `known` by descriptor."""

    def __init__(self, time: VirtualTime, known: Mapping[int, Waitable]) -> None:
        self.time, self.known = time, known
        self.keys: dict[Any, SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """See BaseSelector, as all that follow."""
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self.keys[fileobj] = SelectorKey(fileobj, number, events, data)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self.keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        time = self.time
        end = FOR_EVER if timeout is None else time.now + timeout
        while not (found := self._ready()) and time.now < end:
            wake = time.waker()
            waited = [(self.known[key.fd], key.events) for key in self.keys.values()]
            for one, events in waited:
                one.wake, one.wanted = wake, events
            time.wait_until(end)
            for one, _ in waited:
                one.wake = None
        return found

    def _ready(self) -> list[tuple[SelectorKey, int]]:
        known = self.known
        return [(key, events) for key in self.keys.values() if (events := key.events & known[key.fd].ready())]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self.keys

    def close(self) -> None:
        self.keys.clear()


class Meetings:
    """Where the nodes of groups meet: connections are made at once, when both ends are there.

    `connect` makes one from an address to another, and a port there: both ends. Whoever waits is open to the workers of one epoch;
    servers are to those of any, and have `epoch` themselves, because they have one group.
    """

    def __init__(self, time: VirtualTime, epoch: int, connect: Connect) -> None:
        self.time, self.epoch, self.connect = time, epoch, connect
        # of those who wait, for workers of an epoch, with those that have come, by rank
        self.doors: dict[tuple[str, int, int], dict[int, Connection]] = {}
        self.changed = Event(time)

    def meet(
        self, me: int, partners: Iterable[int], workers: int, peers: list[str], port: int, patience: float, epoch: int
    ) -> Meeting:
        """See hosts.tcp.meeting, as all that follow."""
        wanted = set(partners)
        reached = {rank for rank in wanted if rank < me or rank >= workers}
        self._open(peers[me], port, epoch)
        made = self.reach(me, sorted(reached), peers, port, patience, epoch)
        made.connections |= self._enter(peers[me], port, epoch, wanted - reached, patience)
        return made

    def reach(self, me: int, ranks: Iterable[int], peers: list[str], port: int, patience: float, epoch: int) -> Meeting:
        made, end = Meeting(epoch), self.time.now + patience
        for rank in ranks:
            self._wait(lambda rank=rank: self._door(peers[rank], port, epoch) is not None, end, rank, "cannot be reached")  # type: ignore[misc]
            made.connections[rank], theirs = self.connect(peers[me], peers[rank], port)
            door = self._door(peers[rank], port, epoch)
            assert door is not None
            door[me] = theirs
            self._change()
        return made

    def _door(self, address: str, port: int, epoch: int) -> dict[int, Connection] | None:
        return self.doors.get((address, port, epoch), self.doors.get((address, port, ANY)))

    def await_group(
        self, me: int, partners: Iterable[int], peers: list[str], port: int, patience: float, over: Callable[[], bool]
    ) -> Meeting | None:
        """For as long as it takes: there is one group of each job."""
        self._open(peers[me], port, ANY)
        return Meeting(self.epoch, self._enter(peers[me], port, ANY, set(partners), FOR_EVER))

    def _open(self, address: str, port: int, epoch: int) -> None:
        self.doors[address, port, epoch] = {}
        self._change()

    def _enter(self, address: str, port: int, epoch: int, wanted: set[int], patience: float) -> dict[int, Connection]:
        """Those that are wanted, once all have come."""
        came, end = self.doors[address, port, epoch], self.time.now + patience
        for rank in sorted(wanted):
            self._wait(lambda rank=rank: rank in came, end, rank, "did not connect")  # type: ignore[misc]
        del self.doors[address, port, epoch]
        return came

    def _change(self) -> None:
        changed, self.changed = self.changed, Event(self.time)
        changed.set()

    def _wait(self, there: Callable[[], bool], end: float, rank: int, what: str) -> None:
        while not there():
            if not self.changed.wait(None if end == FOR_EVER else end - self.time.now):
                raise MeetingError(rank, what)
