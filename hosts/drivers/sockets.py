"""Cores over sockets, in real time: datagrams in batches, by recvmmsg and sendmmsg (hosts.stream.datagrams is their memory)."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from selectors import DefaultSelector

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.hosts.drivers.driver import Address
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.stream.octets import offset
from inalab.hosts.tcp.meeting import await_group, meet, reach
from inalab.hosts.tcp.requests import Requested, Requests

_libc = ctypes.CDLL(None, use_errno=True)

# struct mmsghdr and struct iovec of 64-bit Linux
MESSAGE = np.dtype(
    {
        "names": ["name", "name_length", "vectors", "vector_count", "control", "control_length", "flags", "length"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
VECTOR = np.dtype([("base", "u8"), ("length", "u8")])
VECTORS, VECTOR_COUNT = (offset(MESSAGE, name) // 8 for name in ("vectors", "vector_count"))  # words of a message
VECTOR_BYTES = VECTOR.itemsize

ADDRESS = np.dtype([("family", "u2"), ("port", ">u2"), ("ip", "u1", 4), ("zero", "u8")])  # struct sockaddr_in

SO_NO_CHECK = 11
UDP_SEGMENT = 103
MAX_SEGMENTS = 64  # datagrams that the kernel cuts one message into, at most
MAX_MESSAGE = 65000  # bytes of such a message, at most
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOCKET_BUFFER = 4 << 20
NICENESS = 10  # of the thread that computes
INTERACTIVE = 6  # TC_PRIO_INTERACTIVE of linux/pkt_sched.h


@compiled("i8(i8[::1], i8, i8, i8, i8, i8, i8, i8[:, ::1], i8[:, ::1])")
def gather(
    rows: NDArray[np.intp], present: int, base: int, stride: int, length: int, step: int, address: int, vectors: NDArray[np.int64],
    messages: NDArray[np.int64],
) -> int:  # fmt: skip
    """Let messages carry these of the rows present, `length` bytes of each and `step` rows a message.

    Rows are `stride` bytes apart, from `base` on. `vectors` are at `address`. Returns how many messages there are; -1 if one
    of the rows is not present.
    """
    count = 0
    for i in range(len(rows)):
        if not 0 <= rows[i] < present:
            return -1
        vectors[i, 0] = base + rows[i] * stride
        vectors[i, 1] = length
        if i % step == 0:
            messages[count, VECTORS] = address + i * VECTOR_BYTES
            messages[count, VECTOR_COUNT] = 0
            count += 1
        messages[count - 1, VECTOR_COUNT] += 1
    return count


@compiled("b1[::1](u8[:], u8[::1])")
def known(sources: NDArray[np.uint64], peers: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of these endpoints are peers'."""
    found = np.zeros(len(sources), np.bool_)
    for i in range(len(sources)):
        for peer in peers:
            found[i] |= sources[i] == peer
    return found


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


class BatchSocket:
    """A UDP socket: takes datagrams from `sender` rows, puts received ones of the same type into `receiver` rows.

    Datagrams that are shorter than the type leave the rest of their row as it was, and `lengths` tells. Up to `segments` datagrams
    leave as one burst. Only what a peer sends is received.
    """

    def __init__(self, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int, segments: int = 1) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _enlarge(self.socket)
        self.socket.bind(local)
        self._peers = np.zeros(len(peers), ADDRESS)
        self._peers["family"] = socket.AF_INET
        for i, (ip, port) in enumerate(peers):
            self._peers["ip"][i], self._peers["port"][i] = tuple(socket.inet_aton(ip)), port
        self._known = np.ascontiguousarray(_endpoints(self._peers))
        if len(peers) == 1:
            self.socket.connect(peers[0])
        self.socket.setblocking(False)
        send_rows, record = len(sender), sender.record
        self.sender, self.receiver = sender, Datagrams(receive_rows, record)
        self._sends_from = self.sender.base
        self._incoming, self._into = np.zeros(receive_rows, MESSAGE), np.zeros(receive_rows, VECTOR)
        self._into["base"] = self.receiver.base + np.arange(receive_rows) * self.receiver.stride
        self._into["length"] = record.itemsize
        self._incoming["vectors"] = self._into.ctypes.data + np.arange(receive_rows) * VECTOR_BYTES
        self._incoming["vector_count"] = 1
        self._sources = np.zeros(receive_rows, ADDRESS)
        if len(peers) > 1:
            self._incoming["name"] = self._sources.ctypes.data + np.arange(receive_rows) * ADDRESS.itemsize
        self._outgoing, self._vectors = np.zeros(send_rows, MESSAGE), np.zeros(send_rows, VECTOR)
        self._gathered = (self._vectors.ctypes.data, self._vectors.view("2i8"), self._outgoing.view("8i8"))
        self._outgoing_at = ctypes.c_void_p(self._outgoing.ctypes.data)
        self._incoming_at = ctypes.c_void_p(self._incoming.ctypes.data)
        self._segment(segments)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self.interrupted = False

    def _segment(self, datagrams: int) -> None:
        """Hand up to so many datagrams to the kernel as one message, which it cuts behind the queueing discipline.

        That saves most of the cost of a datagram. Linux before 6.11 does it only on interfaces that compute checksums;
        `send` falls back to one datagram a message, without checksums, when the kernel refuses.
        """
        self.segments = max(1, min(datagrams, MAX_SEGMENTS, MAX_MESSAGE // self.sender.record.itemsize))
        if self.segments > 1:
            try:
                self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self.sender.record.itemsize)
                return
            except OSError:
                self.segments = 1
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def _without_segments(self) -> None:
        self.segments = 1
        self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def set_urgent(self, urgent: bool) -> None:
        """Let what is sent from now on leave this host before what is not urgent, or no longer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, INTERACTIVE if urgent else 0)

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        """Send these sender rows, in order, to a peer by number; waits while the interface is busy. Returns how many went out.

        `length` shortens the datagrams; sending stops at `give_up_at` (time.monotonic) if the interface stays busy.
        """
        done = 0
        while done < len(rows):
            block = rows[done : done + len(self._vectors)]
            step = self.segments if length is None else 1
            present, stride = len(self.sender), self.sender.stride
            size = length or self.sender.record.itemsize
            count = gather(block, present, self._sends_from, stride, size, step, *self._gathered)
            if count < 0:
                raise IndexError(f"some of rows {block} are not there: there are {present}")
            if len(self._peers) > 1:
                messages = self._outgoing[:count]
                messages["name"] = self._peers.ctypes.data + peer * ADDRESS.itemsize
                messages["name_length"] = ADDRESS.itemsize
            sent = _libc.sendmmsg(self.socket.fileno(), self._outgoing_at, count, 0)
            if sent > 0:
                done += min(sent * step, len(block))
                continue
            code = ctypes.get_errno()
            if code in (errno.EAGAIN, errno.ENOBUFS):
                if give_up_at is not None and time.monotonic() > give_up_at:
                    break
                select.select([], [self.socket], [], 0.05)
            elif code in (errno.EIO, errno.EINVAL) and self.segments > 1:
                self._without_segments()
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
            if len(self._peers) > 1:
                self._incoming["name_length"] = ADDRESS.itemsize
            n = _libc.recvmmsg(self.socket.fileno(), self._incoming_at, len(self.receiver), socket.MSG_DONTWAIT, None)
            if n >= 0:
                return self._of_peers(n)
            code = ctypes.get_errno()
            if code == errno.EAGAIN:
                return self.receiver.first(0, self._incoming["length"][:0])
            if code not in (errno.EINTR, errno.ECONNREFUSED):
                raise OSError(code, os.strerror(code))

    def _of_peers(self, n: int) -> Datagrams:
        """The first n received rows without what came from strangers."""
        lengths = self._incoming["length"]
        cut = self._incoming["flags"][:n] & socket.MSG_TRUNC > 0
        if cut.any():
            lengths[:n][cut] = 0  # longer than any packet: nothing that is known
        if len(self._peers) > 1:  # else the kernel has looked
            of_peers = known(_endpoints(self._sources[:n]), self._known)
            if not of_peers.all():
                octets = self.receiver.octets
                m = int(of_peers.sum())
                octets[:m], lengths[:m] = octets[:n][of_peers], lengths[:n][of_peers]
                n = m
        return self.receiver.first(n, lengths[:n])

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _endpoints(addresses: NDArray[np.void]) -> NDArray[np.uint64]:
    """Family, port and IP of addresses, as one number each."""
    return addresses.view(np.uint64).reshape(-1, 2)[:, 0]


class EventSignal:
    """A hosts.drivers.driver.Signal: an eventfd(2)."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_SEMAPHORE)

    def set(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def take(self) -> None:
        os.eventfd_read(self.descriptor)

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

    def processor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "compute", _give_way)


SOCKETS = SocketDriver()
