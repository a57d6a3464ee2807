"""SwitchML's worker (NSDI '21, section 3): a stream of chunks through a pool of slots, self-clocked by results.

All chunks that a job ever sends form one stream, numbered from 0: chunk q uses slot q mod s in version (q div s) mod 2,
and may be sent once chunk q - s is complete. An all-reduce of C chunks takes w + C numbers of the stream, w = min(s, C):
first w packets that carry exponents only, then the values. The packet at distance d from the start carries the exponent
of tensor chunk d, so values always find the maximum of their exponents known (one window ahead). int32 tensors need no
exponents and take C numbers; neither do float32 tensors with a fixed scaling factor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts import wire
from hosts.collective import AggregationError, Membership
from hosts.quantization import block_exponents, dequantize, quantize, scale, unscale
from hosts.stream import Stream

QUERY_PATIENCE = 1.0  # seconds to wait for the switch's answer to "whom have you not seen?"


@dataclass
class Transfer:
    """One all-reduce under way. Stream chunk q of it has the distance q - start; arrays are by distance or by chunk."""

    start: int
    window: int  # w: packets that carry exponents only, 0 where there are none
    length: int  # stream numbers taken
    values: NDArray[Any]  # (chunks, k), padded with zeros
    result: NDArray[Any]
    codes: NDArray[np.uint8]  # this worker's exponents, one a chunk
    largest: NDArray[np.uint8]  # their maxima over all workers, as they become known
    done: NDArray[np.bool_]  # by distance
    sent: NDArray[np.bool_]  # by distance
    remaining: int


class SwitchML(Stream):
    """All-reduce by the switches of the network; see hosts.stream for `patience` and `pulse`.

    `slots` and `k` must be those of the job's pool and of the switches' program. `scaling` is a fixed factor for all floats
    in place of block exponents: what is too small for it is lost, and what is too large saturates or overflows in the sum.
    """

    def __init__(
        self, membership: Membership, local: tuple[str, int], switch: tuple[str, int], slots: int, k: int,
        patience: float = 30.0, pulse: Callable[[], str | None] = lambda: None, scaling: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(membership, local, [switch], slots, wire.packet(k), patience, pulse)
        self.slots, self.scaling = slots, scaling
        packets = self.socket.sender.data
        packets["job"], packets["worker"] = membership.job, membership.worker
        packets["slot"] = np.arange(slots)

    # --- the collective

    def _sum(self, flat: NDArray[Any]) -> NDArray[Any]:
        fixed = self.scaling if flat.dtype == np.float32 else None
        transfer = self._begin(flat if fixed is None else scale(flat, fixed))
        self.position += transfer.length
        self._release(transfer, np.arange(min(self.slots, transfer.length)))
        self._run(transfer)
        return transfer.result if fixed is None else unscale(transfer.result, fixed)

    def _begin(self, flat: NDArray[Any]) -> Transfer:
        values = self._in_chunks(flat)
        chunks = len(values)
        window = min(self.slots, chunks) if flat.dtype == np.float32 else 0
        length = window + chunks
        return Transfer(
            self.position, window, length, values, np.empty_like(values),
            block_exponents(values) if window else np.zeros(chunks, np.uint8), np.zeros(chunks, np.uint8),
            np.zeros(length, bool), np.zeros(length, bool), length,
        )  # fmt: skip

    # --- sending

    def _release(self, t: Transfer, distances: NDArray[np.int64]) -> None:
        """Send those chunks of `distances` that may go: slot free, exponents known, not sent before."""
        d = distances[(distances >= 0) & (distances < t.length)]
        d = d[~t.sent[d]]
        d = d[(d < self.slots) | t.done[np.maximum(d - self.slots, 0)]]
        d = d[(d < t.window) | t.done[np.maximum(d - t.window, 0)]] if t.window else d
        if not len(d):
            return
        t.sent[d] = True
        stream = t.start + d
        rows = stream % self.slots
        packets = self.socket.sender.data
        packets["kind"][rows] = wire.KIND_UPDATE
        packets["mark"][rows] = 0
        packets["version"][rows] = stream // self.slots % 2
        packets["chunk"][rows] = stream & 0xFFFFFFFF
        ahead = np.minimum(d, len(t.codes) - 1)
        packets["exponent"][rows] = np.where(d < len(t.codes), t.codes[ahead], 0)
        valued = d >= t.window
        packets["vector"][rows[~valued]] = 0
        chunks = d[valued] - t.window
        values = t.values[chunks]
        packets["vector"][rows[valued]] = (
            values if values.dtype == np.int32 else quantize(values, t.largest[chunks], self.membership.size)
        )
        self.chunk[rows] = stream
        self.tries[rows] = 0
        self._send(rows)

    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        self.socket.sender.data["mark"][rows] = 1

    # --- receiving

    def _receive(self, t: Transfer) -> bool:
        packets, lengths = self.socket.receive()
        self.counters.bytes_received += int(lengths.sum())
        good = (lengths == self.record.itemsize) & (packets["kind"] == wire.KIND_RESULT)
        good &= (packets["job"] == self.membership.job) & (packets["slot"] < self.slots)
        self.counters.malformed += int(len(good) - good.sum())
        packets = packets[good]
        rows = packets["slot"].astype(np.intp)
        outstanding = self.chunk[rows]
        expected = (outstanding >= 0) & (packets["chunk"] == (outstanding & 0xFFFFFFFF))
        candidates = np.flatnonzero(expected)
        fresh = candidates[np.unique(rows[candidates], return_index=True)[1]]
        if len(fresh) < len(rows):
            self._needless(self._paths(np.delete(rows, fresh)))
        if not len(fresh):
            return False
        packets, rows = packets[fresh], rows[fresh]
        distances = self.chunk[rows] - t.start
        self._settled(rows, packets["mark"] == 0)
        self._take(t, packets, distances)
        t.done[distances] = True
        t.remaining -= len(distances)
        following = np.concatenate([distances + self.slots, distances + t.window]) if t.window else distances + self.slots
        self._release(t, np.unique(following))
        if self.timeline:
            self.timeline.note(int((self.chunk >= 0).sum()), results=len(rows))
        return True

    def _take(self, t: Transfer, packets: NDArray[np.void], distances: NDArray[np.int64]) -> None:
        """Keep the exponents and the sums of these results."""
        if not t.window:
            t.result[distances] = packets["vector"]
            return
        about = distances < len(t.largest)
        t.largest[distances[about]] = packets["exponent"][about]
        valued = distances >= t.window
        chunks = distances[valued] - t.window
        t.result[chunks] = dequantize(packets["vector"][valued].astype(np.int32), t.largest[chunks], self.membership.size)

    # --- when it cannot be finished

    def _explain(self, reason: str) -> AggregationError:
        """Ask the switch whom it has not seen in the oldest slot, and say so."""
        row = self._oldest()
        m = self.membership
        where = f"job {m.job}, slot {row}, chunk {int(self.chunk[row])}"
        return AggregationError(f"worker {m.rank}: {where} cannot be completed: {reason}; {self._who_is_missing(row)}")

    def _who_is_missing(self, row: int) -> str:
        packets = self.socket.sender.data
        chunk = self.chunk[row] & 0xFFFFFFFF
        packets["kind"][row] = wire.KIND_QUERY
        end = time.monotonic() + QUERY_PATIENCE
        seen: dict[int, int] = {}
        while time.monotonic() < end and len(seen) < 2:
            self.socket.send(np.array([row]), wire.HEADER.itemsize, end)
            self.socket.wait(0.1)
            answers, _ = self.socket.receive()
            answers = answers[(answers["kind"] == wire.KIND_STATUS) & (answers["slot"] == row) & (answers["chunk"] == chunk)]
            seen.update({int(a["mark"]): int(a["seen"]) for a in answers})
            if 0 in seen and self._absent(seen[0], self.membership.racks[self.membership.rack]):
                break
        packets["kind"][row] = wire.KIND_UPDATE
        return self._describe(seen)

    def _describe(self, seen: dict[int, int]) -> str:
        m = self.membership
        if 1 in seen:
            racks = [i for i in range(len(m.racks)) if not seen[1] >> i & 1]
            named = "; ".join(f"rack {i} (workers {', '.join(map(str, m.racks[i]))})" for i in racks)
            return f"the root has not seen {named}" if racks else "the root has seen every rack, but its result is lost"
        if 0 in seen:
            absent = self._absent(seen[0], m.racks[m.rack])
            if absent:
                return f"the switch of rack {m.rack} has not seen worker{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
            return f"the switch of rack {m.rack} has seen all its workers, and nothing comes from above"
        return f"the switch of rack {m.rack} does not answer"

    @staticmethod
    def _absent(seen: int, ranks: list[int]) -> list[int]:
        return [rank for i, rank in enumerate(ranks) if not seen >> i & 1]
