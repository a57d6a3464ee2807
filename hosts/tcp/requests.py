"""Requests of a job's workers to its servers, on a network that loses nothing: a few bytes each way, now and then."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterable

from inalab.hosts.tcp.meeting import await_group, meet, sockets


class Requests:
    """A worker's connections to servers, by rank."""

    def __init__(self, sockets: dict[int, socket.socket]) -> None:
        self.sockets = sockets

    @classmethod
    def to(
        cls, me: int, servers: Iterable[int], workers: int, addresses: list[str], port: int, patience: float, epoch: int
    ) -> Requests:
        """Connect; see hosts.tcp.meeting.meet."""
        return cls(sockets(meet(me, servers, workers, addresses, port, patience, epoch)))

    def gone(self) -> int | None:
        """A server that has closed its connection, if one has."""
        for rank, made in self.sockets.items():
            if select.select([made], [], [], 0)[0]:
                try:
                    over = not made.recv(1, socket.MSG_PEEK)
                except OSError:
                    over = True
                if over:
                    return rank
        return None

    def ask(self, server: int, request: bytes, length: int, patience: float) -> bytes:
        """The answer, of so many bytes. Raises TimeoutError after `patience` seconds, and OSError where the server is gone."""
        made = self.sockets[server]
        made.settimeout(patience)
        made.sendall(request)
        answer = b""
        while len(answer) < length:
            if not (more := made.recv(length - len(answer))):
                raise ConnectionResetError
            answer += more
        return answer

    def close(self) -> None:
        """Leave."""
        for made in self.sockets.values():
            made.close()


class Requested:
    """A server's connections to the workers of a group, whose requests of `size` bytes `handler` answers."""

    handler: Callable[[bytes], bytes]  # which the server sets

    def __init__(self, epoch: int, sockets: Iterable[socket.socket], size: int) -> None:
        self.epoch, self.size = epoch, size
        self.sockets = {made.fileno(): made for made in sockets}
        for made in self.sockets.values():
            made.setblocking(True)
        self.heard = dict.fromkeys(self.sockets, b"")  # the beginnings of requests
        self.waiting = select.epoll()
        for number in self.sockets:
            self.waiting.register(number, select.EPOLLIN)

    @classmethod
    def of(
        cls, me: int, workers: Iterable[int], addresses: list[str], port: int, patience: float, over: Callable[[], bool], size: int
    ) -> Requested | None:
        """Those of the next group of workers; see hosts.tcp.meeting.await_group."""
        group = await_group(me, workers, addresses, port, patience, over)
        return None if group is None else cls(group.epoch, sockets(group).values(), size)

    def fileno(self) -> int:
        """Readable when there is something to answer, or somebody has left."""
        return self.waiting.fileno()

    def answer(self) -> bool:
        """Answer what is requested; False when all workers have left."""
        for number, _ in self.waiting.poll(0):
            if not self._reply(number):
                self.waiting.unregister(number)
                self.sockets.pop(number).close()
        return bool(self.sockets)

    def _reply(self, number: int) -> bool:
        """Answer one worker; False when it has left."""
        made = self.sockets[number]
        try:
            if not (words := made.recv(self.size - len(self.heard[number]))):
                return False
            words = self.heard[number] + words
            if len(words) == self.size:
                made.sendall(self.handler(words))
                words = b""
            self.heard[number] = words
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        for made in self.sockets.values():
            made.close()
        self.waiting.close()
