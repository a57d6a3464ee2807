"""How both ends of queue pairs learn of each other: over the connections by which they met, as RDMA's libraries do over TCP."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from selectors import EVENT_READ
from typing import NamedTuple

from inalab.hosts.drivers.driver import Driver
from inalab.hosts.tcp.connection import Connection, MeetingError

HELLO = struct.Struct(">4sIIHxx")
MAGIC, READY = b"RoCE", b"RTR!"  # ready to receive, as the verbs call it


class Hello(NamedTuple):
    """An end of a queue pair: its number, that of its first packet, and the UDP port that it sends from."""

    queue_pair: int
    psn: int
    port: int


def first_psn(epoch: int, me: int, rank: int) -> int:
    """Of a queue pair from one node to another: groups begin with numbers that are far apart."""
    return int.from_bytes(hashlib.sha256(struct.pack(">III", epoch, me, rank)).digest()[:3], "big")


def exchange(driver: Driver, connections: Mapping[int, Connection], mine: Mapping[int, Hello], patience: float) -> dict[int, Hello]:
    """What all others say of their ends. Raises MeetingError."""
    said = _exchange(driver, connections, {rank: HELLO.pack(MAGIC, *hello) for rank, hello in mine.items()}, patience)
    found = {}
    for rank, words in said.items():
        magic, *fields = HELLO.unpack(words)
        if magic != MAGIC:
            raise MeetingError(rank, "has no queue pair: all nodes of a job need the same transport")
        found[rank] = Hello(*fields)
    return found


def await_ready(driver: Driver, connections: Mapping[int, Connection], patience: float) -> None:
    """Until all others can receive, as this end can. Raises MeetingError."""
    _exchange(driver, connections, dict.fromkeys(connections, READY), patience)


def _exchange(
    driver: Driver, connections: Mapping[int, Connection], mine: Mapping[int, bytes], patience: float
) -> dict[int, bytes]:
    """As many bytes from each as go to it, which fit into any connection."""
    end = driver.monotonic() + patience
    found = {rank: bytearray(len(words)) for rank, words in mine.items()}
    missing = {rank: memoryview(words) for rank, words in found.items()}
    try:
        for rank, words in mine.items():
            connections[rank].send([words])
        with driver.selector() as waiting:
            for rank in missing:
                waiting.register(connections[rank], EVENT_READ, rank)
            while missing:
                if (left := end - driver.monotonic()) <= 0:
                    raise MeetingError(min(missing), "did not tell of its queue pair")
                for key, _ in waiting.select(left):
                    rank = key.data
                    try:
                        size = connections[rank].receive(missing[rank])
                    except BlockingIOError:
                        continue
                    if not size:
                        raise MeetingError(rank, "has closed the connection")
                    missing[rank] = missing[rank][size:]
                    if not missing[rank]:
                        del missing[rank]
                        waiting.unregister(connections[rank])
    except OSError as error:
        raise MeetingError(min(missing or mine), f"is gone: {error}") from None
    return {rank: bytes(words) for rank, words in found.items()}
