"""Commands to a running embedded switch over its Unix socket."""

from __future__ import annotations

import re
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ..control import CommandError, ControlError


class Reads(ABC):
    """The state that switches.control.Control tells of, read by the commands of the embedded switch."""

    @abstractmethod
    def command(self, line: str) -> str:
        """Run one command; see Control."""

    def register(self, name: str, cell: int) -> int:
        """One cell of a register."""
        return int(self.command(f"register_read {name} {cell}").rpartition("=")[2])

    def registers(self, name: str) -> list[int]:
        """All cells of a register."""
        return [int(word) for word in self.command(f"register_read {name}").rpartition("=")[2].split(",")]

    def counter(self, name: str, cell: int) -> int:
        """Packets counted in one cell of a counter."""
        found = re.search(r"packets=(\d+)", self.command(f"counter_read {name} {cell}"))
        assert found
        return int(found[1])

    def pauses(self) -> int:
        """How often its gate was closed."""
        found = re.search(r"pauses=(\d+)", self.command("show_last"))
        assert found
        return int(found[1])

    def ports(self) -> dict[int, dict[str, int]]:
        """What each port counted: received, sent, queue_drops, send_errors, ring_drops, oversize."""
        table = {}
        for line in self.command("show_ports").splitlines():
            fields = dict(word.split("=", 1) for word in line.split())
            table[int(fields.pop("port"))] = {k: int(v) for k, v in fields.items() if k != "interface"}
        return table


class SocketControl(Reads):
    """See switches.control.Control."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        self.path, self.timeout = path, timeout
        self.lost = False  # an answer may still be under way, which would be taken for the next command's
        self._connect()

    def _connect(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(self.timeout)
        try:
            self.socket.connect(str(self.path))
        except OSError as error:
            self.socket.close()
            raise ControlError(f"no switch answers at {self.path}: {error.strerror or error}") from None
        self.stream = self.socket.makefile("rwb")
        self.lost = False

    def __enter__(self) -> SocketControl:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def command(self, line: str) -> str:
        """Run one command; see Control."""
        if "\n" in line.strip():
            raise CommandError("a command is one line")
        if self.lost:
            self._connect()
        try:
            self.stream.write(line.strip().encode() + b"\n")
            self.stream.flush()
            head = self.stream.readline().split()
            text = self.stream.read(int(head[1])).decode() if len(head) == 2 else ""
        except OSError as error:
            self._lose()
            raise ControlError(f"the switch at {self.path} does not answer: {error}") from None
        if len(head) != 2:
            self._lose()
            raise ControlError(f"the switch at {self.path} closed the connection")
        if head[0] != b"ok":
            raise CommandError(text)
        return text

    def _lose(self) -> None:
        self.lost = True
        with suppress(OSError):
            self.close()

    def close(self) -> None:
        """Close the connection; the switch goes on."""
        self.stream.close()
        self.socket.close()
