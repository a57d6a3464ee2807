"""ATP's parameter server: merges what arrives, answers all workers by way of the switches, and lets aggregators go at the end."""

from __future__ import annotations

import select
import socket
import time

import numpy as np
from numpy.typing import NDArray

from hosts.atp import wire
from hosts.atp.merger import Merger
from hosts.atp.tree import Tree
from hosts.atp.worker import CONTROL_PORT, QUESTION
from hosts.collective import AggregationError, Membership, node_name
from hosts.datagrams import BatchSocket
from hosts.meeting import MeetingError, meet

NAP = 0.001  # seconds that packets may wait to be handled in one batch
RELEASE_BATCH = 64  # packets that are confirmed before more are sent
RELEASE_WAIT = 0.05  # seconds for the confirmations, at first
RELEASE_PATIENCE = 8.0


class AtpServer:
    """One parameter server of a job; its rank is one after the workers'.

    `switches` are the addresses of the racks' switches, the rest is as for hosts.atp.worker.AtpWorker. Raises AggregationError
    if a worker does not connect within `patience` seconds.
    """

    def __init__(
        self, membership: Membership, peers: list[str], control: list[str], server_racks: list[int], switches: list[str],
        window: int, k: int, aggregators: int, patience: float = 30.0,
    ) -> None:  # fmt: skip
        m = membership
        rack = server_racks[m.rank - m.size]
        tree = Tree(m, rack)
        self.racks = sorted({rack, *(r for r, ranks in enumerate(m.racks) if ranks)})  # whose switches hold aggregators of ours
        self.own_switch, self.first_worker = rack, len(switches)  # among the socket's peers
        addresses = [(ip, wire.UDP_PORT) for ip in [*switches, *peers[: m.size]]]
        rows = max(2 * window, RELEASE_BATCH)
        self.socket = BatchSocket(
            (peers[m.rank], wire.UDP_PORT), addresses, wire.packet(k), rows, 4 * window + 64, max(1, window // 16)
        )
        share = (m.rank - m.size, len(server_racks))
        self.merger = Merger(m.job, tree, self.socket.sender.data[: 2 * window], aggregators, share)
        self.membership = m
        self.heard: dict[int, bytes] = {}  # the beginnings of questions
        try:
            self.control = meet(m.rank, range(m.size), control, CONTROL_PORT, patience)
        except MeetingError as error:
            raise AggregationError(f"{node_name(m.rank, m.size)}: {node_name(error.rank, m.size)} {error.what}") from None

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
        """Take in the packets that are there; results go to everybody, repetitions to those who ask."""
        packets, lengths = self.socket.receive()
        good = (lengths == self.socket.sender.data.itemsize) & np.isin(packets["kind"], (wire.KIND_GRADIENT, wire.KIND_RAW))
        finished, asked = self.merger.take(packets[good])
        if len(finished):
            self._send(finished, self.own_switch)
        for worker in sorted({worker for _, worker in asked}):
            self._send(np.array(sorted({row for row, who in asked if who == worker})), self.first_worker + worker)

    def _send(self, rows: NDArray[np.int64], peer: int) -> None:
        self.socket.send(rows, give_up_at=time.monotonic() + 1.0, peer=peer)

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
        left = {(rack, index) for rack in self.racks for index in self.merger.assigned}
        end, wait = time.monotonic() + RELEASE_PATIENCE, RELEASE_WAIT
        data = self.socket.sender.data
        data["kind"], data["flags"] = wire.KIND_RELEASE, 0
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
                    packets, _ = self.socket.receive()
                    packets = packets[packets["kind"] == wire.KIND_RELEASED]
                    left -= set(zip(packets["next_index"].tolist(), packets["index"].tolist(), strict=True))
            wait = RELEASE_WAIT if left.isdisjoint(asked) else min(2 * wait, 10 * RELEASE_WAIT)

    def close(self) -> None:
        """Close all sockets."""
        for made in self.control.values():
            made.close()
        self.socket.close()
