"""SwitchML's worker (worker.c): what it sums, and what it says when that cannot be completed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Membership, Operation, Sum, workers
from inalab.hosts.cores import enum, ffi, library, values
from inalab.hosts.stream.quantization import MAX_WORKERS, scale, unscale
from inalab.hosts.stream.stream import Absence, Outlook, Stream, UnderWay
from inalab.hosts.switchml import wire

HOW = {name: enum("stream_recovery")[value] for name, value in (("ask", "ASKING"), ("paper", "RESENDING"))}
WAYS = enum("stream_way")
BITS = 32  # of a switch's bitmap
PARENT = BITS - 1  # that of the switch above, in the tree of an owner below


OWNED = (Operation.REDUCE, Operation.SCATTER, Operation.GATHER, Operation.BROADCAST)  # whose chunks have owners


class SwitchML(Stream):
    """All-reduce by the switches of the network; see hosts.stream.stream for `patience`.

    `slots` and `k` must be those of the job's pool and of the switches' program. `scaling` is a fixed factor for all floats
    in place of block exponents: what is too small for it is lost, and what is too large saturates or overflows in the sum.
    `recovery` is "ask" or "paper" (recovery.c).
    """

    operations: tuple[Operation, ...] = (Operation.SUM, *OWNED)

    def __init__(
        self, membership: Membership, epoch: int, slots: int, k: int, patience: float = 30.0, scaling: float | None = None,
        recovery: str = "ask",
    ) -> None:  # fmt: skip
        super().__init__(membership, slots, wire.row(k), patience)
        m, self.scaling = membership, scaling
        if max(map(len, m.racks)) > BITS:
            raise ValueError(f"{max(map(len, m.racks))} workers below one switch: its bitmap has {BITS} bits")
        if not 1 <= m.size <= MAX_WORKERS:
            raise ValueError(f"{m.size} workers: from 1 to {MAX_WORKERS} can be summed without overflow")
        self._set_up(self._made(slots, k, recovery))
        self._join(m.job, m.rank, epoch, m.worker, m.size, len(m.racks) > 1)
        self.slots = values(self.core.slots, slots)
        self.operations = operations_in(m)

    def _made(self, slots: int, k: int, recovery: str) -> Any:
        """The core."""
        core = library().switchml_new(slots, k, HOW[recovery], self.sender.c, wire.packet(k).itemsize)
        return ffi.gc(core, library().switchml_free)

    def _join(self, *of_group: Any) -> None:
        library().switchml_join(self.core, *of_group)

    # --- the collective

    def _taken_in(self, started: Sum) -> UnderWay:
        flat, m = started.flat, self.membership
        match started.operation:
            case Operation.SCATTER:
                factor = self._factor(flat)
                summands = flat if factor is None else scale(flat, factor)
                return UnderWay(started, summands, np.empty(flat.size // m.size, summands.dtype), self._announcement(started))
            case Operation.GATHER:
                words, gathered = flat.view(np.int32), np.empty(flat.size * m.size, np.int32)
                gathered[flat.size * m.rank :][: flat.size] = words
                return UnderWay(started, words, gathered, self._announcement(started))
            case Operation.BROADCAST:
                words = flat.view(np.int32)
                over = words if started.overwrite and flat.flags.writeable else words.copy()
                return UnderWay(started, words, over, self._announcement(started))
        taken = flat if (factor := self._factor(flat)) is None else scale(flat, factor)
        result = taken if taken is not flat or (started.overwrite and flat.flags.writeable) else np.empty_like(flat)
        return UnderWay(started, taken, result, self._announcement(started))

    def _chunks(self, elements: int) -> int:
        return -(-elements // self.k)

    def _share_out(self, transfer: Any, started: Sum) -> None:
        """Workers own chunks in turn; all of a broadcast's and a reduce's are the root's."""
        parts = self.membership.size
        match started.operation:
            case Operation.REDUCE:
                transfer.way, transfer.parts, transfer.owner = WAYS["TO_OWNERS"], 1, started.label.root
            case Operation.SCATTER:
                transfer.way, transfer.parts = WAYS["TO_OWNERS"], parts
            case Operation.GATHER:
                transfer.way, transfer.parts, transfer.elements = WAYS["FROM_OWNERS"], parts, parts * started.flat.size
            case Operation.BROADCAST:
                transfer.way, transfer.parts, transfer.owner = WAYS["FROM_OWNERS"], 1, started.label.root
            case _:
                return
        transfer.length = transfer.parts * self._chunks(transfer.elements // transfer.parts)

    def _start(self, transfer: Any, now: float) -> None:
        library().switchml_start(self.core, transfer, now)

    def _receive(self, packets: Any, now: float) -> bool:
        return bool(library().switchml_received(self.core, packets, now))

    def _total(self, t: UnderWay) -> NDArray[Any]:
        if t.started.operation in (Operation.GATHER, Operation.BROADCAST):
            return t.result.view(t.started.flat.dtype)
        factor = self._factor(t.started.flat)
        return t.result if factor is None else unscale(t.result, factor)

    def _factor(self, flat: NDArray[Any]) -> float | None:
        """The fixed factor of a tensor of floats, where there is one."""
        return self.scaling if flat.dtype == np.float32 else None

    # --- when it cannot be finished

    def _where(self, row: int) -> str:
        return f"job {self.membership.job}, slot {row}, chunk {self._chunk(row)}"

    def _ask_whom(self, row: int) -> None:
        library().switchml_ask_whom(self.core, row)

    def _forget_answers(self, row: int) -> None:
        self.slots["seen"][row], self.slots["newer"][row] = -1, False

    def _answered(self, row: int) -> bool:
        near, above, top = map(int, self.slots["seen"][row])
        m = self.membership
        if (owner := self._owner(row)) is not None:
            at_root = near >= 0 and owner in m.racks[m.rack]
            return at_root or self._near_lacks(near) or above >= 0 or top >= 0 or bool(self.slots["newer"][row])
        if (top >= 0 and m.pods) or self.slots["newer"][row]:
            return True
        return self._near_lacks(near) or (above >= 0 and self._pod_lacks(above))

    def _absence(self, row: int) -> Absence:
        near, above, top = map(int, self.slots["seen"][row])
        newer, owner = bool(self.slots["newer"][row]), self._owner(row)
        if owner is None or newer or self._near_lacks(near) or near == above == top == -1:
            return self._described(near, above, top, newer)
        return self._of_owner(owner, near, above, top)

    def _near_lacks(self, near: int) -> bool:
        """Whether the switch next to this worker has answered, and lacks some of its workers."""
        return near >= 0 and bool(_missing(near, self.membership.racks[self.membership.rack]))

    def _owner(self, row: int) -> int | None:
        """Whose a row's chunk is, by rank; None where it is everybody's."""
        part = int(self.rows["part"][row])
        return int.from_bytes(part.to_bytes(4, "little"), "big") & 0xFFFF if part else None

    def _of_owner(self, owner: int, near: int, above: int, top: int) -> Absence:
        """Whom the tree of an owner lacks, where the next switch has all its workers. Its root is the owner's switch.

        What bits mean is known of the next switch and, without pods, of the job's root: any other switch may be on the way.
        """
        m = self.membership
        if owner in m.racks[m.rack]:
            if len(m.racks[m.rack]) < m.size and not near >> PARENT & 1:
                return Absence(f"the switch of rack {m.rack} has not seen what other racks send", Outlook.OTHERS)
            return Absence(f"the switch of rack {m.rack} has seen all, but its result is lost", Outlook.RECOVERY)
        racks = _missing(above, list(range(len(m.racks)))) if above >= 0 and not m.pods else []
        if racks := [rack for rack in racks if owner not in m.racks[rack] and m.racks[rack]]:
            return self._far("the root", racks, m.rack in racks)
        if above >= 0 or top >= 0:
            return Absence("a switch on the way to the owner's has not seen all other workers", Outlook.OTHERS)
        return Absence(f"the switch of rack {m.rack} has seen all its workers, and nothing comes from above")

    @property
    def _pod(self) -> int:
        """This worker's, where there are pods."""
        return next(i for i, racks in enumerate(self.membership.pods) if self.membership.rack in racks)

    def _pod_lacks(self, seen: int) -> bool:
        """Whether the switch above the racks lacks any of its own; without pods it is the root, and has the last word."""
        m = self.membership
        return not m.pods or any(m.racks[rack] and not seen >> rack & 1 for rack in m.pods[self._pod])

    def _described(self, near: int, above: int, top: int, newer: bool) -> Absence:
        """Whom the switch next to this worker lacks, the one above it, and the one above that; -1 where they have not answered."""
        m = self.membership
        if newer:
            return Absence(f"the switch of rack {m.rack} serves a newer group of the job")
        if top >= 0 and m.pods:
            pods = _missing(top, list(range(len(m.pods))))
            return self._far("the core", [rack for pod in pods for rack in m.pods[pod]], self._pod in pods)
        if above >= 0 and m.pods:
            racks = [rack for rack in m.pods[self._pod] if not above >> rack & 1]
            return self._far(f"the switch of pod {self._pod}", racks, m.rack in racks)
        if above >= 0:
            racks = _missing(above, list(range(len(m.racks))))
            return self._far("the root", racks, m.rack in racks)
        if near >= 0:
            absent = _missing(near, m.racks[m.rack])
            if absent:
                text = f"the switch of rack {m.rack} has not seen {workers(m.names(absent))}"
                return Absence(text, Outlook.without(m.rank in absent), tuple(absent))
            return Absence(f"the switch of rack {m.rack} has seen all its workers, and nothing comes from above")
        return Absence(f"the switch of rack {m.rack} does not answer")

    def _far(self, who: str, racks: list[int], own: bool) -> Absence:
        """A switch above the racks lacks some of them; `own`, what this worker is in, too."""
        m = self.membership
        members = m.racks
        named = "; ".join(f"rack {r} ({workers(m.names(members[r]), alike=True)})" for r in racks if members[r])
        if not named:
            return Absence(f"{who} has seen all that is below it, but its result is lost", Outlook.RECOVERY)
        return Absence(f"{who} has not seen {named}", Outlook.without(own), tuple(rank for rack in racks for rank in members[rack]))


def operations_in(m: Membership) -> tuple[Operation, ...]:
    """What such a job has. Where a switch with a parent has a child at the parent's bit, no owner has a tree."""
    crowded = (len(m.racks) > 1 and max(map(len, m.racks)) > PARENT) or (bool(m.pods) and len(m.racks) > PARENT)
    return (Operation.SUM,) if crowded else SwitchML.operations


def _missing(seen: int, numbered: list[int]) -> list[int]:
    """Those of a list whose bit, by their place in it, is not set."""
    return [who for i, who in enumerate(numbered) if not seen >> i & 1]
