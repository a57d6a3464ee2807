"""Datagrams in batches: recvmmsg and sendmmsg on memory that is allocated once and seen through numpy."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import time

import numpy as np
from numpy.typing import NDArray

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

ADDRESS = np.dtype([("family", "u2"), ("port", ">u2"), ("ip", "u1", 4), ("zero", "u8")])  # struct sockaddr_in

SO_NO_CHECK = 11
UDP_SEGMENT = 103
MAX_SEGMENTS = 64  # datagrams that the kernel cuts one message into, at most
MAX_MESSAGE = 65000  # bytes of such a message, at most
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOCKET_BUFFER = 4 << 20


class Rows:
    """A block of fixed-size datagrams, one a row, with the kernel's view of it."""

    def __init__(self, rows: int, record: np.dtype) -> None:
        self.data = np.zeros(rows, record)
        self.vectors = np.zeros(rows, VECTOR)
        self.messages = np.zeros(rows, MESSAGE)
        self.vectors["base"] = self.data.ctypes.data + np.arange(rows) * record.itemsize
        self.vectors["length"] = record.itemsize
        self.messages["vectors"] = self.vectors.ctypes.data + np.arange(rows) * VECTOR.itemsize
        self.messages["vector_count"] = 1


class BatchSocket:
    """A UDP socket: takes datagrams from `sender` rows, puts received ones into `receiver` rows.

    `record` is the datagram as a numpy type; shorter datagrams leave the rest of their row as it was, and
    `lengths` tells. Up to `segments` datagrams leave as one burst. With one peer, only what it sends is received; with
    several, what anybody sends.
    """

    def __init__(
        self, local: tuple[str, int], peers: list[tuple[str, int]], record: np.dtype, send_rows: int, receive_rows: int,
        segments: int = 1,
    ) -> None:  # fmt: skip
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option, plain in ((SO_SNDBUFFORCE, socket.SO_SNDBUF), (SO_RCVBUFFORCE, socket.SO_RCVBUF)):
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
            except PermissionError:
                self.socket.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BUFFER)
        self.socket.bind(local)
        self._peers = np.zeros(len(peers), ADDRESS)
        self._peers["family"] = socket.AF_INET
        for i, (ip, port) in enumerate(peers):
            self._peers["ip"][i], self._peers["port"][i] = tuple(socket.inet_aton(ip)), port
        if len(peers) == 1:
            self.socket.connect(peers[0])
        self.socket.setblocking(False)
        self.sender = Rows(send_rows, record)
        self.receiver = Rows(receive_rows, record)
        self._outgoing = np.zeros(send_rows, MESSAGE)
        self._segment(segments)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def _segment(self, datagrams: int) -> None:
        """Hand up to so many datagrams to the kernel as one message, which it cuts behind the queueing discipline.

        That saves most of the cost of a datagram. Linux before 6.11 does it only on interfaces that compute checksums;
        `send` falls back to one datagram a message, without checksums, when the kernel refuses.
        """
        self.segments = max(1, min(datagrams, MAX_SEGMENTS, MAX_MESSAGE // self.sender.data.itemsize))
        if self.segments > 1:
            try:
                self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self.sender.data.itemsize)
                return
            except OSError:
                self.segments = 1
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def _without_segments(self) -> None:
        self.segments = 1
        self.socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        """Send these sender rows, in order, to a peer by number; waits while the interface is busy. Returns how many went out.

        `length` shortens the datagrams; sending stops at `give_up_at` (time.monotonic) if the interface stays busy.
        """
        done = 0
        while done < len(rows):
            vectors = self.sender.vectors[rows[done:]]
            if length is not None:
                vectors["length"] = length
            step = self.segments if length is None else 1
            count = -(-len(vectors) // step)
            messages = self._outgoing[:count]
            messages["vectors"] = vectors.ctypes.data + np.arange(count) * (step * VECTOR.itemsize)
            messages["vector_count"] = step
            if len(self._peers) > 1:
                messages["name"] = self._peers.ctypes.data + peer * ADDRESS.itemsize
                messages["name_length"] = ADDRESS.itemsize
            messages["vector_count"][-1] = len(vectors) - (count - 1) * step
            sent = _libc.sendmmsg(self.socket.fileno(), ctypes.c_void_p(messages.ctypes.data), count, 0)
            if sent > 0:
                done += min(sent * step, len(vectors))
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

    def wait(self, seconds: float) -> bool:
        """Wait until something can be received; False after `seconds`."""
        return bool(self._poll.poll(max(0.0, seconds) * 1000))

    def receive(self) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
        """All datagrams that are there, up to a block: a view of the rows and their lengths in bytes."""
        while True:
            pointer = ctypes.c_void_p(self.receiver.messages.ctypes.data)
            n = _libc.recvmmsg(self.socket.fileno(), pointer, len(self.receiver.data), socket.MSG_DONTWAIT, None)
            if n >= 0:
                return self.receiver.data[:n], self.receiver.messages["length"][:n]
            code = ctypes.get_errno()
            if code == errno.EAGAIN:
                return self.receiver.data[:0], self.receiver.messages["length"][:0]
            if code not in (errno.EINTR, errno.ECONNREFUSED):
                raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
