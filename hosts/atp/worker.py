"""The core of ATP's worker (NSDI '21): a window of chunks that go to the parameter server by way of an aggregator, if one is free.

All chunks that a job ever sends form one stream, numbered from 0; chunk q is added by server q mod S, has place q mod w in the
window of w chunks, and asks for the aggregator of that place. It is sent once chunk q - w has its result. The first chunk of an
all-reduce announces the tensor's length and dtype (hosts.stream.announcement). Floats become integers by one fixed factor. What
does not fit, alone or in the sum, is sent as raw values and added at the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import compiled_places, succession, wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.congestion import MARKS, CongestionWindow
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership, Sum, workers
from inalab.hosts.gauge import Gauge
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.stream.recovery import Asking, Resending
from inalab.hosts.stream.stream import Absence, Question, Stream, UnderWay

DEFAULT_SCALING = 1e8
MOST_WAITS = 16  # queries about a chunk that others are missing in; then its aggregator is flushed, lest they miss it for ever


@dataclass(eq=False)
class Transfer(UnderWay):
    """Chunk start of the stream announces the tensor, chunk start + j carries its j-th k elements."""

    values: NDArray[Any]  # (elements,)
    result: NDArray[Any]  # (elements,); may be the same memory: a chunk is not needed any more when its sum comes

    @property
    def floats(self) -> bool:
        """Whether chunks are scaled."""
        return self.values.dtype == np.float32


class AtpWorker(Stream):
    """All-reduce by switches as far as they have room, and parameter servers; see hosts.stream.stream for `patience`.

    Its peers are the servers, whose racks are `server_racks`. `window` and `k` must be the same on every node, `aggregators` what
    the switches' tables have of them for this job. `congestion` is what halves the window (hosts.atp.congestion), and `recovery`
    is "ask" or "paper" (hosts.stream.recovery).
    """

    def __init__(
        self, membership: Membership, epoch: int, server_racks: list[int], window: int, k: int, aggregators: int,
        scaling: float | None = None, congestion: str = MARKS, recovery: str = "ask", patience: float = 30.0,
    ) -> None:  # fmt: skip
        m = membership
        self.trees = trees = [Tree(m, rack) for rack in server_racks]
        super().__init__(m, epoch, len(trees), window, wire.packet(k), patience, spare=window)
        self.sender.data["epoch"] = epoch
        self.window, self.scaling = window, scaling or DEFAULT_SCALING
        self.servers = len(trees)
        self.bitmaps = np.array([tree.bitmaps(m.rank) for tree in trees])  # by server, as `edge`
        self.edge = np.array([wire.EDGE_SWITCH if tree.local[m.rank] else 0 for tree in trees], np.uint8)
        self.index = beginning(m.job, window, aggregators)[0]
        self.recovery = Asking(self, self._ask) if recovery == "ask" else Resending(self, at_gaps=True)
        self.next = np.arange(window)  # the chunk that each place has next
        self.raw = np.zeros(window, bool)
        self.missed = np.zeros(window, bool)  # the result is known to be lost
        self.again = np.full(window, wire.RESEND)  # how each row's packet is marked that is sent again
        self.status = np.zeros(window, wire.HEADER)  # the last of each row, or zeros
        self._octets: Any = np.dtype((np.uint8, wire.HEADER.itemsize))
        self.congestion = CongestionWindow(window, congestion)
        self.gauge = Gauge(f"job {m.job}, worker {m.rank}")

    # --- the collective

    def start(self, started: Sum, now: float) -> None:
        flat = np.require(started.flat, requirements="W")  # which compiled loops take alone
        length = 1 + -(-flat.size // self.k)
        result = flat if started.overwrite else np.empty_like(flat)
        self.under_way.append(Transfer(started, self.position, length, length, flat, result))
        self.position += length
        self._release(now)

    def _finish(self, t: Transfer) -> None:
        self.under_way.remove(t)
        t.started.end(t.result)

    # --- sending

    def _oldest(self) -> int:
        """The oldest chunk without a result."""
        return int(np.where(self.chunk >= 0, self.chunk, self.next).min())

    def _release(self, now: float) -> None:
        """Send what the window has room for. A chunk that is lost holds back its place alone."""
        rows = compiled_places.released(self.chunk, self.next, self.position, self.congestion.chunks)
        if not len(rows):
            return
        packets = self.sender
        self.missed[rows] = False
        compiled_places.open_places(
            rows, self.membership.job, self.bitmaps, self.edge, self.index, self.next, self.chunk, self.path, self.tries, self.raw,
            self.again, packets.octets,
        )  # fmt: skip
        for t in self.under_way:
            values = t.values.view(np.float32)
            compiled_places.fill(rows, self.chunk, t.start, t.length, t.floats, self.scaling, values, packets.octets, packets.words)
            if self.chunk[first := t.start % self.window] == t.start:
                packets.data["vector"][first] = self._announcement(t.started.flat)
        self._send(rows, now)

    def _ask(self, rows: NDArray[np.intp], again: NDArray[np.bool_], urgent: bool) -> None:
        """Ask what has become of these rows' chunks: whoever holds them on the way to their server, or the server."""
        rank, octets = self.membership.rank, self.sender.octets
        # or nothing is known of it: in a silence, and of what was sent again, whose result no other names
        missed = self.missed[rows] | (self.recovery.pressed[rows] == 0) | (self.tries[rows] > 0)
        compiled_places.ask(rows, again, missed, rank, self.edge, self.path, self.tries, self.raw, octets)
        self._put(rows, urgent, wire.HEADER.itemsize, behind=self.window)

    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        flags = self.sender.data["flags"]
        flags[rows] = flags[rows] & ~np.uint8(wire.JOINS) | self.again[rows]
        last = rows[self.order[rows].argmax()]
        self.congestion.lost(int(self.chunk[last]), int(self.order[last]), self.packets)

    def _send_raw(self, rows: NDArray[np.intp], now: float) -> None:
        """These chunks do not fit into integers: send them as they are, to be added at the server."""
        packets = self.sender.data
        packets["kind"][rows] = wire.KIND_RAW
        for t in self.under_way:
            for row in rows[(self.chunk[rows] >= t.start) & (self.chunk[rows] < t.start + t.length)]:
                j = int(self.chunk[row]) - t.start
                own = t.values[(j - 1) * self.k : j * self.k] if j else self._announcement(t.started.flat)
                packets["flags"][row] |= wire.RESEND | (wire.INTEGER if own.dtype == np.int32 else 0)
                packets["vector"][row] = 0
                packets["vector"][row][: len(own)] = own.view(np.int32)
        self.raw[rows], self.missed[rows] = True, False
        self.tries[rows] += 1
        self._send(rows, now)

    # --- receiving

    def _receive(self, packets: Datagrams, now: float) -> bool:
        oldest = self._oldest()
        found, chunks, size = compiled_places.sort_out(
            packets.octets, packets.lengths, self.membership.job, self.epoch, self.record.itemsize, oldest, self.chunk, self.raw
        )
        self.counters.bytes_received += size
        named = succession.named(np.flatnonzero(found <= compiled_places.NEEDLESS), packets.octets, oldest, self.chunk, self.raw)
        if len(named):
            self._miss(np.setdiff1d(named, chunks[found <= compiled_places.OVERFLOWING] % self.window), now)
        where = np.flatnonzero(found == compiled_places.SUM)
        if len(overflowing := chunks[found == compiled_places.OVERFLOWING] % self.window):
            self.heard_at = now
            self._send_raw(overflowing, now)
        if len(where):
            self._settle(packets, where, chunks[where] % self.window, now)
        if len(where) < len(packets):
            self._take_others(packets, found, chunks, oldest, now)
        return bool((found <= compiled_places.OVERFLOWING).any())

    def _take_others(
        self, packets: Datagrams, found: NDArray[np.uint8], chunks: NDArray[np.int64], oldest: int, now: float
    ) -> None:
        """Some of these are no results that were waited for."""
        count = np.bincount(found, minlength=compiled_places.KINDS)
        self.counters.malformed += int(count[compiled_places.MALFORMED])
        self.counters.outdated += int(count[compiled_places.OUTDATED])
        if count[compiled_places.NEEDLESS]:
            self._needless(chunks[found == compiled_places.NEEDLESS] % self.servers, now)
        if count[compiled_places.STATUS]:
            self._take_statuses(packets, np.flatnonzero(found == compiled_places.STATUS), oldest, now)

    def _miss(self, lost: NDArray[np.int64], now: float) -> None:
        """Ask for the results of these rows: they are lost."""
        rows = lost[~self.missed[lost]]
        self.missed[rows] = True
        if isinstance(self.recovery, Asking) and len(rows):
            self.recovery.lost(rows, now)

    def _take_statuses(self, packets: Datagrams, where: NDArray[np.int64], oldest: int, now: float) -> None:
        """Learn what a switch or a server lacks in the chunks that are still asked about."""
        rows, marks, lacking = compiled_places.read_statuses(
            where, packets.octets, oldest, self.membership.rank, self.bitmaps, self.chunk, self.path, self.tries, self.raw,
            self.status.view(self._octets),
        )  # fmt: skip
        if isinstance(self.recovery, Asking) and len(rows):
            stuck = ~lacking & (self.recovery.asked[rows] >= MOST_WAITS)
            self.again[rows] = np.where(stuck, wire.RESEND, marks)
            self.recovery.answered(rows, lacking | stuck, now)

    def _settle(self, packets: Datagrams, where: NDArray[np.int64], rows: NDArray[np.intp], now: float) -> None:
        """Keep these sums, and send what they make room for."""
        chunks = self.chunk[rows]
        once, marked, collided = compiled_places.learn(where, rows, packets.octets, self.order, self.tries, self.index)
        if marked >= 0:
            self.congestion.congested(marked, self.packets)
        for row in collided:
            self.congestion.collided(int(self.chunk[row]))
        self.congestion.settled(len(rows))
        self.gauge.show(self.congestion.size)
        self._settled(rows, once, now)
        for t in list(self.under_way):
            self._keep(t, packets, where, chunks)
        self._release(now)
        if self.timeline:
            self.timeline.note(now, int((self.chunk >= 0).sum()), results=len(rows))

    def _keep(self, t: Transfer, packets: Datagrams, where: NDArray[np.int64], chunks: NDArray[np.int64]) -> None:
        """Keep the sums that are of a tensor; raises AggregationError if another worker sums another tensor."""
        for announcement in packets.data["vector"][where[chunks == t.start]]:
            self._check_announcement(announcement.astype(np.int32), t.started.flat)
        result = t.result.view(np.float32)
        t.remaining -= compiled_places.take(
            where, chunks, packets.octets, packets.words, t.start, t.length, t.floats, self.scaling, result
        )
        if not t.remaining:
            self._finish(t)

    # --- when it cannot be finished

    def _where(self, row: int) -> str:
        return f"job {self.membership.job}, chunk {int(self.chunk[row])}"

    def _ask_whom(self, row: int) -> None:
        self._ask(np.array([row]), np.array([True]), urgent=False)

    def _forget_answers(self, row: int) -> None:
        self.status[row] = 0

    def _answered(self, row: int) -> bool:
        return bool(self.status["kind"][row])

    def _absence(self, row: int) -> Absence | Question:
        """A switch that holds the chunk has answered, or else its server knows."""
        if self.status["flags"][row] & wire.JOINS == wire.JOINS:  # so a switch asks to be sent what it lacks
            return self._described(self.status[row : row + 1], self.trees[self.path[row]])
        assert self.inquiry is not None
        return Question(self.membership.size + self.inquiry.chunk % self.servers, self.inquiry.chunk)

    def _described(self, status: NDArray[np.void], tree: Tree) -> Absence:
        """Whom a switch lacks: workers of its own rack, and further up other racks."""
        m = self.membership
        seen = tree.who(status["bitmap0"], status["bitmap1"])[0]
        at_server = status["flags"][0] & wire.EDGE_SWITCH
        rack = tree.root if at_server else m.rack
        absent = np.flatnonzero(~seen)
        near = [int(rank) for rank in absent if tree.rack[rank] == rack]
        named = [workers(near)] if near else []
        if at_server:
            away = [r for r in np.unique(tree.rack[absent]) if r != rack]
            named += [f"rack {r} (workers {', '.join(map(str, m.racks[r]))})" for r in away]
        wording = f"the switch of rack {rack} has not seen {'; '.join(named) or 'its result'}"
        return Absence(wording, bool(seen[m.rank]), tuple(absent.tolist()) if at_server else tuple(near))
