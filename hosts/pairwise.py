"""Workers and servers that follow a schedule (hosts.schedules) over TCP connections to the nodes they have to do with."""

from __future__ import annotations

import selectors
import socket
import struct
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.collective import AggregationError, Counters, Membership, node_name
from hosts.meeting import MeetingError, meet
from hosts.schedules import Move, Schedule, blocks
from hosts.tcp import count_segments

TCP_PORT = 48865
ANNOUNCEMENT = struct.Struct(">cxxxI")  # of a sum, to a server: dtype and elements of the tensor
DTYPES = {b"f": np.dtype(np.float32), b"i": np.dtype(np.int32)}
CHUNK = 1 << 18  # bytes that are handed to or taken from the kernel at once


class Node:
    """One node of a schedule, and its connections. Not thread-safe.

    `peers` are the addresses of all nodes by rank: the workers', then the servers'. Connections are made at once; raises
    AggregationError if some node cannot be reached within `patience` seconds, which is also the longest silence within a sum.
    """

    def __init__(self, membership: Membership, schedule: Schedule, peers: list[str], patience: float = 30.0) -> None:
        self.membership, self.schedule, self.patience = membership, schedule, patience
        self.blocks = blocks(schedule)
        self.counters = Counters()
        partners = {m.source for step in schedule for m in step if m.destination == membership.rank}
        partners |= {m.destination for step in schedule for m in step if m.source == membership.rank}
        try:
            self.sockets = meet(membership.rank, partners, peers, TCP_PORT, patience)
        except MeetingError as error:
            raise self._error(f"{self._name(error.rank)} {error.what}") from None
        for made in self.sockets.values():
            made.setblocking(False)

    def _error(self, reason: str) -> AggregationError:
        m = self.membership
        return AggregationError(f"{self._name(m.rank)}: job {m.job} cannot be completed: {reason}")

    def _name(self, rank: int) -> str:
        return node_name(rank, self.membership.size)

    def _room(self, elements: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Zeros, a row a block, for a tensor of so many elements."""
        return np.zeros((self.blocks, -(-elements // self.blocks)), dtype)

    def _follow(self, blocks: NDArray[Any]) -> None:
        for number, step in enumerate(self.schedule):
            self._step(number, step, blocks)

    def _step(self, number: int, step: list[Move], blocks: NDArray[Any]) -> None:
        me = self.membership.rank
        leaving: dict[int, list[int]] = defaultdict(list)
        coming: dict[int, list[Move]] = defaultdict(list)
        for move in step:
            if move.source == me:
                leaving[move.destination].append(move.block)
            elif move.destination == me:
                coming[move.source].append(move)
        arrived = {rank: np.empty((len(moves), blocks.shape[1]), blocks.dtype) for rank, moves in coming.items()}
        self._exchange(
            number,
            {rank: blocks[chosen].view(np.uint8).reshape(-1).data for rank, chosen in leaving.items()},
            {rank: room.view(np.uint8).reshape(-1).data for rank, room in arrived.items()},
        )
        for rank in sorted(coming):
            for move, data in zip(coming[rank], arrived[rank], strict=True):
                if move.add:
                    blocks[move.block] += data
                else:
                    blocks[move.block] = data

    def _exchange(self, number: int, leaving: dict[int, memoryview], coming: dict[int, memoryview]) -> None:
        """Send and receive all of it, to and from everybody at once."""
        self.counters.bytes_sent += sum(map(len, leaving.values()))
        self.counters.bytes_received += sum(map(len, coming.values()))
        with selectors.DefaultSelector() as waiting:
            while leaving or coming:
                for rank in leaving.keys() | coming.keys():
                    wanted = selectors.EVENT_WRITE * (rank in leaving) | selectors.EVENT_READ * (rank in coming)
                    if self.sockets[rank] not in waiting.get_map():
                        waiting.register(self.sockets[rank], wanted, rank)
                    elif waiting.get_key(self.sockets[rank]).events != wanted:
                        waiting.modify(self.sockets[rank], wanted, rank)
                ready = waiting.select(self.patience)
                if not ready:
                    silent = ", ".join(map(self._name, sorted(coming or leaving)))
                    raise self._error(f"step {number}: nothing from {silent} for {self.patience:g} s")
                for key, events in ready:
                    try:
                        if events & selectors.EVENT_WRITE:
                            _advance(leaving, key.data, self.sockets[key.data].send(leaving[key.data][:CHUNK]))
                        if events & selectors.EVENT_READ:
                            size = self.sockets[key.data].recv_into(coming[key.data][:CHUNK])
                            if size == 0:
                                raise ConnectionResetError("it has closed the connection")
                            _advance(coming, key.data, size)
                    except BlockingIOError:
                        continue
                    except OSError as error:
                        raise self._error(f"step {number}: {self._name(key.data)} is gone: {error}") from None
                    if key.data not in leaving and key.data not in coming:
                        waiting.unregister(self.sockets[key.data])

    def close(self) -> None:
        """Close the connections."""
        for made in self.sockets.values():
            made.close()


class Pairwise(Node):
    """A worker: all-reduce by messages between nodes."""

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x (float32 or int32, any shape) over all workers; raises TypeError and AggregationError."""
        if x.dtype not in DTYPES.values():
            raise TypeError(f"float32 and int32 can be aggregated, {x.dtype} cannot")
        if x.size == 0:
            return x.copy()
        self._announce(x)
        blocks = self._room(x.size, x.dtype)
        blocks.reshape(-1)[: x.size] = np.ascontiguousarray(x).reshape(-1)
        self._follow(blocks)
        count_segments(self.counters, self.sockets.values())
        return blocks.reshape(-1)[: x.size].reshape(x.shape)

    def _announce(self, x: NDArray[Any]) -> None:
        for rank in sorted(r for r in self.sockets if r >= self.membership.size):
            try:
                self.sockets[rank].send(ANNOUNCEMENT.pack(x.dtype.char.encode(), x.size))
            except OSError as error:
                raise self._error(f"{self._name(rank)} is gone: {error}") from None


class Server(Node):
    """A dedicated parameter server, which only adds. Its rank is one after the workers'."""

    def serve(self) -> None:
        """Take part in every sum that the workers announce, until they leave; raises AggregationError."""
        while (announced := self._hear()) is not None:
            dtype, elements = announced
            self._follow(self._room(elements, dtype))

    def _hear(self) -> tuple[np.dtype[Any], int] | None:
        """The next sum's dtype and elements, or None when a worker has left."""
        heard = set()
        for made in self.sockets.values():
            made.setblocking(True)
            made.settimeout(None)
            words = made.recv(ANNOUNCEMENT.size, socket.MSG_WAITALL)
            made.setblocking(False)
            if len(words) < ANNOUNCEMENT.size:
                return None
            heard.add(words)
        if len(heard) != 1:
            raise self._error("the workers have announced different tensors")
        kind, elements = ANNOUNCEMENT.unpack(heard.pop())
        return DTYPES[kind], elements


def _advance(left: dict[int, memoryview], rank: int, size: int) -> None:
    left[rank] = left[rank][size:]
    if not left[rank]:
        del left[rank]
