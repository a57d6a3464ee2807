"""Cores over sockets, in real time: datagrams in batches, by recvmmsg and sendmmsg (hosts.stream.datagrams is their memory)."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from selectors import DefaultSelector
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.cores import enum, ffi, library, pointer
from inalab.hosts.drivers.driver import Address
from inalab.hosts.drivers.queue_pairs import carry
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.stream.stream import Stream
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.meeting import await_group, meet, reach
from inalab.hosts.tcp.requests import Requested, Requests

SO_NO_CHECK = 11
UDP_SEGMENT = 103
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
MAX_SEGMENTS = 64  # datagrams that the kernel cuts one message into, at most
MAX_MESSAGE = 65000  # bytes of such a message, at most
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOCKET_BUFFER = 4 << 20
DRIVE_INTERRUPTED = enum("driven")["DRIVE_INTERRUPTED"]
NICENESS = 10  # of the thread that computes


def _enlarge(udp: socket.socket) -> None:
    for option, plain in ((SO_SNDBUFFORCE, socket.SO_SNDBUF), (SO_RCVBUFFORCE, socket.SO_RCVBUF)):
        try:
            udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        except PermissionError:
            udp.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BUFFER)


def granted_buffer() -> int:
    """Bytes that a socket of this user holds: SOCKET_BUFFER as root, else at most net.core.rmem_max and wmem_max (socket(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        _enlarge(udp)
        return min(udp.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)) // 2


_open: WeakSet[BatchSocket] = WeakSet()


def _close_all() -> None:
    """In a forked child, whose parent's sockets keep their ports only as long as nobody else has them open."""
    for one in list(_open):
        one.close()


os.register_at_fork(after_in_child=_close_all)


def _drop_what_waits(of: socket.socket) -> None:
    """Discard what has come so far."""
    with suppress(BlockingIOError, ConnectionRefusedError):
        while True:
            of.recv(1, socket.MSG_DONTWAIT)


class BatchSocket:
    """A UDP socket: takes datagrams from `sender` rows, puts received ones of the same type into `receiver` rows.

    Datagrams that are shorter than the type leave the rest of their row as it was, and `lengths` tells. Up to `segments` datagrams
    leave as one burst. Only what a peer sends is received. `unnumbered` datagrams have IP's identification 0, and are not to be
    fragmented: Linux numbers those of sockets that are connected, or leave that to routers.
    """

    def __init__(
        self,
        local: Address,
        peers: list[Address],
        sender: Datagrams,
        receive_rows: int,
        segments: int = 1,
        unnumbered: bool = False,
    ) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _enlarge(self.socket)
        self.socket.bind(local)
        if unnumbered:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        connected = len(peers) == 1 and not unnumbered
        self.socket.setblocking(False)
        if connected:
            self.socket.connect(peers[0])
            _drop_what_waits(self.socket)  # from whomever it came before
        self.sender, self.receiver = sender, Datagrams(receive_rows, sender.record)
        self._lengths = np.zeros(receive_rows, np.uint32)
        self._lengths_pointer = pointer(self._lengths, "uint32_t[]")
        made = library().batch_new(self.socket.fileno(), sender.c, self.receiver.c, sender.record.itemsize)
        self._batch = ffi.gc(made, library().batch_free)
        addresses, ports = b"".join(socket.inet_aton(ip) for ip, _ in peers), [port for _, port in peers]
        library().batch_peers(self._batch, addresses, ports, len(peers), connected)
        self._segment(segments)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self.interrupted = False
        _open.add(self)

    def _segment(self, datagrams: int) -> None:
        """Hand up to so many datagrams to the kernel as one message, which it cuts behind the queueing discipline.

        That saves most of the cost of a datagram. Linux before 6.11 does it only on interfaces that compute checksums;
        `send` falls back to one datagram a message, without checksums, when the kernel refuses.
        """
        self.segments = max(1, min(datagrams, MAX_SEGMENTS, MAX_MESSAGE // self.sender.record.itemsize))
        if self.segments > 1:
            try:
                self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self.sender.record.itemsize)  # if the kernel knows that,
                self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)  # every message says how long its datagrams are
                return
            except OSError:
                self.segments = 1
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def _without_segments(self) -> None:
        self.segments = 1
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def set_urgent(self, urgent: bool) -> None:
        """Let what is sent from now on leave this host before what is not urgent, or no longer."""
        library().batch_set_urgent(self._batch, urgent)

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        """Send these sender rows, in order, to a peer by number; waits while the interface is busy. Returns how many went out.

        All have the same `length`, or each its own; sending stops at `give_up_at` (time.monotonic) if the interface stays busy.
        """
        done, size = 0, length or 0
        rows = np.ascontiguousarray(rows, np.int64)
        while done < len(rows):
            left = pointer(rows[done:], "int64_t[]")
            sent = library().batch_send(self._batch, left, len(rows) - done, size, self.segments, peer)
            if sent >= 0:
                done += sent
                continue
            code = -sent
            if code in (errno.EAGAIN, errno.ENOBUFS):
                if give_up_at is not None and time.monotonic() > give_up_at:
                    break
                select.select([], [self.socket], [], 0.05)
            elif code in (errno.EIO, errno.EINVAL) and self.segments > 1:
                self._without_segments()
            elif code == errno.ERANGE:
                raise IndexError(f"some of rows {rows[done:]} are not there: there are {len(self.sender)}")
            elif code not in (errno.EINTR, errno.ECONNREFUSED):  # the latter is about an earlier datagram
                raise OSError(code, os.strerror(code))
        return done

    def wait(self, seconds: float, interrupt: int = -1) -> bool:
        """Wait until something can be received; False after `seconds`.

        The file descriptor `interrupt` ends it, too, when it is readable; `interrupted` tells whether it is.
        """
        poll = self._poll
        if interrupt != -1:
            poll = select.poll()
            poll.register(self.socket, select.POLLIN)
            poll.register(interrupt, select.POLLIN)
        ready = [number for number, _ in poll.poll(None if seconds == math.inf else max(0.0, seconds) * 1000)]
        self.interrupted = interrupt in ready
        return self.socket.fileno() in ready

    def receive(self) -> Datagrams:
        """All datagrams that are there, up to a block; their memory is used again next time."""
        while True:
            n = library().batch_receive(self._batch, self._lengths_pointer)
            if n >= 0 or n == -errno.EAGAIN:
                return self.receiver.first(max(n, 0), self._lengths[: max(n, 0)])
            if -n not in (errno.EINTR, errno.ECONNREFUSED):
                raise OSError(-n, os.strerror(-n))

    def drive(self, core: Stream, until: float, interrupt: int = -1) -> bool:
        """Let a core go on until it is so late, or there is something else to do (batch.c)."""
        how = library().batch_drive(self._batch, core.stream_pointer, self._lengths_pointer, self.segments, until, interrupt)
        if how < 0:
            raise OSError(-how, os.strerror(-how))
        self.interrupted = how == DRIVE_INTERRUPTED
        return True

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class EventSignal:
    """A hosts.drivers.driver.Signal: an eventfd(2), which is read once for all that has happened since."""

    def __init__(self) -> None:
        self.descriptor, self.happened = os.eventfd(0), 0

    def set(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def take(self) -> None:
        self.happened = (self.happened or os.eventfd_read(self.descriptor)) - 1

    def close(self) -> None:
        os.close(self.descriptor)


def _give_way() -> None:
    """Let this thread compute while no packets are to be handled.

    Workers share the machine's processors, which the hosts that they stand for would not. Without this the workers that have their
    sum first would begin to compute, and hold up the others' last packets.
    """
    os.nice(NICENESS)  # in Linux of this thread alone


class SocketDriver:
    """Real time, and the sockets of the host's kernel: a hosts.drivers.driver.Driver."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    event = threading.Event
    signal = EventSignal
    datagrams = BatchSocket
    selector = DefaultSelector
    meet, reach, await_group = staticmethod(meet), staticmethod(reach), staticmethod(await_group)
    requests = staticmethod(Requests.to)
    requested = staticmethod(Requested.of)

    def nap(self, seconds: float) -> None:
        """See Driver, as all that follow."""
        self.sleep(seconds)

    def start(self, work: Callable[[], object], name: str) -> threading.Event:
        over = threading.Event()

        def whole() -> None:
            try:
                work()
            finally:
                over.set()

        threading.Thread(target=whole, name=name, daemon=True).start()
        return over

    def carry(self, meeting: Meeting, me: int, peers: list[str], pairs: QueuePairs, patience: float) -> Meeting:
        return carry(self, meeting, me, peers, pairs, patience)

    def processor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "compute", _give_way)


SOCKETS = SocketDriver()
