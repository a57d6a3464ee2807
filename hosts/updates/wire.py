"""What workers and the host that holds the model tell each other over TCP: a header, and as many bytes as it says."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

TCP_PORT = 48867
GIVE, KEEP, RESULT, UPDATE, APPLIED, FETCH, MODEL, ASK, WAITS, REFUSE = range(10)
REQUEST, GRANT, DROP, ARRIVED, SKIP, SKIPPED, LATE, PASS, APART = range(10, 19)  # what a scheduler and its nodes tell each other
REPLICATE, COPY, HELD, ALONE, TAKEN, OVER = range(19, 25)  # likewise, with a replica of the server
HEADER = struct.Struct(">BcxxIIiIIIIQdddd")
MEMBER = struct.Struct(">IIQd")
NUMBER = struct.Struct(">I")
DTYPES = {b"f": np.dtype(np.float32), b"i": np.dtype(np.int32)}
LONGEST = 1 << 28  # bytes behind a header
LATEST = (1 << 64) - 1  # version that only the server can have
URGENT = -(1 << 31)  # priority
NO_REPLICA = -1.0  # norm


class Header(NamedTuple):
    """GIVE     a worker's part of a sum. It asks for the sum, too
    KEEP     likewise; the sum becomes the model
    RESULT   the sum
    UPDATE   what is to be added to the model: who is in it, a Member each, and then the elements
    APPLIED  a worker's update was added, to the model of this version, at this time
    FETCH    asks for the model; its number is the fetch's among the worker's
    MODEL    it, its version, and the number of the fetch that it answers
    ASK      a worker that has heard nothing asks whom the server waits for
    WAITS    their ranks, a byte each
    REFUSE   why the group cannot go on (hosts.tcp.serving)

    With a scheduler (hosts.mlfabric) there are more:

    REQUEST  a worker has an update. To the scheduler, FETCH asks for a turn to fetch the model, which workers pass on only if it
             is of this version or a later one, and MODEL reports its arrival
    GRANT    the worker may now send `rank` the sum of these ranks' updates, a byte each. Its links have been free since this time.
             FETCH from the scheduler says that it may fetch the model
    DROP     it is not to send the update
    ARRIVED  the sender has received the update of `rank` with this number, and will send it on
    PASS     the worker is to send the model that it has to `rank`, whose fetch has this number
    APART    the sender's connection to worker `rank` has ended
    SKIP     the server is not to wait for a ticket's transfer. It answers SKIPPED, unless it has already sent APPLIED
    LATE     what belongs to a ticket that was skipped has come to the server

    With a replica of the server there are more:

    REPLICATE  a worker or the server is to send `rank`, the replica, the sum of what came with these tickets, four bytes each
    COPY       that sum, as the copy of this number: who is in it, a Member each, and then the elements. The first copy, 0, is the
               model
    HELD       the replica has the copy of this number. The server is told the tickets in it
    ALONE      `rank` is the only server from now on. If that is the replica, it takes over: the next ticket is this one, and its
               model counts as this version. A worker, which is to resend what was not answered, also gets two numbers,
               four bytes each: the number after that of its last update that the replica has, and the version that this update
               was to be applied to
    TAKEN      the sender knows that the replica has taken over. The replica adds the first of those numbers for every worker
    OVER       the worker leaves, and will need no server any more
    RESULT     to the new server: a sum that the worker has and others may lack
    """

    kind: int
    dtype: bytes = b"f"  # a key of DTYPES
    number: int = 0  # of the sum; of the update or the fetch among its worker's
    members: int = 0  # of an update
    priority: int = 0  # the lower, the sooner it is sent
    size: int = 0  # bytes that follow
    rank: int = 0  # a worker's, or of the node to send to
    elements: int = 0  # of a tensor that is given; where no bytes follow all are 0
    ticket: int = 0  # transfers to the server are applied in the order of these
    version: int = 0  # of the model: updates that are in it
    at: float = 0.0  # time.monotonic()
    rate: float = 0.0  # bytes per second to send with; 0 means no limit
    load: float = 0.0  # bytes that the update or the model takes on a link
    norm: float = 0.0  # of the update; of an applied one: of what is in the model and not in the replica's, or NO_REPLICA

    @staticmethod
    def length() -> int:
        """Bytes."""
        return HEADER.size

    def pack(self) -> bytes:
        """As on the wire."""
        return HEADER.pack(*self)

    @classmethod
    def unpack(cls, octets: Any) -> Header:
        """What `pack` wrote; ValueError for what it cannot have written."""
        header = cls(*HEADER.unpack(octets))
        if header.kind > OVER or header.dtype not in DTYPES or header.size > LONGEST:
            raise ValueError(f"no message begins with {bytes(octets).hex()}")
        return header


class Member(NamedTuple):
    """A worker's update, which is in what is sent: by itself, or with others'."""

    rank: int
    number: int  # among the worker's
    version: int  # of the model that it was computed on
    norm: float

    def pack(self) -> bytes:
        """As on the wire."""
        return MEMBER.pack(*self)


def members(octets: memoryview, count: int) -> list[Member]:
    """Those at the beginning of an update's body."""
    return [Member(*fields) for fields in MEMBER.iter_unpack(octets[: count * MEMBER.size])]


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """A body of numbers, four bytes each."""
    return b"".join(NUMBER.pack(number) for number in numbers)


def numbers(octets: bytes | bytearray | memoryview) -> list[int]:
    """What `pack_numbers` wrote."""
    return [number for (number,) in NUMBER.iter_unpack(octets)]
