"""ATP's parameter server: merges what arrives, answers all workers by way of the switches, and lets aggregators go at the end."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hosts.atp import wire
from hosts.atp.merger import Merger
from hosts.atp.tree import Tree
from hosts.atp.worker import CONTROL_PORT, QUESTION
from hosts.collective import AggregationError, Membership, node_name
from hosts.stream.datagrams import BatchSocket
from hosts.tcp.meeting import Meeting, MeetingError, await_group

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
        window: int, k: int, aggregators: int,
    ) -> None:  # fmt: skip
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
        self.membership, self.tree = m, tree
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
        """Take in the packets that are there; results go to everybody, repetitions and statuses to those who ask.

        What somebody waits for, since a packet of the chunk or its result was lost, leaves this host before what does not.
        """
        taken = self.merger.take(self.socket.receive(), self.socket.sender.octets[self.statuses :])
        late = self.merger.results["flags"][taken.finished] & wire.RESEND > 0
        if not late.all():
            self._send(taken.finished[~late], self.own_switch)
        if len(taken.asked):
            self._send_each(taken.asked[:, 0], self.first_worker + taken.asked[:, 1])
        if late.any() or len(taken.ready) or len(taken.asking):
            self.socket.set_urgent(True)
            try:
                if late.any():
                    self._send(taken.finished[late], self.own_switch)
                row, worker, rack = taken.ready.T
                self._send_each(row, np.where(worker >= 0, self.first_worker + worker, np.where(rack >= 0, rack, self.own_switch)))
                statuses = self.statuses + np.arange(len(taken.asking))
                self._send_each(statuses, self.first_worker + taken.asking, wire.HEADER.itemsize)
            finally:
                self.socket.set_urgent(False)

    def _send_each(self, rows: NDArray[np.int64], peers: NDArray[np.int64], length: int | None = None) -> None:
        """Send each row to a peer of its own."""
        for peer in np.unique(peers):
            self._send(rows[peers == peer], int(peer), length)

    def _send(self, rows: NDArray[np.int64], peer: int, length: int | None = None) -> None:
        self.socket.send(rows, length, give_up_at=time.monotonic() + 1.0, peer=peer)

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
