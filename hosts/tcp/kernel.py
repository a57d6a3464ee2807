"""TCP and the kernel: its connections, when it ends silent ones, and what it tells of segments sent (struct tcp_info)."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from inalab.hosts.tcp.connection import Segments

CUBIC = b"cubic"
SO_MAX_PACING_RATE = 47  # of <asm-generic/socket.h>
UNLIMITED = (1 << 8 * struct.calcsize("@L")) - 1
TCP_NOTSENT_LOWAT = 25  # of <linux/tcp.h>
U32, I32 = struct.Struct("=I"), struct.Struct("=i")
TOTAL_RETRANSMISSIONS, SEGMENTS_OUT, SEGMENTS_IN = 100, 136, 140  # offsets in struct tcp_info


class KernelConnection:
    """A hosts.tcp.connection.Connection, if its socket does not block."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def send(self, parts: Sequence[memoryview | bytes]) -> int:
        """See Connection, as all that follow."""
        return self.socket.sendmsg(parts)

    def receive(self, into: memoryview) -> int:
        return self.socket.recv_into(into)

    def unread(self) -> int:
        return I32.unpack(fcntl.ioctl(self.socket, termios.FIONREAD, bytes(I32.size)))[0]  # type: ignore[no-any-return]

    def finish(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def limit_unsent(self, octets: int) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, octets)

    def notice_silence(self, seconds: float) -> None:
        notice_silence(self.socket, seconds)

    def pace(self, rate: float) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("@L", int(rate) or UNLIMITED))

    def segments(self) -> Segments:
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SEGMENTS_IN + U32.size)
        sent, came, again = (U32.unpack_from(info, at)[0] for at in (SEGMENTS_OUT, SEGMENTS_IN, TOTAL_RETRANSMISSIONS))
        return Segments(sent, again, sent + came)

    def close(self) -> None:
        self.socket.close()


def notice_silence(made: socket.socket, seconds: float) -> None:
    """Have the kernel end a TCP connection when its other end has not answered for so many seconds, at least about three.

    A process that is only busy loses nothing: its kernel answers for it.
    """
    idle, interval = max(1, int(seconds / 3)), max(1, int(seconds / 6))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, max(1, int((seconds - idle) / interval)))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def control_congestion(made: socket.socket) -> None:
    """Have CUBIC control a connection's congestion (RFC 9438): Linux's default, and not what this machine's happens to be.

    BBR's rate is what a connection had while all shared the link, so one that then has it alone leaves most of it idle. Where the
    kernel has no CUBIC its own default stays.
    """
    with suppress(OSError):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CUBIC)


def connections_from(address: str) -> list[KernelConnection]:
    """Duplicates of this process's TCP connections whose own end is at `address`; to be closed."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(Path("/proc/self/fd") / name).startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
            if _is_connected_from(connection, address):
                found.append(KernelConnection(connection))
            else:
                connection.close()
    return found


def _is_connected_from(connection: socket.socket, address: str) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    try:
        connection.getpeername()
    except OSError:
        return False
    return str(connection.getsockname()[0]).removeprefix("::ffff:") == address
