"""ATP's worker (worker.c): what it sums, and what it says when that cannot be completed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import wire
from inalab.hosts.atp.congestion import CONTROLS, MARKS
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership, Sum, workers
from inalab.hosts.cores import enum, ffi, library, values
from inalab.hosts.gauge import Gauge
from inalab.hosts.stream.stream import Absence, Outlook, Question, Stream, UnderWay

HOW = {name: enum("stream_recovery")[value] for name, value in (("ask", "ASKING"), ("paper", "RESENDING_AT_GAPS"))}


class AtpWorker(Stream):
    """All-reduce by switches as far as they have room, and parameter servers; see hosts.stream.stream for `patience`.

    Its peers are the servers, whose racks are `server_racks`. `window` and `k` must be the same on every node, `aggregators` what
    the switches' tables have of them for this job. `scaling` is a fixed factor that makes integers of floats, in place of each
    tensor's own. `congestion` is what halves the window (congestion.c), and `recovery` is "ask" or "paper" (recovery.c). Where it
    `prioritizes`, gradients say how urgent they are (priority.c).
    """

    def __init__(
        self, membership: Membership, epoch: int, server_racks: list[int], window: int, k: int, aggregators: int,
        scaling: float | None = None, congestion: str = MARKS, recovery: str = "ask", patience: float = 30.0,
        prioritizes: bool = False,
    ) -> None:  # fmt: skip
        m, self.servers = membership, len(server_racks)
        self.trees = [Tree(m, rack) for rack in server_racks]
        super().__init__(m, window, wire.packet(k), patience)
        core = library().atp_worker_new(window, self.servers, k, HOW[recovery], self.sender.c, self.record.itemsize)
        self._set_up(ffi.gc(core, library().atp_worker_free))
        for server, tree in enumerate(self.trees):
            its = self.core.servers[server]
            its.zero, its.one = tree.bitmaps(m.rank)
            its.edge = wire.EDGE_SWITCH if tree.local[m.rank] else 0
        library().atp_worker_join(self.core, m.job, m.rank, epoch, m.size, aggregators)
        library().window_init(ffi.addressof(self.core, "window"), window, CONTROLS.index(congestion))
        self.core.scaling, self.core.prioritizes = scaling or 0.0, prioritizes
        self.places = values(self.core.places, window)
        self.gauge = Gauge(f"job {m.job}, worker {m.rank}")

    # --- the collective

    def _taken_in(self, started: Sum) -> UnderWay:
        flat = started.flat
        result = flat if started.overwrite and flat.flags.writeable else np.empty_like(flat)
        return UnderWay(started, flat, result, self._announcement(started))

    def _chunks(self, elements: int) -> int:
        return 1 + -(-elements // self.k)

    def _start(self, transfer: Any, now: float) -> None:
        library().atp_worker_start(self.core, transfer, now)

    def _receive(self, packets: Any, now: float) -> bool:
        return bool(library().atp_worker_received(self.core, packets, now))

    def _collect(self, now: float) -> None:
        before = self.counters.results
        super()._collect(now)
        if self.counters.results > before:
            self.gauge.show(library().window_room(ffi.addressof(self.core, "window")))

    def _total(self, t: UnderWay) -> NDArray[Any]:
        return t.result

    # --- when it cannot be finished

    def _where(self, row: int) -> str:
        return f"job {self.membership.job}, chunk {self._chunk(row)}"

    def _ask_whom(self, row: int) -> None:
        library().atp_worker_ask_whom(self.core, row)

    def _forget_answers(self, row: int) -> None:
        self.places["answered"][row] = False

    def _answered(self, row: int) -> bool:
        return bool(self.places["answered"][row])

    def _absence(self, row: int) -> Absence | Question:
        """A switch that holds the chunk has answered, or else its server knows."""
        place = self.places[row]
        if place["answered"] and place["answer"] & wire.JOINS == wire.JOINS:  # so a switch asks to be sent what it lacks
            return self._described(place, self.trees[self.rows["path"][row]])
        assert self.inquiry is not None
        return Question(self.membership.size + self.inquiry.chunk % self.servers, self.inquiry.chunk)

    def _described(self, place: np.void, tree: Tree) -> Absence:
        """Whom a switch lacks: workers of its own rack, and further up other racks."""
        m = self.membership
        seen = tree.who(np.array([place["zero"]]), np.array([place["one"]]))[0]
        at_server = place["answer"] & wire.EDGE_SWITCH
        rack = tree.root if at_server else m.rack
        absent = np.flatnonzero(~seen)
        near = [int(rank) for rank in absent if tree.rack[rank] == rack]
        named = [workers(near)] if near else []
        if at_server:
            away = [r for r in np.unique(tree.rack[absent]) if r != rack]
            named += [f"rack {r} (workers {', '.join(map(str, m.racks[r]))})" for r in away]
        wording = f"the switch of rack {rack} has not seen {'; '.join(named) or 'its result'}"
        return Absence(wording, Outlook.without(not seen[m.rank]), tuple(absent.tolist()) if at_server else tuple(near))
