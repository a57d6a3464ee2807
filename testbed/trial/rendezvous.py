"""Where workers connect to the coordinator. A connection without the secret delays no worker."""

from __future__ import annotations

import hmac
import selectors
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

from inalab.hosts.coordination import SILENCE
from inalab.hosts.tcp.kernel import notice_silence

ROOM = 16  # connections without the secret, beyond one for each worker; if there are more, the oldest is closed
BACKLOG = 1024  # connections that the kernel queues until they are accepted
SECONDS = 5.0  # from the connection to the last byte of the secret


@dataclass
class Stranger:
    """A connection that has not shown the whole secret yet."""

    made: socket.socket
    due: float
    shown: bytes = b""


class Rendezvous:
    """A listener on `address` for `expected` workers that know the secret."""

    def __init__(self, address: tuple[str, int], secret: bytes, expected: int, silence: float = SILENCE) -> None:
        """`silence` is as for hosts.coordination.connect."""
        self.secret, self.room, self.silence = secret, expected + ROOM, silence
        self.listener = socket.create_server(address, backlog=BACKLOG)
        self.listener.setblocking(False)
        self.address: tuple[str, int] = self.listener.getsockname()
        self.strangers: list[Stranger] = []  # the oldest first
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def __enter__(self) -> Rendezvous:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def look(self, seconds: float) -> list[Connection]:
        """Wait for at most `seconds`. Return the connections that have shown the secret in that time."""
        admitted = []
        for key, _ in self.selector.select(seconds):
            if key.data is None:
                self._accept()
            elif key.data in self.strangers and (connection := self._read(key.data)):
                admitted.append(connection)
        now = time.monotonic()
        for stranger in [s for s in self.strangers if s.due < now]:
            self._forget(stranger).close()
        return admitted

    def _accept(self) -> None:
        try:
            made, _ = self.listener.accept()
        except OSError:  # the peer has given up
            return
        made.setblocking(False)
        if len(self.strangers) >= self.room:
            self._forget(self.strangers[0]).close()
        stranger = Stranger(made, time.monotonic() + SECONDS)
        self.strangers.append(stranger)
        self.selector.register(made, selectors.EVENT_READ, stranger)

    def _read(self, stranger: Stranger) -> Connection | None:
        """Take in what the stranger shows, not a byte more than the secret is long; the connection if that is the secret."""
        try:
            more = stranger.made.recv(len(self.secret) - len(stranger.shown))
        except BlockingIOError:
            return None
        except OSError:
            more = b""
        stranger.shown += more
        if more and len(stranger.shown) < len(self.secret):
            return None
        made = self._forget(stranger)
        if not hmac.compare_digest(stranger.shown, self.secret):
            made.close()
            return None
        made.setblocking(True)
        notice_silence(made, self.silence)
        return Connection(made.detach())

    def _forget(self, stranger: Stranger) -> socket.socket:
        self.strangers.remove(stranger)
        self.selector.unregister(stranger.made)
        return stranger.made

    def close(self) -> None:
        """Close the listener and the connections without the secret."""
        for stranger in list(self.strangers):
            self._forget(stranger).close()
        self.selector.close()
        self.listener.close()
