"""Queue pairs of reliable connections (RC) in virtual time: the cores of real time, and a host's link in place of sockets."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from selectors import EVENT_READ
from typing import TYPE_CHECKING, Any

from inalab.hosts.cores import ffi, library
from inalab.hosts.drivers.virtual_connections import VirtualConnection
from inalab.hosts.drivers.virtual_time import FOR_EVER
from inalab.hosts.roce.meeting import Hello, await_ready, exchange, first_psn
from inalab.hosts.roce.settings import SIZES, QueuePairs
from inalab.hosts.roce.wire import OWN_IDENTIFICATION, UDP_PORT, address
from inalab.hosts.tcp.connection import Connection, Meeting, Segments

if TYPE_CHECKING:
    from inalab.hosts.drivers.virtual import VirtualHost

QUEUED = 2  # packets of an interface in its host's own queue
MESSAGE = SIZES["RC_MESSAGE"]
NEVER_DUE = 1e299  # seconds; cores have more


class VirtualAdapter:
    """A host's interface, for the connections of one meeting."""

    def __init__(self, host: VirtualHost, own: str, core: Any) -> None:
        self.host, self.time, self.own, self.core = host, host.time, own, core
        self.pairs: list[VirtualQueuePair] = []
        self.packet = ffi.new("uint8_t[]", SIZES["RC_PACKET"])
        self.queued = 0
        self.called = FOR_EVER  # when the clock calls

    def arrive(self, packet: bytes, marked: bool) -> None:
        """A packet has come for one of the pairs."""
        library().adapter_received(self.core, packet, len(packet), OWN_IDENTIFICATION, marked, self.time.now)
        self.pump()

    def pump(self) -> None:
        """Send what may leave, tell programs what has come, and be called when more is due."""
        core, now = self.core, self.time.now
        library().adapter_expired(core, now)
        for pair in self.pairs:
            pair.post()
        while self.queued < QUEUED:
            leaving = library().adapter_next(core, self.packet, now)
            if not leaving.length:
                break
            pair, packet = self.pairs[leaving.pair], ffi.buffer(self.packet, leaving.length)[:]
            self.queued += 1
            self.host.wire.put_packet(packet, (self.own, pair.port), (pair.peer, UDP_PORT), leaving.urgent, self._has_left)
        for pair in self.pairs:
            pair.settle()
        due = library().adapter_due(core, now)
        if due < self.called and (due > now or self.queued < QUEUED) and due < NEVER_DUE:
            self.called = due
            self.time.at(due, self._call, due)

    def _call(self, due: float) -> None:
        if due == self.called:
            self.called = FOR_EVER
            self.pump()

    def _has_left(self) -> None:
        self.queued -= 1
        self.pump()


class VirtualQueuePair(VirtualConnection):
    """One queue pair. `manager` is the connection by which both ends met: it tells each of the other's end."""

    def __init__(self, adapter: VirtualAdapter, core: Any, manager: VirtualConnection, port: int, peer: str) -> None:
        super().__init__(adapter.time)
        self.adapter, self.core, self.manager, self.port, self.peer = adapter, core, manager, port, peer
        self.into = ffi.new("uint8_t[]", MESSAGE)

    def unsent(self) -> int:
        return len(self.outgoing) + int(library().rc_unsent(self.core))

    def pump(self) -> None:
        self.adapter.pump()

    def reset(self) -> None:
        self.manager.reset()

    def notice_silence(self, seconds: float) -> None:
        self.manager.notice_silence(seconds)

    def pace(self, rate: float) -> None:
        """DCQCN does."""

    def segments(self) -> Segments:
        counted = self.core.counters
        return Segments(counted.packets, counted.again, counted.messages_sent + counted.messages_received)

    def post(self) -> None:
        """Make messages of what the program has handed over."""
        while self.outgoing and library().rc_room(self.core) == MESSAGE:
            message = bytes(self.outgoing[:MESSAGE])
            library().rc_post(self.core, ffi.addressof(self.adapter.core.settings), 0, message, len(message), 0, 0, False, 0)
            del self.outgoing[: len(message)]

    def settle(self) -> None:
        """Give the program what has come, and part from the other end when there is nothing more."""
        if self.broken:
            return
        q = self.core
        for octets in self._taken():
            self.incoming += octets
        if q.ended or self.manager.broken:
            self.break_off(errno.ETIMEDOUT if q.ended else errno.ECONNRESET)
            return
        if self.closed and self.incoming:
            self.break_off(errno.ECONNABORTED)
            self.reset()
            return
        if self.finished and not self.outgoing and q.acknowledged == q.posted and not self.manager.finished:
            self.manager.finish()
        self.ended |= self.manager.ended
        self.changed()

    def _taken(self) -> Iterator[bytes]:
        while size := library().rc_take(self.core, self.into, MESSAGE):
            yield ffi.buffer(self.into, size)[:]


def carry(host: VirtualHost, meeting: Meeting, me: int, peers: list[str], pairs: QueuePairs, patience: float) -> Meeting:
    """See hosts.drivers.queue_pairs."""
    its: dict[int, Connection] = {r: made for r, made in sorted(meeting.connections.items()) if peers[r] != peers[me]}
    if not its:
        return meeting
    ports = [next(host.ports) for _ in its]
    first = (ports[0] << 8) % (1 << 24)
    settings = pairs.on(pairs.rates[me], patience)
    core = ffi.gc(library().adapter_new(len(its), first, settings), library().adapter_free)
    adapter = VirtualAdapter(host, peers[me], core)
    mine = {r: Hello(first + i, first_psn(meeting.epoch, me, r), ports[i]) for i, r in enumerate(its)}
    others = exchange(host, its, mine, patience)
    for i, (rank, manager) in enumerate(its.items()):
        other = others[rank]
        assert isinstance(manager, VirtualConnection)
        used = ports[i], other.port, other.queue_pair, mine[rank].psn, other.psn
        library().adapter_connect(core, i, address(peers[me]), address(peers[rank]), *used, host.time.now)
        adapter.pairs.append(VirtualQueuePair(adapter, core.pairs + i, manager, ports[i], peers[rank]))
        host.pairs[peers[rank], other.port] = adapter
    await_ready(host, its, patience)
    for made in adapter.pairs:
        made.manager.wanted, made.manager.wake = EVENT_READ, adapter.pump
        host.connected(made)
    return Meeting(meeting.epoch, {**meeting.connections, **dict(zip(its, adapter.pairs, strict=True))})
