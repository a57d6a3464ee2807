"""Queue pairs of reliable connections (RC) in real time: a network interface for RDMA, in a thread of its own (adapter.c)."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

from inalab.hosts.cores import ffi, library
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.roce.meeting import Hello, await_ready, exchange, first_psn
from inalab.hosts.roce.settings import SIZES, QueuePairs
from inalab.hosts.roce.wire import UDP_PORT, address
from inalab.hosts.tcp.connection import Meeting, Segments
from inalab.hosts.tcp.kernel import KernelConnection, notice_silence
from inalab.hosts.tcp.meeting import sockets

SO_NO_CHECK = 11
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
CAPABLE = 0b10  # of explicit congestion notification: ECT(0), RFC 3168
SEND_BUFFER = 1 << 15  # bytes of packets in the host's own queue: acknowledgments pass them, other data waits behind them
RECEIVE_BUFFER = 1 << 22
UNSENT = 1 << 16  # bytes that an interface takes from a program and has not sent


class Adapter:
    """A host's interface, for the connections of one meeting."""

    def __init__(self, core: Any, links: Any) -> None:
        self.core, self.links, self.open, self.lock = core, links, set(range(len(links))), threading.Lock()
        self.wake = os.eventfd(0)
        self.thread = threading.Thread(target=self._run, name="rdma", daemon=True)

    def _run(self) -> None:
        library().adapter_run(self.core, self.links, self.wake)

    def left(self, number: int) -> None:
        """One connection is not used any more. With the last one, wait until all has arrived that was handed over, or a while."""
        with self.lock:
            if number not in self.open:
                return
            self.open.remove(number)
            self.links[number].closed = True
            os.eventfd_write(self.wake, 1)
            last = not self.open
        if last:
            self.thread.join()
            os.close(self.wake)


class QueuePair(KernelConnection):
    """One queue pair, by the socket between the program and the interface."""

    def __init__(self, adapter: Adapter, number: int, program: socket.socket, manager: socket.socket) -> None:
        super().__init__(program)
        self.adapter, self.number, self.manager = adapter, number, manager

    def limit_unsent(self, octets: int) -> None:
        """See Connection, as all that follow."""
        self.adapter.links[self.number].unsent = octets
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, octets)

    def notice_silence(self, seconds: float) -> None:
        notice_silence(self.manager, seconds)

    def pace(self, rate: float) -> None:
        """DCQCN does."""

    def segments(self) -> Segments:
        counted = self.adapter.core.pairs[self.number].counters
        return Segments(counted.packets, counted.again, counted.messages_sent + counted.messages_received)

    def close(self) -> None:
        self.socket.close()
        self.adapter.left(self.number)
        if not self.adapter.thread.is_alive():
            self.manager.close()


def carry(driver: Driver, meeting: Meeting, me: int, peers: list[str], pairs: QueuePairs, patience: float) -> Meeting:
    """Carry the bytes of a meeting's connections over queue pairs, but for those on the host itself. Raises MeetingError."""
    managers = {rank: made for rank, made in sockets(meeting).items() if peers[rank] != peers[me]}
    if not (ranks := sorted(managers)):
        return meeting
    its = {rank: meeting.connections[rank] for rank in ranks}
    senders = [_sender(peers[me]) for _ in ranks]
    ports = [sender.getsockname()[1] for sender in senders]
    first = (ports[0] << 8) % (1 << 24)
    core = ffi.gc(library().adapter_new(len(ranks), first, pairs.on(pairs.rates[me], patience)), library().adapter_free)
    mine = {r: Hello(first + i, first_psn(meeting.epoch, me, r), ports[i]) for i, r in enumerate(ranks)}
    receivers: list[socket.socket] = []
    try:
        others = exchange(driver, its, mine, patience)
        receivers += [_receiver(peers[me], (peers[rank], others[rank].port)) for rank in ranks]
        for i, rank in enumerate(ranks):
            ends, other = (address(peers[me]), address(peers[rank])), others[rank]
            used = ports[i], other.port, other.queue_pair, mine[rank].psn, other.psn
            library().adapter_connect(core, i, *ends, *used, time.monotonic())
        await_ready(driver, its, patience)
    except BaseException:
        for made in (*senders, *receivers):
            made.close()
        meeting.close()
        raise
    links, found = ffi.new("AdapterLink[]", len(ranks)), dict(meeting.connections)
    adapter = Adapter(core, links)
    for i, rank in enumerate(ranks):
        program, ours = socket.socketpair()
        program.setblocking(False)
        links[i].program, links[i].manager, links[i].unsent = ours.detach(), managers[rank].fileno(), UNSENT
        links[i].sender, links[i].receiver = senders[i].detach(), receivers[i].detach()
        found[rank] = QueuePair(adapter, i, program, managers[rank])
    adapter.thread.start()
    return Meeting(meeting.epoch, found)


def _sender(own: str) -> socket.socket:
    """Of packets with a source port of their own, as queue pairs have, so that they can be told apart where they arrive."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((own, 0))
    made.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)  # with the identification 0, which their checks cover
    made.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CAPABLE)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    return made


def _receiver(own: str, other: tuple[str, int]) -> socket.socket:
    """Of what comes from there: all queue pairs of a host have one port, and the kernel tells them apart by the other one."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((own, UDP_PORT))
    made.connect(other)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return made


assert SIZES["RC_MESSAGE"] <= UNSENT
