"""The socket on which BMv2 publishes digests: nanomsg's publish/subscribe protocol over a Unix socket.

Each side sends a greeting of 8 bytes, which ends with the kind of its socket, and then the publisher sends messages with a byte 1
and 64 bits of length before each. Subscribers send nothing more: they choose for themselves which messages they want.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from thrift.Thrift import TException

from .learning import Learning

PUBLISHER, SUBSCRIBER = (struct.pack(">4sHH", b"\0SP\0", kind, 0) for kind in (32, 33))
FRAME = struct.Struct(">BQ")
POLL_SECONDS = 0.05  # between looks at the switch's digests
PATIENCE = 1.0  # seconds for a subscriber that does not read: it is left behind then


class Notifications(threading.Thread):
    """Publishes what a switch's digests tell, at `path`, while somebody listens. What was told before the first came is dropped."""

    def __init__(self, learning: Learning, path: Path) -> None:
        super().__init__(daemon=True)
        self.learning, self.path = learning, path
        self.listener = socket.socket(socket.AF_UNIX)
        self.ending, self.end = socket.socketpair()
        self.greetings: dict[socket.socket, bytes] = {}  # what each that is connected has sent
        self.subscribers: set[socket.socket] = set()

    @property
    def address(self) -> str:
        """As clients of nanomsg have it."""
        return f"ipc://{self.path}"

    def start(self) -> None:
        """Listen, and publish until `stop`."""
        self.path.unlink(missing_ok=True)  # of one that was killed
        self.listener.bind(str(self.path))
        self.listener.listen()
        super().start()

    def run(self) -> None:
        """Take subscribers and publish to them, until `stop` or until the switch has ended."""
        with suppress(TException), self.listener:
            while self.ending not in (ready := self._ready()):
                if self.listener in ready:
                    self._welcome()
                for one in self.greetings.keys() & set(ready):
                    self._hear(one)
                for message in self.learning.poll(time.monotonic()) if self.subscribers else []:
                    self._publish(message)
        for one in list(self.greetings):
            self._lose(one)

    def stop(self) -> None:
        """End the thread, which was started, and take its socket away."""
        self.end.close()
        self.join()
        self.ending.close()
        self.path.unlink(missing_ok=True)

    def _ready(self) -> list[socket.socket]:
        watched = [self.ending, self.listener, *self.greetings]
        return select.select(watched, [], [], POLL_SECONDS if self.subscribers else None)[0]

    def _welcome(self) -> None:
        one, _ = self.listener.accept()
        one.settimeout(PATIENCE)
        self.greetings[one] = b""
        self._send(one, PUBLISHER)

    def _hear(self, one: socket.socket) -> None:
        """What a client sends is its greeting; it is let go at its end, and if it speaks another protocol."""
        try:
            heard = one.recv(len(SUBSCRIBER) + 1)
        except OSError:
            heard = b""
        self.greetings[one] += heard
        if not heard or not SUBSCRIBER.startswith(self.greetings[one]):
            self._lose(one)
        elif self.greetings[one] == SUBSCRIBER:
            if not self.subscribers:
                self.learning.forget()
            self.subscribers.add(one)

    def _publish(self, message: bytes) -> None:
        for one in list(self.subscribers):
            self._send(one, FRAME.pack(1, len(message)) + message)

    def _send(self, one: socket.socket, data: bytes) -> None:
        try:
            one.sendall(data)
        except OSError:
            self._lose(one)

    def _lose(self, one: socket.socket) -> None:
        self.subscribers.discard(one)
        del self.greetings[one]
        one.close()
