"""The core of SwitchML's worker (NSDI '21, section 3): a stream of chunks through a pool of slots, self-clocked by results.

Chunks of all tensors are dealt to the slots in turn, and a slot's packets follow each other: round r of slot i, in version
r mod 2, is sent once round r - 1 is complete. It is number r * s + i of the stream. A chunk of floats needs the exponent that all
workers have agreed on. So each packet carries this worker's exponent of the chunk that the slot carries next, and the result
their maximum. Where that is unknown, because some worker has not started the next tensor yet, a round with exponents alone goes
first; so it is in all slots when a stream begins. All workers see the same result and decide alike.

The first chunk of a tensor always has such a round: its vector announces the tensor's length and dtype (hosts.stream.announcement).
int32 tensors need no exponents, and neither do float32 tensors with a fixed scaling factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Membership, Sum, workers
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.stream.quantization import CODE_UNKNOWN, scale, scales, steps, unscale
from inalab.hosts.stream.recovery import Asking, Resending
from inalab.hosts.stream.stream import Absence, Stream, UnderWay
from inalab.hosts.switchml import compiled_slots, wire

LEVELS = 3  # of switches, at most
HEARD = 4  # queries about a chunk in vain after which this worker asks further up than its own switch itself


@dataclass(eq=False)
class Transfer(UnderWay):
    """Chunk j of the tensor is number start + j of all chunks."""

    values: NDArray[Any]  # (elements,); int32 where nothing needs an exponent
    largest: NDArray[np.uint8]  # the workers' largest exponent of each chunk, as it becomes known
    result: NDArray[Any]  # (elements,); may be the same memory: a chunk has been sent before its sum comes

    @property
    def blocks(self) -> bool:
        """Whether chunks have exponents."""
        return self.values.dtype == np.float32


class SwitchML(Stream):
    """All-reduce by the switches of the network; see hosts.stream.stream for `patience`.

    `slots` and `k` must be those of the job's pool and of the switches' program. `scaling` is a fixed factor for all floats
    in place of block exponents: what is too small for it is lost, and what is too large saturates or overflows in the sum.
    `recovery` is "ask" or "paper" (hosts.stream.recovery).
    """

    def __init__(
        self, membership: Membership, epoch: int, slots: int, k: int, patience: float = 30.0, scaling: float | None = None,
        recovery: str = "ask",
    ) -> None:  # fmt: skip
        super().__init__(membership, epoch, 1, slots, wire.packet(k), patience, spare=slots)
        self.slots, self.scaling = slots, scaling
        self.recovery = Asking(self, self._ask) if recovery == "ask" else Resending(self)
        self.round = np.zeros(slots, np.int64)  # the next of each slot, or the one that is outstanding
        self.next = np.arange(slots)  # number of the chunk that it is about
        self.ahead = np.zeros(slots, bool)  # it carries exponents alone
        self.agreed = np.full(slots, CODE_UNKNOWN, np.uint8)  # that chunk's exponent
        self.announced = np.zeros(slots, bool)  # that chunk has had its round of exponents alone
        packets = self.sender.data
        packets["job"], packets["worker"], packets["epoch"] = membership.job, membership.worker, epoch
        packets["slot"] = np.tile(np.arange(slots), 2)
        self.queries = packets[slots:]
        self.queries["kind"] = wire.KIND_QUERY
        self.scales, self.steps = scales(membership.size), steps(membership.size)
        self.seen = np.full(
            (slots, LEVELS + 1), -1
        )  # by row: bitmaps of switches that have answered (hosts.switchml.compiled_slots)

    # --- the collective

    def start(self, started: Sum, now: float) -> None:
        flat = np.require(started.flat, requirements="W")  # which compiled loops take alone
        values = flat if (factor := self._factor(flat)) is None else scale(flat, factor)
        chunks = -(-flat.size // self.k)
        result = values if started.overwrite or values is not flat else np.empty_like(values)
        self.under_way.append(Transfer(started, self.position, chunks, chunks, values, np.empty(chunks, np.uint8), result))
        self.position += chunks
        self._release(np.flatnonzero(self.chunk < 0), now)

    def _finish(self, t: Transfer) -> None:
        self.under_way.remove(t)
        factor = self._factor(t.started.flat)
        t.started.end(t.result if factor is None else unscale(t.result, factor))

    def _factor(self, flat: NDArray[Any]) -> float | None:
        """The fixed factor of a tensor of floats, where there is one."""
        return self.scaling if flat.dtype == np.float32 else None

    # --- sending

    def _release(self, rows: NDArray[np.intp], now: float) -> None:
        """Send the next packets of these slots, as far as there are chunks for them."""
        octets, words = self.sender.octets, self.sender.words
        rows = compiled_slots.open_rounds(rows, self.position, self.round, self.next, self.chunk, self.tries, octets)
        if not len(rows):
            return
        for t in self.under_way:
            compiled_slots.fill(
                rows, t.start, t.length, t.blocks, self.next, self.announced, self.ahead, self.agreed, t.largest, self.scales,
                t.values.view(np.float32), octets, words,
            )  # fmt: skip
            if self._announces(t):
                self.sender.data["vector"][t.start % self.slots] = self._announcement(t.started.flat)
        self._send(rows, now)

    def _mark_again(self, rows: NDArray[np.intp]) -> None:
        self.sender.data["mark"][rows] = 1

    def _ask(self, rows: NDArray[np.intp], again: NDArray[np.bool_], urgent: bool, insisting: bool = False) -> None:
        """Ask the switch whom it has seen in these slots; `insisting`, also the switches above it, even if another worker does."""
        queries, updates = self.queries, self.sender.data
        queries["version"][rows], queries["chunk"][rows] = updates["version"][rows], updates["chunk"][rows]
        queries["mark"][rows] = np.where(self.insists(rows) | insisting, wire.MARK_INSISTS, again)
        queries["exponent"][rows] = self.tries[rows] & 0xFF  # which the answer repeats
        self._put(rows, urgent, wire.STATUS.itemsize, behind=self.slots)

    def insists(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which slots have been asked about so often that whoever asks for the rack may have stopped, or may not be heard."""
        if isinstance(self.recovery, Asking):
            return self.recovery.asked[rows] > HEARD
        return np.zeros(len(rows), bool)

    # --- receiving

    def _receive(self, packets: Datagrams, now: float) -> bool:
        job, sizes = self.membership.job, (self.record.itemsize, wire.STATUS.itemsize)
        places, rows, once, found, size = compiled_slots.sort_out(
            packets.octets, packets.lengths, job, self.epoch, *sizes, self.chunk
        )
        self.counters.bytes_received += size
        count = np.bincount(found, minlength=compiled_slots.KINDS)
        self.counters.malformed += int(count[compiled_slots.MALFORMED])
        self.counters.outdated += int(count[compiled_slots.OUTDATED])
        if count[compiled_slots.STATUS]:
            self._take_statuses(packets, np.flatnonzero(found == compiled_slots.STATUS), rows, now)
        if count[compiled_slots.NEEDLESS]:
            self._needless(np.zeros(count[compiled_slots.NEEDLESS], np.int64), now)
        if len(rows):
            self._settled(rows, once, now)
            self._take(packets, places, rows)
            self._release(rows, now)
            if self.timeline:
                self.timeline.note(now, int((self.chunk >= 0).sum()), results=len(rows))
        return len(rows) > 0

    def _take(self, packets: Datagrams, places: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Keep the exponents and the sums of these results; raises AggregationError if another worker sums another tensor."""
        for t in list(self.under_way):
            if self._announces(t):
                for announcement in packets.data["vector"][places[rows == t.start % self.slots]]:
                    self._check_announcement(announcement.astype(np.int32), t.started.flat)
            t.remaining -= compiled_slots.take(
                rows, places, packets.words, t.start, t.length, t.blocks, self.next, self.ahead, t.largest, self.steps,
                t.result.view(np.float32),
            )  # fmt: skip
            if not t.remaining:
                self._finish(t)
        compiled_slots.turn(rows, places, packets.octets, self.round, self.next, self.ahead, self.announced, self.agreed)

    def _announces(self, t: Transfer) -> bool:
        """Whether the slot of a tensor's first chunk is at the round that announces the tensor."""
        first = t.start % self.slots
        return bool(self.next[first] == t.start and self.ahead[first])

    def _take_statuses(self, packets: Datagrams, places: NDArray[np.int64], complete: NDArray[np.intp], now: float) -> None:
        """Learn whom the switches lack: next to this worker it may be this one, further up it is another rack.

        Of the slots that are `complete` the results have come, too.
        """
        rows, lacking = compiled_slots.read_statuses(
            places, packets.octets, self.epoch, self.membership.worker, self.chunk, self.tries, self.seen
        )
        if len(complete):
            rows, lacking = rows[waits := ~np.isin(rows, complete)], lacking[waits]
        if isinstance(self.recovery, Asking) and len(rows):
            self.recovery.answered(rows, lacking, now, near=len(self.membership.racks) > 1)

    # --- when it cannot be finished

    def _where(self, row: int) -> str:
        return f"job {self.membership.job}, slot {row}, chunk {int(self.chunk[row])}"

    def _ask_whom(self, row: int) -> None:
        """Where its own rack is complete, the switch queries the one above."""
        self._ask(np.array([row]), np.array([True]), urgent=False, insisting=True)

    def _forget_answers(self, row: int) -> None:
        self.seen[row] = -1

    def _answered(self, row: int) -> bool:
        near, above, top, newer = map(int, self.seen[row])
        m = self.membership
        if top >= 0 or newer >= 0:
            return True
        return (near >= 0 and bool(_missing(near, m.racks[m.rack]))) or (above >= 0 and self._pod_lacks(above))

    def _absence(self, row: int) -> Absence:
        return self._described(*map(int, self.seen[row]))

    @property
    def _pod(self) -> int:
        """This worker's, where there are pods."""
        return next(i for i, racks in enumerate(self.membership.pods) if self.membership.rack in racks)

    def _pod_lacks(self, seen: int) -> bool:
        """Whether the switch above the racks lacks any of its own; without pods it is the root, and has the last word."""
        m = self.membership
        return not m.pods or any(m.racks[rack] and not seen >> rack & 1 for rack in m.pods[self._pod])

    def _described(self, near: int, above: int, top: int, newer: int) -> Absence:
        """Whom the switch next to this worker lacks, the one above it, and the one above that; -1 where they have not answered."""
        m = self.membership
        if newer >= 0:
            return Absence(f"the switch of rack {m.rack} serves a newer group of the job")
        if top >= 0:
            pods = _missing(top, list(range(len(m.pods))))
            return self._far("the core", [rack for pod in pods for rack in m.pods[pod]], self._pod not in pods)
        if above >= 0 and m.pods:
            racks = [rack for rack in m.pods[self._pod] if not above >> rack & 1]
            return self._far(f"the switch of pod {self._pod}", racks, m.rack not in racks)
        if above >= 0:
            racks = _missing(above, list(range(len(m.racks))))
            return self._far("the root", racks, m.rack not in racks)
        if near >= 0:
            absent = _missing(near, m.racks[m.rack])
            if absent:
                return Absence(f"the switch of rack {m.rack} has not seen {workers(absent)}", m.rank not in absent, tuple(absent))
            return Absence(f"the switch of rack {m.rack} has seen all its workers, and nothing comes from above")
        return Absence(f"the switch of rack {m.rack} does not answer")

    def _far(self, who: str, racks: list[int], is_in: bool) -> Absence:
        """A switch above the racks lacks some of them; `is_in`, not what this worker is in."""
        members = self.membership.racks
        named = "; ".join(f"rack {rack} (workers {', '.join(map(str, members[rack]))})" for rack in racks if members[rack])
        if not named:
            return Absence(f"{who} has seen all that is below it, but its result is lost")
        return Absence(f"{who} has not seen {named}", is_in, tuple(rank for rack in racks for rank in members[rack]))


def _missing(seen: int, numbered: list[int]) -> list[int]:
    """Those of a list whose bit, by their place in it, is not set."""
    return [who for i, who in enumerate(numbered) if not seen >> i & 1]
