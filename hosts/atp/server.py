"""ATP's parameter server: merges what arrives, answers all workers by way of the switches, and lets aggregators go at the end."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import wire
from inalab.hosts.atp.departures import Departures
from inalab.hosts.atp.merger import Merger
from inalab.hosts.atp.tree import Tree
from inalab.hosts.atp.worker import CONTROL_PORT, QUESTION
from inalab.hosts.collective import AggregationError, Membership, node_name
from inalab.hosts.stream.datagrams import BatchSocket
from inalab.hosts.tcp.meeting import Meeting, MeetingError, await_group

NAP = 0.001  # seconds that packets may wait to be handled in one batch
RELEASE_BATCH = 64  # packets that are confirmed before more are sent
RELEASE_WAIT = 0.05  # seconds for the confirmations, at first
RELEASE_PATIENCE = 8.0


def gather(membership: Membership, control: list[str], patience: float, over: Callable[[], bool]) -> Meeting | None:
    """Wait for the next group of the job's workers; None once `over`.

    `control` are the addresses of all nodes by rank on a network that loses nothing. Raises AggregationError if a worker does
    not connect within `patience` seconds of the first.
    """
    m = membership
    try:
        return await_group(m.rank, range(m.size), control, CONTROL_PORT, patience, over)
    except MeetingError as error:
        raise AggregationError(f"{node_name(m.rank, m.size)}: {node_name(error.rank, m.size)} {error.what}") from None


class AtpServer:
    """One parameter server of a group of a job's workers; its rank is one after theirs.

    `group` is the group's epoch and its workers' connections (see `gather`), `switches` are the addresses of the racks'
    switches, the rest is as for hosts.atp.worker.AtpWorker.
    """

    def __init__(
        self, membership: Membership, group: Meeting, peers: list[str], server_racks: list[int], switches: list[str],
        window: int, k: int, aggregators: int, times: tuple[float, float],
    ) -> None:  # fmt: skip
        """`times` are what a result, and a status, take on the server's link, in seconds; 0 where it has no rate."""
        m = membership
        rack = server_racks[m.rank - m.size]
        tree = Tree(m, rack)
        self.racks = sorted({rack, *(r for r, ranks in enumerate(m.racks) if ranks)})  # whose switches hold aggregators of ours
        self.own_switch, self.first_worker = rack, len(switches)  # among the socket's peers
        addresses = [(ip, wire.UDP_PORT) for ip in [*switches, *peers[: m.size]]]
        arriving = 4 * window + 64
        self.statuses = max(2 * window, RELEASE_BATCH)  # the first of the rows for them
        self.socket = BatchSocket(
            (peers[m.rank], wire.UDP_PORT), addresses, wire.packet(k), self.statuses + arriving, arriving, max(1, window // 16)
        )
        share, sender = (m.rank - m.size, len(server_racks)), self.socket.sender
        self.epoch, self.control = group.epoch, group.sockets
        self.merger = Merger(m.job, self.epoch, tree, sender.first(2 * window, sender.lengths[: 2 * window]), aggregators, share)
        self.membership, self.tree, self.times = m, tree, times
        self.departures = Departures(2 * window, len(switches), tree.rack, self.own_switch)
        self.heard: dict[int, bytes] = {}  # the beginnings of questions

    def serve(self) -> None:
        """Answer until all workers have left, then release what the job holds of the switches."""
        poll = select.poll()
        poll.register(self.socket.socket, select.POLLIN)
        by_number = {made.fileno(): made for made in self.control.values()}
        for number in by_number:
            poll.register(number, select.POLLIN)
        while by_number:
            for number, _ in poll.poll():
                if number == self.socket.socket.fileno():
                    time.sleep(NAP)
                    self._answer()
                elif not self._reply(by_number[number]):
                    poll.unregister(number)
                    by_number.pop(number).close()
        self._release()

    def _answer(self) -> None:
        """Take in the packets that are there; results go to all, repetitions and statuses to those who ask.

        What somebody waits for, since a packet of the chunk or its result was lost, leaves this host before what does not.
        """
        taken = self.merger.take(self.socket.receive(), self.socket.sender.octets[self.statuses :])
        now = time.monotonic()
        late = self.merger.results["flags"][taken.finished] & wire.RESEND > 0
        if not late.all():
            self._send(taken.finished[~late], self.own_switch, now)
        if len(taken.asked):
            self._repeat(taken.asked[:, 0], self.first_worker + taken.asked[:, 1], now)
        if late.any() or len(taken.ready) or len(taken.asking):
            self.socket.set_urgent(True)
            try:
                if late.any():
                    self._send(taken.finished[late], self.own_switch, now, urgent=True)
                row, worker, rack = taken.ready.T
                peers = np.where(worker >= 0, self.first_worker + worker, np.where(rack >= 0, rack, self.own_switch))
                self._repeat(row, peers, now, urgent=True)
                self._tell(taken.asking, now)
            finally:
                self.socket.set_urgent(False)

    def _repeat(self, rows: NDArray[np.int64], peers: NDArray[np.int64], now: float, urgent: bool = False) -> None:
        """Send results again to the peers that ask, unless copies for them still wait here."""
        rows, peers = self.departures.lacking(rows, peers, now)
        for peer in np.unique(peers):
            self._send(rows[peers == peer], int(peer), now, urgent)

    def _send(self, rows: NDArray[np.int64], peer: int, now: float, urgent: bool = False) -> None:
        """Send results to a peer."""
        self.socket.send(rows, give_up_at=time.monotonic() + 1.0, peer=peer)
        self.departures.sent(rows, peer, urgent, self.times[0], now)

    def _tell(self, workers: NDArray[np.int64], now: float) -> None:
        """Send statuses, which are the first rows of those, to workers."""
        statuses = self.statuses + np.arange(len(workers))
        for worker in np.unique(workers):
            peer = self.first_worker + int(worker)
            self.socket.send(statuses[workers == worker], wire.HEADER.itemsize, time.monotonic() + 1.0, peer)
        self.departures.occupied(len(workers), self.times[1], now)

    def _reply(self, made: socket.socket) -> bool:
        """Tell a worker who is missing; False when it has left."""
        number = made.fileno()
        try:
            if not (words := made.recv(QUESTION.size - len(self.heard.get(number, b"")))):
                return False
            words = self.heard.pop(number, b"") + words
            if len(words) < QUESTION.size:
                self.heard[number] = words
            else:
                made.sendall(self.merger.missing(*QUESTION.unpack(words)).astype(np.uint8).tobytes())
        except OSError:
            return False
        return True

    def _release(self) -> None:
        """Have every switch free what the job still holds, until all have confirmed or RELEASE_PATIENCE is over."""
        assigned = np.flatnonzero(self.merger.assigned).tolist()
        left = {(rack, index) for rack in self.racks for index in assigned}
        end, wait = time.monotonic() + RELEASE_PATIENCE, RELEASE_WAIT
        data = self.socket.sender.data
        data["kind"], data["flags"], data["epoch"] = wire.KIND_RELEASE, 0, self.epoch
        data["owner"] = wire.owners(self.membership.job, np.zeros(1, np.int64))
        while left and time.monotonic() < end:
            asked = sorted(left, key=lambda where: where[::-1])[:RELEASE_BATCH]  # all racks in turn: the first closes the job there
            data["next_index"][: len(asked)] = [rack for rack, _ in asked]  # which comes back as it is
            data["index"][: len(asked)] = [index for _, index in asked]
            racks = np.array([rack for rack, _ in asked])
            for rack in np.unique(racks):
                self.socket.send(np.flatnonzero(racks == rack), wire.HEADER.itemsize, end, peer=int(rack))
            due = time.monotonic() + wait
            while not left.isdisjoint(asked) and (remaining := due - time.monotonic()) > 0:
                if self.socket.wait(remaining):
                    received = self.socket.receive()
                    packets = received.data[received.lengths >= wire.HEADER.itemsize]
                    packets = packets[(packets["kind"] == wire.KIND_RELEASED) & (packets["epoch"] == self.epoch)]
                    left -= set(zip(packets["next_index"].tolist(), packets["index"].tolist(), strict=True))
            wait = RELEASE_WAIT if left.isdisjoint(asked) else min(2 * wait, 10 * RELEASE_WAIT)

    def close(self) -> None:
        """Close all sockets."""
        for made in self.control.values():
            made.close()
        self.socket.close()
