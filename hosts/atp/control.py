"""Requests of ATP's workers to its servers on a network that loses nothing: who has left, and whom a server lacks in a chunk."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from inalab.hosts.atp.server import AtpServer
from inalab.hosts.collective import AggregationError, Membership, node_name, workers
from inalab.hosts.drivers.driver import Driver, Requested
from inalab.hosts.stream.stream import QUERY_PATIENCE, Absence, Outlook, Question
from inalab.hosts.tcp.connection import MeetingError

PORT = 48866
MOST_CHUNKS = 1 << 62  # of a stream
QUESTION = struct.Struct(">Q")  # a chunk; the answer is a byte for each worker, 1 where it is missing


class ServerConnections:
    """A worker's connections to the job's servers. Raises AggregationError where one cannot be reached."""

    def __init__(self, driver: Driver, membership: Membership, addresses: list[str], patience: float, epoch: int) -> None:
        """`addresses` are those of all nodes by rank."""
        m = self.membership = membership
        try:
            self.requests = driver.requests(m.rank, range(m.size, len(addresses)), m.size, addresses, PORT, patience, epoch)
        except MeetingError as error:
            why = f"worker {m.rank}: job {m.job} cannot be completed: {node_name(error.rank, m.size)} {error.what}"
            raise AggregationError(why, incomplete=True) from None

    def gone(self) -> str | None:
        """Which server has closed its connection, if one has."""
        rank = self.requests.gone()
        return None if rank is None else f"{node_name(rank, self.membership.size)} is gone"

    def ask(self, question: Question) -> Absence:
        """Whom a server lacks in a chunk."""
        m, name = self.membership, node_name(question.server, self.membership.size)
        try:
            answer = self.requests.ask(question.server, QUESTION.pack(question.chunk), m.size, QUERY_PATIENCE)
        except TimeoutError:
            return Absence(f"{name} does not answer")
        except OSError as error:
            return Absence(f"{name} is gone{': ' * bool(str(error))}{error}")
        absent = [rank for rank, missing in enumerate(answer) if missing]
        if not absent:
            return Absence(f"{name} has seen every worker, but its result is lost", Outlook.RECOVERY)
        return Absence(f"{name} has not seen {workers(absent)}", Outlook.without(m.rank in absent), tuple(absent))

    def close(self) -> None:
        """Leave the job: the servers go when all workers have left."""
        self.requests.close()


def gather(
    driver: Driver, membership: Membership, addresses: list[str], patience: float, over: Callable[[], bool]
) -> Requested | None:
    """Wait for the next group of the job's workers; None once `over`.

    `addresses` are those of all nodes by rank. Raises AggregationError if a worker does not connect within `patience` seconds of
    the first.
    """
    m = membership
    try:
        return driver.requested(m.rank, range(m.size), addresses, PORT, patience, over, QUESTION.size)
    except MeetingError as error:
        raise AggregationError(f"{node_name(m.rank, m.size)}: {node_name(error.rank, m.size)} {error.what}") from None


def answering(server: AtpServer) -> Callable[[bytes], bytes]:
    """What answers questions to a server."""
    return lambda question: server.merger.missing(QUESTION.unpack(question)[0] % MOST_CHUNKS).astype(np.uint8).tobytes()
