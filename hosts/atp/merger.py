"""What a parameter server adds up: sums of the switches, parts of them and single packets, every worker exactly once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.atp import wire
from hosts.atp.allocation import aggregator
from hosts.atp.tree import Tree

MOST_COLLISIONS = 1  # in a row at one place of the window; then the server hands back a new aggregator
MOST_ATTEMPTS = 4  # to find one that differs


class Merger:
    """The last two windows of a job's chunks; chunk q has row q mod 2w of all arrays.

    Two windows are enough: who sends chunk q has the results up to q - w, which nobody could have without all workers having
    sent those, and so having the results up to q - 2w. A packet whose workers are in already, some or all of them, is not
    added: those of them that are missing send theirs again.
    """

    def __init__(self, job: int, tree: Tree, results: NDArray[np.void], aggregators: int, share: tuple[int, int] = (0, 1)) -> None:
        """`results`, wire.packet(k) of 2w rows, are what is sent; complete ones are kept there to be sent again.

        `share` is the server's number among the job's, and how many there are: chunk q is added by server q mod S.
        """
        workers, rows, k = len(tree.rack), len(results), results.dtype["vector"].shape[0]
        window = rows // 2
        self.job, self.tree, self.results, self.window, self.aggregators = job, tree, results, window, aggregators
        self.chunk = np.full(rows, -1, np.int64)
        self.seen = np.zeros((rows, workers), bool)
        self.total = np.zeros((rows, k), np.int64)
        self.complete = np.zeros(rows, bool)
        self.flags = np.zeros(rows, np.int64)  # of all packets that were added
        self.raw: dict[int, NDArray[np.int32]] = {}  # by row: the workers' own values, where integers will not do
        self.raw_seen: dict[int, NDArray[np.bool_]] = {}
        self.newest = 0
        self.collisions = np.zeros(window, np.int64)  # in a row, by place
        self.attempts = np.zeros(window, np.int64)
        self.share = number, servers = share
        places = np.arange(window)
        places = places[places % math.gcd(window, servers) == number % math.gcd(window, servers)]  # of chunks of this server
        self.assigned: set[int] = set(map(int, aggregator(job, places, 0, aggregators)))  # ever, to those

    def take(self, packets: NDArray[np.void]) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """Take in packets; the rows that are complete now, and (row, worker) of those who ask for a result once more.

        A row comes out twice where integers did not do: first to ask for raw values, then with their sum.
        """
        chunks = wire.chunks_near(packets["owner"], self.newest)
        who = self.tree.who(packets["bitmap0"], packets["bitmap1"])
        number, servers = self.share
        mine = (chunks >= 0) & (chunks <= self.newest + self.window + servers) & (chunks % servers == number)
        left = np.flatnonzero(mine & (packets["owner"] >> 24 == self.job) & who.any(axis=1))
        finished, asked = [], []
        while len(left):  # all rows at once, the packets of a row in turn
            first = np.unique(chunks[left] % len(self.chunk), return_index=True)[1]
            now = left[np.sort(first)]
            left = np.delete(left, first)
            done, again = self._take_rows(packets[now], chunks[now], who[now])
            finished.append(done)
            asked += again
        return np.concatenate([np.empty(0, np.int64), *finished]), asked

    def _take_rows(
        self, packets: NDArray[np.void], chunks: NDArray[np.int64], who: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        rows = chunks % len(self.chunk)
        current = chunks >= self.chunk[rows]
        packets, chunks, who, rows = packets[current], chunks[current], who[current], rows[current]
        self._open(chunks[chunks > self.chunk[rows]])
        is_raw = packets["kind"] == wire.KIND_RAW
        complete = self.complete[rows]
        asked = []
        resent = packets["flags"] & wire.RESEND > 0
        wants_raw = self.results["flags"][rows] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW
        for i in np.flatnonzero(complete & resent & ~(is_raw & wants_raw)):
            asked += [(int(rows[i]), int(worker)) for worker in np.flatnonzero(who[i])]
        done = [self._add_raw(int(rows[i]), packets[i], who[i]) for i in np.flatnonzero(is_raw & (~complete | wants_raw))]
        fresh = ~complete & ~is_raw & ~(self.seen[rows] & who).any(axis=1)
        packets, who, rows = packets[fresh], who[fresh], rows[fresh]
        self.results["index"][rows] = packets["index"]
        self.total[rows] += packets["vector"]
        self.seen[rows] |= who
        self.flags[rows] |= packets["flags"]
        full = rows[self.seen[rows].all(axis=1)]
        self._finish(full)
        return np.concatenate([full, np.array([row for row in done if row >= 0], np.int64)]), asked

    def _open(self, chunks: NDArray[np.int64]) -> None:
        """Begin these chunks in rows that were other ones'."""
        rows = chunks % len(self.chunk)
        self.chunk[rows] = chunks
        self.seen[rows] = False
        self.total[rows] = 0
        self.complete[rows] = False
        self.flags[rows] = 0
        self.results["flags"][rows] = 0
        for row in map(int, rows):
            self.raw.pop(row, None)
            self.raw_seen.pop(row, None)
        if len(chunks):
            self.newest = max(self.newest, int(chunks.max()))

    def _finish(self, rows: NDArray[np.int64]) -> None:
        """Make results of complete sums: of integers, or a request for raw values."""
        total = self.total[rows]
        overflow = (self.flags[rows] & wire.OVERFLOW > 0) | (np.abs(total) > 2**31 - 1).any(axis=1)
        self.complete[rows] = True
        results = self.results
        results["kind"][rows] = wire.KIND_RESULT
        results["owner"][rows] = wire.owners(self.job, self.chunk[rows])
        results["flags"][rows] = (self.flags[rows] & (wire.ECN | wire.RESEND | wire.COLLISION)) | np.where(
            overflow, wire.OVERFLOW, 0
        )
        results["vector"][rows] = np.where(overflow[:, None], 0, total)
        self._assign(rows)

    def _assign(self, rows: NDArray[np.int64]) -> None:
        """The aggregators of the chunks one window later: as before, or new ones after repeated collisions."""
        places = self.chunk[rows] % self.window
        collided = self.flags[rows] & wire.COLLISION > 0
        self.collisions[places] = np.where(collided, self.collisions[places] + 1, 0)
        following = self.results["index"][rows].astype(np.int64)
        for i in np.flatnonzero(self.collisions[places] >= MOST_COLLISIONS):
            self.collisions[places[i]] = 0
            taken = following[i]
            for _ in range(MOST_ATTEMPTS):  # in a small table another attempt may give the same once more
                self.attempts[places[i]] += 1
                following[i] = aggregator(self.job, places[i : i + 1], int(self.attempts[places[i]]), self.aggregators)[0]
                if following[i] != taken:
                    break
        self.results["next_index"][rows] = following
        self.assigned |= set(map(int, following))

    def _add_raw(self, row: int, packet: Any, who: NDArray[np.bool_]) -> int:
        """Keep a worker's own values; the row when all have come, else -1."""
        if row not in self.raw:
            self.raw[row] = np.zeros((len(who), self.total.shape[1]), np.int32)
            self.raw_seen[row] = np.zeros(len(who), bool)
        self.raw[row][who] = packet["vector"].astype(np.int32)
        self.raw_seen[row] |= who
        if not self.raw_seen[row].all():
            return -1
        integer = int(packet["flags"]) & wire.INTEGER > 0
        self.results["vector"][row] = _raw_sum(self.raw.pop(row), integer)
        self.results["flags"][row] |= wire.OVERFLOW | wire.RAW | wire.RESEND
        del self.raw_seen[row]
        return row

    def missing(self, chunk: int) -> NDArray[np.bool_]:
        """By worker, whether it is missing in a chunk."""
        row = chunk % len(self.chunk)
        if self.chunk[row] != chunk:
            return np.full(self.seen.shape[1], self.chunk[row] < chunk)
        absent: NDArray[np.bool_] = ~self.raw_seen.get(row, self.seen[row])
        return absent


def _raw_sum(values: NDArray[np.int32], integer: bool) -> NDArray[np.int32]:
    """The bits of the sum over workers: int32 wraps around, float32 is added in the order of ranks, in double precision."""
    own = values.astype(np.int64) if integer else values.view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        bits: NDArray[np.int32] = own.sum(axis=0).astype(np.int32 if integer else np.float32).view(np.int32)
    return bits
