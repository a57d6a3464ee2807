"""ATP's worker (NSDI '21): a window of chunks that go to the parameter server by way of an aggregator, if one is free.

All chunks that a job ever sends form one stream, numbered from 0; chunk q is added by server q mod S, and asks for the
aggregator of its place q mod w in the window of w chunks. Floats become integers by one fixed factor. What does not fit,
alone or in the sum, is sent as raw values and added at the server.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.atp import wire
from hosts.atp.allocation import aggregator
from hosts.atp.congestion import CongestionWindow
from hosts.atp.tree import Tree
from hosts.collective import AggregationError, Membership, node_name
from hosts.meeting import MeetingError, meet
from hosts.quantization import LARGEST, scale, unscale
from hosts.stream import Stream

CONTROL_PORT = 48866  # TCP: who is there, and what a server lacks
QUESTION = struct.Struct(">Q")  # a chunk; the answer is a byte for each worker, 1 where it is missing
GAP = 3  # results of later chunks after which one is taken for lost
DEFAULT_SCALING = 1e8
QUERY_PATIENCE = 1.0  # seconds to wait for a server's answer


@dataclass
class Transfer:
    """One all-reduce under way. Stream chunk q of it has the distance q - start; arrays are by distance."""

    start: int
    length: int
    own: NDArray[Any]  # (chunks, k) as the tensor has them, padded with zeros
    integers: NDArray[np.int32]
    saturated: NDArray[np.bool_]  # some value of this worker's does not fit
    result: NDArray[Any]
    done: NDArray[np.bool_]
    remaining: int
    following: int = 0  # distance of the next chunk to be sent
    oldest: int = 0  # distance of the oldest one without a result


class AtpWorker(Stream):
    """All-reduce by switches as far as they have room, and parameter servers; see hosts.stream for `patience` and `pulse`.

    `peers` are the addresses of all nodes by rank, the servers' after the workers', and `control` those on a network that
    loses nothing, for what is not ATP's: who is there, who has left, who is missing. `server_racks` tells where servers are.
    `window` and `k` must be the same on every node, `aggregators` what the switches' tables have of them for this job.
    `congestion` is whether the window follows marks and losses. Raises AggregationError if a server cannot be reached.
    """

    def __init__(
        self, membership: Membership, peers: list[str], control: list[str], server_racks: list[int], window: int, k: int,
        aggregators: int, scaling: float | None = None, congestion: bool = True, patience: float = 30.0,
        pulse: Callable[[], str | None] = lambda: None,
    ) -> None:  # fmt: skip
        m = membership
        trees = [Tree(m, rack) for rack in server_racks]
        servers = range(m.size, len(peers))
        addresses = [(peers[s], wire.UDP_PORT) for s in servers]
        super().__init__(
            m, (peers[m.rank], wire.UDP_PORT), addresses, window, wire.packet(k), patience, lambda: pulse() or self._gone()
        )
        try:
            self.control = meet(m.rank, servers, control, CONTROL_PORT, patience)
        except MeetingError as error:
            self.socket.close()
            who = node_name(error.rank, m.size)
            raise AggregationError(f"worker {m.rank}: job {m.job} cannot be completed: {who} {error.what}") from None
        self.window, self.scaling = window, scaling or DEFAULT_SCALING
        self.servers = len(addresses)
        self.bitmaps = np.array([tree.bitmaps(m.rank) for tree in trees])
        self.fan_in = np.array([(tree.fan_in0[m.rank], tree.fan_in1) for tree in trees])
        self.edge = np.array([wire.EDGE_SWITCH if tree.local[m.rank] else 0 for tree in trees])
        self.index = aggregator(m.job, np.arange(window), 0, aggregators)
        self.overtaken = np.zeros(window, np.int64)  # results of later chunks that have come
        self.raw = np.zeros(window, bool)
        self.congestion = CongestionWindow(window, congestion)

    # --- the collective

    def _sum(self, flat: NDArray[Any]) -> NDArray[Any]:
        transfer = self._begin(flat)
        self.position += transfer.length
        self._release(transfer)
        self._run(transfer)
        return transfer.result

    def _begin(self, flat: NDArray[Any]) -> Transfer:
        own = self._in_chunks(flat)
        chunks = len(own)
        saturated = np.zeros(chunks, bool)
        integers = own
        if own.dtype == np.float32:
            integers = scale(own, self.scaling)
            saturated = ~(np.abs(own).astype(np.float64).max(axis=1) * self.scaling <= LARGEST)
        return Transfer(self.position, chunks, own, integers, saturated, np.empty_like(own), np.zeros(chunks, bool), chunks)

    # --- sending

    def _release(self, t: Transfer) -> None:
        """Send what the window has room for."""
        room = self.congestion.chunks - int((self.chunk >= 0).sum())
        end = min(t.following + max(room, 0), t.oldest + self.window, t.length)
        if end <= t.following:
            return
        distances = np.arange(t.following, end)
        t.following = end
        stream = t.start + distances
        rows, servers = stream % self.window, stream % self.servers
        packets = self.socket.sender.data
        packets["bitmap0"][rows], packets["bitmap1"][rows] = self.bitmaps[servers].T
        packets["fan_in0"][rows], packets["fan_in1"][rows] = self.fan_in[servers].T
        packets["kind"][rows] = wire.KIND_GRADIENT
        packets["flags"][rows] = self.edge[servers] | np.where(t.saturated[distances], wire.OVERFLOW, 0)
        packets["index"][rows] = self.index[rows]
        packets["owner"][rows] = wire.owners(self.membership.job, stream)
        packets["vector"][rows] = t.integers[distances]
        self.chunk[rows] = stream
        self.tries[rows] = 0
        self.overtaken[rows] = 0
        self.raw[rows] = False
        self._send(rows)

    def _paths(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        return np.maximum(self.chunk[rows], 0) % self.servers

    def _transmit(self, rows: NDArray[np.intp]) -> int:
        end, sent = time.monotonic() + self.patience, 0
        servers = self._paths(rows)
        for server in range(self.servers):
            if len(mine := rows[servers == server]):
                sent += self.socket.send(mine, give_up_at=end, peer=server)
        return sent

    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        self.socket.sender.data["flags"][rows] |= wire.RESEND
        self.congestion.lost(int(self.chunk[rows].max()), int(self.chunk.max()) + 1)

    def _send_raw(self, t: Transfer, rows: NDArray[np.intp]) -> None:
        """These chunks do not fit into integers: send them as they are, to be added at the server."""
        packets = self.socket.sender.data
        own = t.own[self.chunk[rows] - t.start]
        packets["kind"][rows] = wire.KIND_RAW
        packets["flags"][rows] |= wire.RESEND | (wire.INTEGER if own.dtype == np.int32 else 0)
        packets["vector"][rows] = own.view(np.int32)
        self.raw[rows] = True
        self.tries[rows] += 1
        self._send(rows)

    # --- receiving

    def _receive(self, t: Transfer) -> bool:
        packets, lengths = self.socket.receive()
        self.counters.bytes_received += int(lengths.sum())
        good = (lengths == self.record.itemsize) & (packets["kind"] == wire.KIND_RESULT)
        good &= packets["owner"] >> 24 == self.membership.job
        self.counters.malformed += int(len(good) - good.sum())
        packets = packets[good]
        chunks = wire.chunks_near(packets["owner"], t.start + t.oldest)
        rows = chunks % self.window
        wants_raw = packets["flags"] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW
        candidates = np.flatnonzero((chunks >= 0) & (self.chunk[rows] == chunks) & ~(wants_raw & self.raw[rows]))
        fresh = candidates[np.unique(rows[candidates], return_index=True)[1]]
        if len(fresh) < len(rows):
            self._needless(np.delete(chunks, fresh) % self.servers)
        if not len(fresh):
            return False
        again = wants_raw[fresh]
        if again.any():
            self.heard_at = time.monotonic()
            self._send_raw(t, rows[fresh[again]])
        fresh = fresh[~again]
        if len(fresh):
            self._settle(t, packets[fresh], rows[fresh])
        return True

    def _settle(self, t: Transfer, packets: NDArray[np.void], rows: NDArray[np.intp]) -> None:
        """Keep these sums, and send what they make room for."""
        chunks = self.chunk[rows]
        marked = packets["flags"] & wire.ECN > 0
        if marked.any():
            self.congestion.congested(int(chunks[marked].max()), t.start + t.following)
        for chunk in chunks[(packets["flags"] & wire.COLLISION > 0) & (self.tries[rows] > 0)]:
            self.congestion.collided(int(chunk))
        self._settled(rows, packets["flags"] & wire.RESEND == 0)
        self._keep(t, packets, chunks - t.start)
        self.index[rows] = packets["next_index"]
        t.done[chunks - t.start] = True
        t.remaining -= len(rows)
        while t.oldest < t.length and t.done[t.oldest]:
            ahead = t.done[t.oldest : t.oldest + self.window]
            t.oldest += len(ahead) if ahead.all() else int(ahead.argmin())
        self.congestion.settled(len(rows))
        self._retransmit(self._gaps(chunks))
        self._release(t)
        if self.timeline:
            self.timeline.note(int((self.chunk >= 0).sum()), results=len(rows))

    def _keep(self, t: Transfer, packets: NDArray[np.void], distances: NDArray[np.int64]) -> None:
        values = packets["vector"].astype(np.int32)
        raw = packets["flags"] & wire.RAW > 0
        t.result[distances[raw]] = values[raw].view(t.own.dtype)
        summed = values[~raw]
        t.result[distances[~raw]] = unscale(summed, self.scaling) if t.own.dtype == np.float32 else summed

    def _gaps(self, settled: NDArray[np.int64]) -> NDArray[np.intp]:
        """Chunks that were sent once and that three results of later chunks of the same server have overtaken."""
        waiting = np.flatnonzero((self.chunk >= 0) & (self.tries == 0))
        for server in range(self.servers):
            mine = waiting[self.chunk[waiting] % self.servers == server]
            newer = np.sort(settled[settled % self.servers == server])
            self.overtaken[mine] += len(newer) - np.searchsorted(newer, self.chunk[mine])
        return waiting[self.overtaken[waiting] >= GAP]

    # --- when it cannot be finished

    def _explain(self, reason: str) -> AggregationError:
        """Ask the server whom it lacks in the oldest chunk, and say so."""
        m, chunk = self.membership, int(self.chunk[self._oldest()])
        server = chunk % self.servers
        where = f"job {m.job}, chunk {chunk}"
        return AggregationError(
            f"worker {m.rank}: {where} cannot be completed: {reason}; {self._who_is_missing(m.size + server, chunk)}"
        )

    def _gone(self) -> str | None:
        """Which server has closed its connection, if one has."""
        for rank, made in self.control.items():
            if select.select([made], [], [], 0)[0]:
                try:
                    over = not made.recv(1, socket.MSG_PEEK)
                except OSError:
                    over = True
                if over:
                    return f"{node_name(rank, self.membership.size)} is gone"
        return None

    def _who_is_missing(self, server: int, chunk: int) -> str:
        name, made = node_name(server, self.membership.size), self.control[server]
        try:
            made.settimeout(QUERY_PATIENCE)
            made.sendall(QUESTION.pack(chunk))
            answer = b""
            while len(answer) < self.membership.size:
                if not (more := made.recv(self.membership.size - len(answer))):
                    return f"{name} is gone"
                answer += more
        except TimeoutError:
            return f"{name} does not answer"
        except OSError as error:
            return f"{name} is gone: {error}"
        absent = [rank for rank, missing in enumerate(answer) if missing]
        if not absent:
            return f"{name} has seen every worker, but its result is lost"
        return f"{name} has not seen worker{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"

    def close(self) -> None:
        """Leave the job: the servers go when all workers have left."""
        for made in self.control.values():
            made.close()
        super().close()
