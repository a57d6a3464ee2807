"""A worker that follows a schedule (hosts.schedules) over TCP connections to the workers it has to do with."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.collective import AggregationError, Counters, Membership
from hosts.schedules import Move, Schedule

TCP_PORT = 48865
GREETING = struct.Struct(">I")
U32 = struct.Struct("=I")
TOTAL_RETRANSMISSIONS, SEGMENTS_OUT = 100, 136  # offsets in struct tcp_info
CHUNK = 1 << 18  # bytes that are handed to or taken from the kernel at once


class Pairwise:
    """All-reduce by messages between workers. Not thread-safe: one worker, one instance.

    `peers` are all workers' addresses by rank. Connections are made at once; raises AggregationError if some worker cannot be
    reached within `patience` seconds, which is also the longest silence within a sum.
    """

    def __init__(self, membership: Membership, schedule: Schedule, peers: list[str], patience: float = 30.0) -> None:
        self.membership, self.schedule, self.patience = membership, schedule, patience
        self.counters = Counters()
        partners = {m.source for step in schedule for m in step if m.destination == membership.rank}
        partners |= {m.destination for step in schedule for m in step if m.source == membership.rank}
        self.sockets = self._connect(partners, peers)

    def _connect(self, partners: set[int], peers: list[str]) -> dict[int, socket.socket]:
        """Connections to lower ranks, and from higher ones; each begins with the rank of who made it."""
        me = self.membership.rank
        end = time.monotonic() + self.patience
        found: dict[int, socket.socket] = {}
        with socket.create_server((peers[me], TCP_PORT), backlog=len(peers)) as listener:
            for rank in sorted(p for p in partners if p < me):
                found[rank] = self._reach(rank, peers[rank], end)
                found[rank].sendall(GREETING.pack(me))
            while missing := sorted(partners - set(found)):
                listener.settimeout(max(0.01, end - time.monotonic()))
                try:
                    made, _ = listener.accept()
                    made.settimeout(self.patience)
                    (rank,) = GREETING.unpack(made.recv(GREETING.size, socket.MSG_WAITALL))
                except (TimeoutError, struct.error):
                    raise self._error(f"worker {missing[0]} did not connect") from None
                found[rank] = made
        for made in found.values():
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setblocking(False)
        return found

    def _reach(self, rank: int, address: str, end: float) -> socket.socket:
        while True:
            try:
                return socket.create_connection((address, TCP_PORT), timeout=1.0)
            except OSError as error:
                if time.monotonic() > end:
                    raise self._error(f"worker {rank} cannot be reached: {error}") from None
                time.sleep(0.02)

    def _error(self, reason: str) -> AggregationError:
        m = self.membership
        return AggregationError(f"worker {m.rank}: job {m.job} cannot be completed: {reason}")

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x (float32 or int32, any shape) over all workers; raises TypeError and AggregationError."""
        if x.dtype not in (np.float32, np.int32):
            raise TypeError(f"float32 and int32 can be aggregated, {x.dtype} cannot")
        n = self.membership.size
        blocks = np.zeros((n, -(-x.size // n)), x.dtype)
        blocks.reshape(-1)[: x.size] = np.ascontiguousarray(x).reshape(-1)
        for number, step in enumerate(self.schedule if x.size else []):
            self._step(number, step, blocks)
        self._count()
        return blocks.reshape(-1)[: x.size].reshape(x.shape)

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
                    silent = ", ".join(map(str, sorted(coming or leaving)))
                    raise self._error(f"step {number}: nothing from worker {silent} for {self.patience:g} s")
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
                        raise self._error(f"step {number}: worker {key.data} is gone: {error}") from None
                    if key.data not in leaving and key.data not in coming:
                        waiting.unregister(self.sockets[key.data])

    def _count(self) -> None:
        """What the kernel's TCP has sent, and sent again (Linux: struct tcp_info)."""
        told = [made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SEGMENTS_OUT + 4) for made in self.sockets.values()]
        self.counters.retransmissions = sum(U32.unpack_from(info, TOTAL_RETRANSMISSIONS)[0] for info in told)
        self.counters.sent = sum(U32.unpack_from(info, SEGMENTS_OUT)[0] for info in told)

    def close(self) -> None:
        """Close the connections."""
        for made in self.sockets.values():
            made.close()


def _advance(left: dict[int, memoryview], rank: int, size: int) -> None:
    left[rank] = left[rank][size:]
    if not left[rank]:
        del left[rank]
