"""What an ATP job says over TCP, on a network that loses nothing: who is there, who has left, and whom a server lacks."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import AggregationError, Membership, node_name, workers
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.stream.stream import QUERY_PATIENCE, Absence, Question
from inalab.hosts.tcp.meeting import Meeting, MeetingError

PORT = 48866
QUESTION = struct.Struct(">Q")  # a chunk; the answer is a byte for each worker, 1 where it is missing


class ServerConnections:
    """A worker's connections to the job's servers. Raises AggregationError where one cannot be reached."""

    def __init__(self, driver: Driver, membership: Membership, addresses: Sequence[str], patience: float, epoch: int) -> None:
        """`addresses` are those of all nodes by rank."""
        m = self.membership = membership
        try:
            met = driver.meet(m.rank, range(m.size, len(addresses)), m.size, list(addresses), PORT, patience, epoch)
        except MeetingError as error:
            why = f"worker {m.rank}: job {m.job} cannot be completed: {node_name(error.rank, m.size)} {error.what}"
            raise AggregationError(why, incomplete=True) from None
        self.sockets = met.sockets

    def gone(self) -> str | None:
        """Which server has closed its connection, if one has."""
        for rank, made in self.sockets.items():
            if select.select([made], [], [], 0)[0]:
                try:
                    over = not made.recv(1, socket.MSG_PEEK)
                except OSError:
                    over = True
                if over:
                    return f"{node_name(rank, self.membership.size)} is gone"
        return None

    def ask(self, question: Question) -> Absence:
        """Whom a server lacks in a chunk."""
        name, size = node_name(question.server, self.membership.size), self.membership.size
        made = self.sockets.get(question.server)
        if made is None:
            return Absence(f"{name} cannot be asked")
        try:
            made.settimeout(QUERY_PATIENCE)
            made.sendall(QUESTION.pack(question.chunk))
            answer = b""
            while len(answer) < size:
                if not (more := made.recv(size - len(answer))):
                    return Absence(f"{name} is gone")
                answer += more
        except TimeoutError:
            return Absence(f"{name} does not answer")
        except OSError as error:
            return Absence(f"{name} is gone: {error}")
        absent = [rank for rank, missing in enumerate(answer) if missing]
        if not absent:
            return Absence(f"{name} has seen every worker, but its result is lost")
        return Absence(f"{name} has not seen {workers(absent)}", self.membership.rank not in absent, tuple(absent))

    def close(self) -> None:
        """Leave the job: the servers go when all workers have left."""
        for made in self.sockets.values():
            made.close()


class WorkerConnections:
    """A server's connections to the workers of a group, of which `missing` tells who lacks in a chunk."""

    def __init__(self, group: Meeting, missing: Callable[[int], NDArray[np.bool_]]) -> None:
        self.missing = missing
        self.sockets = {made.fileno(): made for made in group.sockets.values()}
        self.heard = dict.fromkeys(self.sockets, b"")  # the beginnings of questions
        self.waiting = select.epoll()
        for number in self.sockets:
            self.waiting.register(number, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when there is something to answer, or somebody has left."""
        return self.waiting.fileno()

    def answer(self) -> bool:
        """Answer what is asked; False when all workers have left."""
        for number, _ in self.waiting.poll(0):
            if not self._reply(number):
                self.waiting.unregister(number)
                self.sockets.pop(number).close()
        return bool(self.sockets)

    def _reply(self, number: int) -> bool:
        """Tell a worker who is missing; False when it has left."""
        made = self.sockets[number]
        try:
            if not (words := made.recv(QUESTION.size - len(self.heard[number]))):
                return False
            words = self.heard[number] + words
            if len(words) == QUESTION.size:
                made.sendall(self.missing(*QUESTION.unpack(words)).astype(np.uint8).tobytes())
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


def gather(
    driver: Driver, membership: Membership, addresses: list[str], patience: float, over: Callable[[], bool]
) -> Meeting | None:
    """Wait for the next group of the job's workers; None once `over`.

    `addresses` are those of all nodes by rank. Raises AggregationError if a worker does not connect within `patience` seconds of
    the first.
    """
    m = membership
    try:
        return driver.await_group(m.rank, range(m.size), addresses, PORT, patience, over)
    except MeetingError as error:
        raise AggregationError(f"{node_name(m.rank, m.size)}: {node_name(error.rank, m.size)} {error.what}") from None
