"""ATP's parameter server (server.c), and how it ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from inalab.hosts.atp import release, wire
from inalab.hosts.atp.merger import Merger
from inalab.hosts.atp.release import Release
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.hosts.cores import ffi, library
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.stream.stream import sends_of


class AtpServer:
    """One parameter server of a group of a job's workers; its rank is one after theirs.

    Its peers are the racks' switches, then the workers by rank. The rest is as for hosts.atp.worker.AtpWorker, and so is the way
    in which a driver uses it.
    """

    def __init__(
        self, membership: Membership, epoch: int, server_racks: list[int], switches: int, window: int, k: int, aggregators: int,
        times: tuple[float, float],
    ) -> None:  # fmt: skip
        """`times` are what a result, and a status, take on the server's link, in seconds; 0 where it has no rate."""
        m = self.membership = membership
        rack = server_racks[m.rank - m.size]
        tree = Tree(m, rack)
        self.racks = sorted({rack, *(r for r, ranks in enumerate(m.racks) if ranks)})  # whose switches hold aggregators of ours
        self.arriving = 4 * window + 64  # packets that are taken in at once, at most
        first_status = max(2 * window, release.BATCH)  # the rows behind are statuses
        self.sender = Datagrams(first_status + self.arriving, wire.packet(k))
        self.statuses = self.sender.behind(first_status)
        self.sends: list[Send] = []
        results = self.sender.first(2 * window, self.sender.lengths[: 2 * window])
        self.epoch = epoch
        self.merger = Merger(m.job, epoch, tree, results, aggregators, (m.rank - m.size, len(server_racks)))
        core = library().atp_server_new(self.merger.core, switches, rack, self.statuses.c, first_status)
        self.core: Any = ffi.gc(core, library().atp_server_free)
        self.core.result_seconds, self.core.status_seconds = times
        self.release: Release | None = None

    def received(self, packets: Datagrams, now: float) -> None:
        """Take in packets; results go to all, repetitions and statuses to those who ask."""
        if self.release is not None:
            self.release.confirmed(packets.data[packets.lengths >= wire.HEADER.itemsize], self.epoch)
            return
        library().atp_server_received(self.core, packets.c, now)
        if self.core.outbox.count:
            self.sends += sends_of(self.core.outbox)

    def left(self, now: float) -> None:
        """All workers have left: release what the job holds of the switches."""
        self.release = Release(self.racks, np.flatnonzero(self.merger.assigned), now)

    def expired(self, now: float) -> float:
        """Do what is due at this time, and find when the next thing is."""
        if self.release is None:
            return math.inf
        if asked := self.release.next(now):
            data = self.sender.data
            data["kind"], data["flags"], data["epoch"] = wire.KIND_RELEASE, 0, self.epoch
            data["owner"] = wire.owners(self.membership.job, np.zeros(1, np.int64))
            racks = np.array([rack for rack, _ in asked])
            data["next_index"][: len(asked)] = racks  # which comes back as it is
            data["index"][: len(asked)] = [index for _, index in asked]
            for rack in np.unique(racks):
                self.sends.append(Send(np.flatnonzero(racks == rack), int(rack), wire.HEADER.itemsize, False))
        return min(self.release.due, self.release.end)

    def over(self, now: float) -> bool:
        """Whether it has nothing more to do."""
        return self.release is not None and self.release.over(now)
