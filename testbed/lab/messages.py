"""What the check and a student's confined process say to each other: messages of plain values, never pickles.

A message is its length (4 bytes, big-endian) and JSON, with bytes and numpy arrays as tagged base64.
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
from typing import Any

import numpy as np

LENGTH = struct.Struct(">I")
MOST = 8 << 20  # bytes of a message, which may become thirty times as many objects of Python


class ClosedError(Exception):
    """The other side has ended."""


class MalformedError(Exception):
    """Not a message."""


def _pack(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        return {
            "$array": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode(),
            "of": value.dtype.str,
            "shape": value.shape,
        }
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"{type(value).__name__} cannot be handed over: only numbers, text, bytes, numpy arrays, lists and dictionaries"
    )


def _unpack(value: dict[str, Any]) -> Any:
    if "$bytes" in value:
        return base64.b64decode(value["$bytes"])
    if "$array" in value:
        kind = np.dtype(value["of"])
        if kind.kind not in "biuf":
            raise MalformedError(f"an array of {kind}")
        return np.frombuffer(base64.b64decode(value["$array"]), kind).reshape(value["shape"]).copy()
    return value


def send(connection: socket.socket, message: Any, seconds: float | None = None) -> None:
    """Send a message. ClosedError or, after so many seconds, TimeoutError if it is not taken; TypeError if it cannot be sent."""
    data = json.dumps(message, default=_pack).encode()
    connection.settimeout(seconds)  # of all of it
    try:
        connection.sendall(LENGTH.pack(len(data)) + data)
    except (BrokenPipeError, ConnectionResetError):
        raise ClosedError from None


def receive(connection: socket.socket, seconds: float | None = None) -> Any:
    """The next message. ClosedError at the end, MalformedError if it is none, TimeoutError after so many seconds."""
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size, deadline))
    if length > MOST:
        raise MalformedError(f"a message of {length} bytes")
    try:
        return json.loads(_exactly(connection, length, deadline), object_hook=_unpack)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(str(error)) from None


def _exactly(connection: socket.socket, length: int, deadline: float | None) -> bytes:
    data = bytearray()
    connection.settimeout(None)
    while len(data) < length:
        if deadline is not None:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            connection.settimeout(left)
        try:
            part = connection.recv(min(length - len(data), 1 << 20))
        except ConnectionResetError:
            part = b""
        if not part:
            raise ClosedError
        data += part
    return bytes(data)
