"""The embedded switch without interfaces or root: packets in, packets out, one after the other. For tests and labs."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from types import TracebackType

from switches.control import ControlError
from switches.embedded.control import Reads

COMMAND, ANSWER, REFUSAL, END = 0xFFF0, 0xFFF1, 0xFFF2, 0xFFF3
HEAD = struct.Struct(">HI")


class OfflineSwitch(Reads):
    """A built program (switches.embedded.build) on virtual ports 0 … ports - 1; it is a switches.control.Control."""

    def __init__(self, executable: Path, ports: int = 8, seed: int = 0) -> None:
        self.process = subprocess.Popen(
            [executable, "--offline", str(ports), "--seed", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> OfflineSwitch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _exchange(self, kind: int, data: bytes) -> list[tuple[int, bytes]]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(HEAD.pack(kind, len(data)) + data)
        self.process.stdin.flush()
        records: list[tuple[int, bytes]] = []
        while True:
            head = self.process.stdout.read(HEAD.size)
            if len(head) < HEAD.size:
                raise ControlError(f"the switch ended with exit code {self.process.wait()}")
            number, length = HEAD.unpack(head)
            if number == END:
                return records
            records.append((number, self.process.stdout.read(length)))

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Let a packet arrive at a port; the (port, packet)s that leave because of it, in order."""
        return self._exchange(port, packet)

    def command(self, line: str) -> str:
        """Run one command; its output. Raises ControlError if it is refused."""
        ((kind, text),) = self._exchange(COMMAND, line.encode())
        if kind == REFUSAL:
            raise ControlError(text.decode())
        return text.decode()

    def close(self) -> None:
        """End the switch."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=5)
        self.process.stdout.close()
