"""TCP connections between the nodes of a job, each made once."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable

GREETING = struct.Struct(">I")
ATTEMPT = 2.5  # seconds


class MeetingError(RuntimeError):
    """A node is not there: its `rank`, and `what` it did not do."""

    def __init__(self, rank: int, what: str) -> None:
        super().__init__(f"node {rank} {what}")
        self.rank, self.what = rank, what


def meet(me: int, partners: Iterable[int], peers: list[str], port: int, patience: float) -> dict[int, socket.socket]:
    """Connections to partners of lower rank, and from those of higher ones; each begins with the rank of who made it.

    `peers` are the addresses of all nodes by rank. Raises MeetingError after `patience` seconds.
    """
    wanted = set(partners)
    end = time.monotonic() + patience
    found: dict[int, socket.socket] = {}
    with socket.create_server((peers[me], port), backlog=len(peers)) as listener:
        for rank in sorted(p for p in wanted if p < me):
            found[rank] = _reach(rank, (peers[rank], port), end)
            found[rank].sendall(GREETING.pack(me))
        while missing := sorted(wanted - set(found)):
            listener.settimeout(max(0.01, end - time.monotonic()))
            try:
                made, _ = listener.accept()
            except TimeoutError:
                raise MeetingError(missing[0], "did not connect") from None
            made.settimeout(max(0.01, end - time.monotonic()))
            if (said := _greeting(made)) is not None and said in missing:
                found[said] = made
            else:
                made.close()  # given up by who made it, or a stranger's
    for made in found.values():
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _reach(rank: int, address: tuple[str, int], end: float) -> socket.socket:
    while True:
        try:  # anew after a while: the kernel waits ever longer before it sends a lost SYN again
            return socket.create_connection(address, timeout=min(ATTEMPT, max(0.01, end - time.monotonic())))
        except OSError as error:
            if time.monotonic() > end:
                raise MeetingError(rank, f"cannot be reached: {error}") from None
            time.sleep(0.02)


def _greeting(made: socket.socket) -> int | None:
    """The rank of who has made a connection, if it says so."""
    try:
        words = made.recv(GREETING.size, socket.MSG_WAITALL)
    except OSError:
        return None
    return int(GREETING.unpack(words)[0]) if len(words) == GREETING.size else None
