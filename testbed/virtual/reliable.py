"""Connections that lose nothing, on the management network and within a host: what is sent comes after a moment."""

from __future__ import annotations

import errno

from inalab.hosts.drivers.virtual_connections import VirtualConnection
from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.hosts.tcp.connection import Segments


class ReliableEnd(VirtualConnection):
    """One end; `peer` is the other."""

    peer: ReliableEnd

    def __init__(self, time: VirtualTime, delay: float) -> None:
        super().__init__(time)
        self.delay, self.sent = delay, 0

    @classmethod
    def pair(cls, time: VirtualTime, delay: float) -> tuple[ReliableEnd, ReliableEnd]:
        """A connection on which bytes take so many seconds."""
        one, other = cls(time, delay), cls(time, delay)
        one.peer, other.peer = other, one
        return one, other

    def unsent(self) -> int:
        return 0

    def pump(self) -> None:
        if not self.broken and (self.outgoing or self.finished):
            self.sent += 1
            self.time.after(self.delay, self.peer.arrive, bytes(self.outgoing), self.finished)
            self.outgoing.clear()

    def reset(self) -> None:
        self.time.after(self.delay, self.peer.break_off, errno.ECONNRESET)

    def notice_silence(self, seconds: float) -> None:
        """Nothing is silent here."""

    def pace(self, rate: float) -> None:
        """What is sent here is small."""

    def segments(self) -> Segments:
        return Segments(self.sent, 0)

    def arrive(self, octets: bytes, ends: bool) -> None:
        """The other end has sent this."""
        if self.broken:
            return
        if self.closed and octets:
            self.break_off(errno.ECONNABORTED)
            self.reset()
            return
        self.incoming += octets
        self.ended |= ends
        self.changed()
