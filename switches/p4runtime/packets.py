"""Packet-in and packet-out: metadata in messages, and headers before the packet on the controller's port (section 16.1)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from p4.v1 import p4runtime_pb2

from .bytestrings import decode, encode
from .errors import P4RuntimeError, invalid
from .pipeline import require

MOST_BYTES = 10240  # that the switch takes (runtime/program.h)
UNAVAILABLE = 14  # google.rpc.code_pb2.UNAVAILABLE
AGAIN_SECONDS = 0.2  # until a connection that was lost is tried again


def packet_out(header: Any, message: Any) -> bytes:
    """The bytes that enter the switch: the fields of the header, then the payload. Raises P4RuntimeError."""
    given = {one.metadata_id: one.value for one in message.metadata}
    require(len(given) == len(message.metadata), "a packet-out has a metadata field twice")
    value = bits = 0
    for f in header.metadata if header is not None else ():
        if f.id not in given:
            raise invalid(f"a packet-out needs metadata {f.name} (id {f.id})")
        value = value << f.bitwidth | decode(given.pop(f.id), f.bitwidth, f"metadata {f.name}")
        bits += f.bitwidth
    require(not given, f"a packet-out has no metadata {next(iter(given), '')}")
    data = value.to_bytes((bits + 7) // 8, "big") + bytes(message.payload)
    require(0 < len(data) <= MOST_BYTES, f"a packet has 1 to {MOST_BYTES} bytes with its metadata, and this one {len(data)}")
    return data


def packet_in(header: Any, data: bytes) -> Any:
    """The message for a packet that the switch sent to the controller; None if it is shorter than its header."""
    bits = sum(f.bitwidth for f in header.metadata) if header is not None else 0
    size = (bits + 7) // 8
    if len(data) < size:
        return None
    made = p4runtime_pb2.PacketIn(payload=data[size:])
    value, rest = int.from_bytes(data[:size], "big"), bits
    for f in header.metadata if header is not None else ():
        rest -= f.bitwidth
        made.metadata.add(metadata_id=f.id, value=encode(value >> rest & (1 << f.bitwidth) - 1))
    return made


class ControllerPort:
    """The socket of the switch's port to the controller; `received` is called with each packet, in a thread of its own.

    The switch serves only the newest connection. A lost connection is made again.
    """

    def __init__(self, path: Path, received: Callable[[bytes], None]) -> None:
        self.path, self.received = path, received
        self.closed = Event()
        self.socket = self._connect()
        self.thread = Thread(target=self._receive, daemon=True)
        self.thread.start()

    def _connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            made.connect(str(self.path))
        except OSError as error:
            made.close()
            raise OSError(f"no switch has a port to a controller at {self.path}: {error.strerror}") from None
        return made

    def _receive(self) -> None:
        while not self.closed.is_set():
            with suppress(OSError):
                while data := self.socket.recv(MOST_BYTES + 1):
                    self.received(data)
            if self.closed.wait(AGAIN_SECONDS):
                return
            with suppress(OSError):
                again = self._connect()
                self.socket.close()
                self.socket = again

    def send(self, data: bytes) -> None:
        """Send a packet into the switch. Raises P4RuntimeError."""
        try:
            self.socket.send(data)
        except OSError as error:
            raise P4RuntimeError(UNAVAILABLE, f"the switch takes no packet: {error.strerror}") from None

    def close(self) -> None:
        """End the connection, and the thread."""
        self.closed.set()
        with suppress(OSError):  # the switch may have ended
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()
