"""TCP connections between the nodes of a group, each made once.

Whoever connects says its rank and its group's epoch. What says something else, or comes from another address than that
rank's, is closed, and what says nothing keeps no worker waiting.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable

from inalab.hosts.epoch import newer
from inalab.hosts.tcp.connection import Meeting, MeetingError
from inalab.hosts.tcp.kernel import KernelConnection, control_congestion

GREETING = struct.Struct(">II")  # rank and epoch
ATTEMPT = 2.5  # seconds
GLANCE = 0.2  # seconds between two looks at whether the wait is over


def meet(me: int, partners: Iterable[int], workers: int, peers: list[str], port: int, patience: float, epoch: int) -> Meeting:
    """A worker's connections to partners of its group: to workers of lower rank and servers, and from workers of higher rank.

    `peers` are the addresses of all nodes by rank, of which the first `workers` are workers. Raises MeetingError after
    `patience` seconds.
    """
    wanted = set(partners)
    reached = {p for p in wanted if p < me or p >= workers}
    meeting, end = Meeting(epoch), time.monotonic() + patience
    try:
        with _listen(peers[me], port, len(peers)) as listener:
            for rank in sorted(reached):
                meeting.connections[rank] = _reach(rank, (peers[rank], port), peers[me], end, GREETING.pack(me, epoch))
            door = _Door(listener, peers, meeting, wanted - reached)
            while missing := door.missing:
                if time.monotonic() > end:
                    raise MeetingError(min(missing), "did not connect")
                door.look(end - time.monotonic())
            door.close()
    except BaseException:
        meeting.close()
        raise
    return _ready(meeting)


def reach(me: int, ranks: Iterable[int], peers: list[str], port: int, patience: float, epoch: int) -> Meeting:
    """Connections of a worker to all of these ranks, which wait for its group. Raises MeetingError after `patience` seconds."""
    meeting, end = Meeting(epoch), time.monotonic() + patience
    try:
        for rank in ranks:
            meeting.connections[rank] = _reach(rank, (peers[rank], port), peers[me], end, GREETING.pack(me, epoch))
    except BaseException:
        meeting.close()
        raise
    return _ready(meeting)


def await_group(
    me: int, partners: Iterable[int], peers: list[str], port: int, patience: float, over: Callable[[], bool]
) -> Meeting | None:
    """Wait for the next group of `partners`, all of which connect: the newest that anybody speaks of. None once `over`.

    Raises MeetingError when a partner has not connected `patience` seconds after the first of its group.
    """
    meeting, end = Meeting(0), float("inf")
    with _listen(peers[me], port, len(peers)) as listener:
        door = _Door(listener, peers, meeting, set(partners), follow=True)
        while missing := door.missing:
            if over() or time.monotonic() > end:
                door.close()
                meeting.close()
                if not over():
                    raise MeetingError(min(missing), "did not connect")
                return None
            before = meeting.epoch
            door.look(GLANCE)
            if meeting.epoch != before:
                end = time.monotonic() + patience
        door.close()
    return _ready(meeting)


def _listen(address: str, port: int, backlog: int) -> socket.socket:
    listener = socket.create_server((address, port), backlog=max(backlog, 16))
    listener.setblocking(False)
    return listener


def _ready(meeting: Meeting) -> Meeting:
    for made in sockets(meeting).values():
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        control_congestion(made)
    return meeting


def sockets(meeting: Meeting) -> dict[int, socket.socket]:
    """Those of its connections, by rank."""
    return {rank: made.socket for rank, made in meeting.connections.items() if isinstance(made, KernelConnection)}


def _reach(rank: int, address: tuple[str, int], own: str, end: float, greeting: bytes) -> KernelConnection:
    while True:
        try:  # anew after a while: the kernel waits ever longer before it sends a lost SYN again
            made = socket.create_connection(address, min(ATTEMPT, max(0.01, end - time.monotonic())), (own, 0))
            try:
                made.sendall(greeting)
            except OSError:
                made.close()
                raise
            return KernelConnection(made)
        except OSError as error:
            if time.monotonic() > end:
                raise MeetingError(rank, f"cannot be reached: {error}") from None
            time.sleep(0.02)


class _Door:
    """Takes in connections, and reads their greetings as they come; `follow`: a newer epoch takes the place of the meeting's."""

    def __init__(self, listener: socket.socket, peers: list[str], meeting: Meeting, wanted: set[int], follow: bool = False) -> None:
        self.peers, self.meeting, self.wanted, self.follow = peers, meeting, wanted, follow
        self.words: dict[socket.socket, bytes] = {}  # of those who have not finished their greeting
        self.waiting = selectors.DefaultSelector()
        self.listener = listener
        self.waiting.register(listener, selectors.EVENT_READ)

    @property
    def missing(self) -> set[int]:
        return self.wanted - set(self.meeting.connections)

    def look(self, seconds: float) -> None:
        """Take in what comes, for so long at most."""
        for key, _ in self.waiting.select(max(0.0, seconds)):
            made = key.fileobj
            assert isinstance(made, socket.socket)
            if made is self.listener:
                self._accept()
            else:
                self._read(made)

    def _accept(self) -> None:
        try:
            made, _ = self.listener.accept()
        except OSError:  # given up meanwhile by who made it
            return
        made.setblocking(False)
        self.words[made] = b""
        self.waiting.register(made, selectors.EVENT_READ)

    def _read(self, made: socket.socket) -> None:
        try:
            words = made.recv(GREETING.size - len(self.words[made]))
        except BlockingIOError:
            return
        except OSError:
            words = b""
        self.words[made] += words
        if words and len(self.words[made]) < GREETING.size:
            return
        self.waiting.unregister(made)
        greeting = self.words.pop(made)
        if len(greeting) < GREETING.size or not self._admit(made, *GREETING.unpack(greeting)):
            made.close()  # given up by who made it, or a stranger's

    def _admit(self, made: socket.socket, rank: int, epoch: int) -> bool:
        try:
            address = made.getpeername()[0]
        except OSError:
            return False
        if rank not in self.wanted or address != self.peers[rank]:
            return False
        if self.follow and newer(epoch, self.meeting.epoch):
            self.meeting.close()
            self.meeting.connections.clear()
            self.meeting.epoch = epoch
        if epoch != self.meeting.epoch or rank in self.meeting.connections:
            return False
        self.meeting.connections[rank] = KernelConnection(made)
        return True

    def close(self) -> None:
        """Close what has not finished its greeting."""
        for made in self.words:
            made.close()
        self.waiting.close()
