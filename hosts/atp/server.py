"""The core of ATP's parameter server: it merges what arrives, answers workers by way of the switches, and frees aggregators."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import release, wire
from inalab.hosts.atp.departures import Departures
from inalab.hosts.atp.merger import Merger
from inalab.hosts.atp.release import Release
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.hosts.stream.datagrams import Datagrams, Send


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
        m = membership
        rack = server_racks[m.rank - m.size]
        tree = Tree(m, rack)
        self.racks = sorted({rack, *(r for r, ranks in enumerate(m.racks) if ranks)})  # whose switches hold aggregators of ours
        self.own_switch, self.first_worker = rack, switches  # among the peers
        self.arriving = 4 * window + 64  # packets that are taken in at once, at most
        self.statuses = max(2 * window, release.BATCH)  # the first of the rows for them
        self.sender = Datagrams(self.statuses + self.arriving, wire.packet(k))
        self.sends: list[Send] = []
        results = self.sender.first(2 * window, self.sender.lengths[: 2 * window])
        self.epoch = epoch
        self.merger = Merger(m.job, epoch, tree, results, aggregators, (m.rank - m.size, len(server_racks)))
        self.membership, self.times = m, times
        self.departures = Departures(2 * window, switches, tree.rack, self.own_switch)
        self.release: Release | None = None

    def received(self, packets: Datagrams, now: float) -> None:
        """Take in packets; results go to all, repetitions and statuses to those who ask.

        What somebody waits for, since a packet of the chunk or its result was lost, leaves this host before what does not.
        """
        if self.release is not None:
            self.release.confirmed(packets.data[packets.lengths >= wire.HEADER.itemsize], self.epoch)
            return
        taken = self.merger.take(packets, self.sender.octets[self.statuses :])
        late = self.merger.results["flags"][taken.finished] & wire.RESEND > 0
        self._send(taken.finished[~late], self.own_switch, now)
        if len(taken.asked):
            self._repeat(taken.asked[:, 0], self.first_worker + taken.asked[:, 1], now)
        self._send(taken.finished[late], self.own_switch, now, urgent=True)
        if len(taken.ready):
            row, worker, rack = taken.ready.T
            peers = np.where(worker >= 0, self.first_worker + worker, np.where(rack >= 0, rack, self.own_switch))
            self._repeat(row, peers, now, urgent=True)
        self._tell(taken.asking, now)

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

    def _repeat(self, rows: NDArray[np.int64], peers: NDArray[np.int64], now: float, urgent: bool = False) -> None:
        """Send results again to the peers that ask, unless copies for them still wait here."""
        rows, peers = self.departures.lacking(rows, peers, now)
        for peer in np.unique(peers):
            self._send(rows[peers == peer], int(peer), now, urgent)

    def _send(self, rows: NDArray[np.int64], peer: int, now: float, urgent: bool = False) -> None:
        """Send results to a peer."""
        if len(rows):
            self.sends.append(Send(rows, peer, None, urgent))
            self.departures.sent(rows, peer, urgent, self.times[0], now)

    def _tell(self, workers: NDArray[np.int64], now: float) -> None:
        """Send statuses, which are the first rows of those, to workers."""
        statuses = self.statuses + np.arange(len(workers))
        for worker in np.unique(workers):
            self.sends.append(Send(statuses[workers == worker], self.first_worker + int(worker), wire.HEADER.itemsize, True))
        self.departures.occupied(len(workers), self.times[1], now)
