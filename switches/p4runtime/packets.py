"""Packet-in and packet-out: metadata in messages, and headers before the packet on the controller's port (section 16.1)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from p4.v1 import p4runtime_pb2

from switches.p4runtime.bytestrings import decode, encode
from switches.p4runtime.errors import P4RuntimeError, invalid
from switches.p4runtime.pipeline import require

LONGEST = 1 << 16


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
    return value.to_bytes((bits + 7) // 8, "big") + bytes(message.payload)


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
    """The socket of the switch's port to the controller; `received` is called with each packet, in a thread of its own."""

    def __init__(self, path: Path, received: Callable[[bytes], None]) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(path))
        self.received = received
        self.thread = Thread(target=self._receive, daemon=True)
        self.thread.start()

    def _receive(self) -> None:
        try:
            while data := self.socket.recv(LONGEST):
                self.received(data)
        except OSError:
            pass  # closed

    def send(self, data: bytes) -> None:
        """Send a packet into the switch. Raises P4RuntimeError."""
        try:
            self.socket.send(data)
        except OSError as error:
            raise P4RuntimeError(14, f"the switch takes no packet: {error.strerror}") from None  # UNAVAILABLE

    def close(self) -> None:
        """End the connection, and the thread."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the switch has ended
        self.thread.join()
        self.socket.close()
