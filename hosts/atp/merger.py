"""What a parameter server adds up: sums of the switches, parts of them and single packets, every worker exactly once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import allocation, compiled_sums, succession, wire
from inalab.hosts.atp.tree import Tree
from inalab.hosts.stream.datagrams import Datagrams


class Taken(NamedTuple):
    """What a batch of packets leads to.

    `finished` are rows whose results all get. A row comes out twice where integers did not do: first to ask for raw values,
    then with their sum. `asked` has (row, worker) of those who sent a packet again after the result. `ready` and `asking` are for
    queries: see hosts.atp.compiled_sums.answer.
    """

    finished: NDArray[np.int64]
    asked: NDArray[np.int64]
    ready: NDArray[np.int64]
    asking: NDArray[np.int64]


class Merger:
    """The last two chunks of each place of a job's window; chunk q has row q mod 2w of all arrays.

    Two are enough: who sends chunk q has the result of chunk q - w, which no worker could have without all workers having sent
    that, and so having the result of chunk q - 2w. A packet whose workers are in already, some or all of them, is not
    added: those of them that are missing send theirs again.
    """

    def __init__(
        self, job: int, epoch: int, tree: Tree, results: Datagrams, aggregators: int, share: tuple[int, int] = (0, 1)
    ) -> None:
        """`results`, wire.packet(k) of 2w rows, are what is sent; complete ones are kept there to be sent again.

        `epoch` is the group's: packets of another are counted in `outdated`, and not taken in.

        `share` is the server's number among the job's, and how many there are: chunk q is added by server q mod S.
        """
        workers, rows, k = len(tree.rack), len(results), results.record["vector"].shape[0]
        window = rows // 2
        self.epoch, self.outdated = epoch, 0
        self.job, self.tree, self.window = job, tree, window
        self.datagrams, self.results = results, results.data
        self.results["epoch"] = epoch
        self.chunk = np.full(rows, -1, np.int64)
        self.seen = np.zeros((rows, workers), bool)
        self.total = np.zeros((rows, k), np.int64)
        self.complete = np.zeros(rows, bool)
        self.flags = np.zeros(rows, np.int64)  # of all packets that were added
        self.raw: dict[int, tuple[int, NDArray[np.int32]]] = {}  # by row: its chunk, and the workers' own values of that
        self.raw_seen = np.zeros((rows, workers), bool)
        # what the loops change of a row that a chunk begins, in their order
        self.state = (self.chunk, self.seen, self.raw_seen, self.total, self.complete, self.flags, results.octets)
        self.newest = 0
        self.last = np.full(2, succession.NO_ONE)  # the sequence numbers of the last results for all
        self.index, self.attempts, self.held = allocation.beginning(job, window, aggregators)
        self.share = number, servers = share
        places = np.arange(window)
        places = places[places % math.gcd(window, servers) == number % math.gcd(window, servers)]  # of chunks of this server
        self.assigned = np.zeros(aggregators, bool)  # ever, to those
        self.assigned[self.index[places]] = True

    def take(self, packets: Datagrams, statuses: NDArray[np.uint8]) -> Taken:
        """Take in packets, and write the statuses that queries ask for to rows of datagrams, as bytes."""
        t, octets = self.tree, packets.octets
        found, chunks, who = compiled_sums.sort_out(
            octets, packets.lengths, packets.record.itemsize, self.epoch, self.job, self.newest, self.window, *self.share, t.local,
            t.number, t.bit1,
        )  # fmt: skip
        self.outdated += int((found == compiled_sums.OUTDATED).sum())
        summands = np.flatnonzero(found == compiled_sums.SUMMAND)
        finished, asked = compiled_sums.add(summands, chunks, who, octets, packets.words, *self.state)
        self._finish(finished)
        done = np.zeros(len(self.chunk), bool)
        done[finished] = True
        for i in np.flatnonzero(found == compiled_sums.OWN_VALUES):
            summed, again = self._take_raw(packets.data[i], int(chunks[i]), who[i], done)
            finished, asked = np.concatenate([finished, summed]), np.concatenate([asked, again])
            done[summed] = True
        ready, asking = compiled_sums.answer(
            np.flatnonzero(found == compiled_sums.QUESTION), chunks, who, octets, t.root, t.rack, t.number, t.bit1, t.local, done,
            self.chunk, self.seen, self.raw_seen, self.complete, self.datagrams.octets, statuses,
        )  # fmt: skip
        succession.name(finished, self.last, self.datagrams.octets)
        self.newest = max(self.newest, int(self.chunk.max()))
        return Taken(finished, _each_once(asked), _each_once(ready), asking)

    def _finish(self, rows: NDArray[np.int64]) -> None:
        """Make results of complete sums, with the aggregators of the chunks one window later."""
        results = self.datagrams
        compiled_sums.finish(rows, self.job, self.chunk, self.total, self.flags, results.octets, results.words)
        compiled_sums.assign(
            rows, self.job, self.chunk, self.flags, self.index, self.attempts, self.held, self.assigned, results.octets
        )

    def _take_raw(
        self, packet: Any, chunk: int, who: NDArray[np.bool_], done: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Keep a worker's own values: the row when all have come, and (row, worker) if their sum is asked for once more.

        Rows that are `done` since this batch are not begun anew.
        """
        row, none, no_one = chunk % len(self.chunk), np.empty(0, np.int64), np.empty((0, 2), np.int64)
        if chunk < self.chunk[row] or (chunk > self.chunk[row] and done[row]):
            return none, no_one
        if chunk > self.chunk[row]:
            compiled_sums.begin(row, chunk, *self.state)
        if self.complete[row] and int(self.results["flags"][row]) & (wire.OVERFLOW | wire.RAW) != wire.OVERFLOW:
            resent = int(packet["flags"]) & wire.JOINS == wire.RESEND  # whoever asks is answered for that
            return none, np.array([(row, rank) for rank in np.flatnonzero(who)] if resent else no_one, np.int64)
        if self.raw.get(row, (-1, None))[0] != chunk:
            self.raw[row] = chunk, np.zeros((len(who), self.total.shape[1]), np.int32)
        own = self.raw[row][1]
        own[who] = packet["vector"].astype(np.int32)
        self.raw_seen[row] |= who
        if not self.raw_seen[row].all():
            return none, no_one
        self.results["vector"][row] = _raw_sum(own, integer=int(packet["flags"]) & wire.INTEGER > 0)
        self.results["flags"][row] |= wire.OVERFLOW | wire.RAW | wire.RESEND
        self.raw_seen[row] = False
        del self.raw[row]
        return np.array([row]), no_one

    def missing(self, chunk: int) -> NDArray[np.bool_]:
        """By worker, whether it is missing in a chunk."""
        row = chunk % len(self.chunk)
        if self.chunk[row] != chunk:
            return np.full(self.seen.shape[1], self.chunk[row] < chunk)
        absent: NDArray[np.bool_] = ~(self.raw_seen[row] if row in self.raw and self.raw[row][0] == chunk else self.seen[row])
        return absent


def _each_once(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(pairs, axis=0) if len(pairs) > 1 else pairs


def _raw_sum(values: NDArray[np.int32], integer: bool) -> NDArray[np.int32]:
    """The bits of the sum over workers: int32 wraps around, float32 is added in the order of ranks, in double precision."""
    own = values.astype(np.int64) if integer else values.view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        bits: NDArray[np.int32] = own.sum(axis=0).astype(np.int32 if integer else np.float32).view(np.int32)
    return bits
