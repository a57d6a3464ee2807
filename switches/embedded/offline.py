"""The embedded switch without interfaces or root: packets in, packets out, one after the other. For tests and labs."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType

from switches.control import CommandError, ControlError
from switches.embedded.control import Reads

COMMAND, ANSWER, REFUSAL, END = 0xFFF0, 0xFFF1, 0xFFF2, 0xFFF3
HEAD = struct.Struct(">HI")
PIPE = 1 << 12  # bytes that a pipe takes at least, however full the other one is


class OfflineSwitch(Reads):
    """A built program (switches.embedded.build) on virtual ports 0 … ports - 1; it is a switches.control.Control.

    A packet is handled to its end before the next. So that every packet has one, it may cause `most_copies` clones,
    resubmissions and recirculations (default: 4096); those beyond are counted by `show_copies`. `under` is a command that
    runs the executable, which is appended to it.
    """

    def __init__(
        self, executable: Path, ports: int = 8, seed: int = 0, most_copies: int | None = None, under: Sequence[str] = ()
    ) -> None:
        bound = [] if most_copies is None else ["--most-copies", str(most_copies)]
        self.process = subprocess.Popen(
            [*under, executable, "--offline", str(ports), "--seed", str(seed), *bound],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> OfflineSwitch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def batch(self, records: Sequence[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
        """Let many packets (port, bytes) and commands (COMMAND, bytes) arrive at once, in order; what each of them caused.

        That is the (port, packet)s that left, or one (ANSWER or REFUSAL, text).
        """
        assert self.process.stdin
        data = b"".join(HEAD.pack(kind, len(content)) + content for kind, content in records)
        if len(data) <= PIPE:
            self._write(data)
            return [self._result() for _ in records]
        writer = Thread(target=self._write, args=[data])  # the switch stops reading while nobody reads what it writes
        writer.start()
        try:
            return [self._result() for _ in records]
        finally:
            writer.join()

    def _write(self, data: bytes) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the switch has ended, and the reader says so

    def _result(self) -> list[tuple[int, bytes]]:
        assert self.process.stdout
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
        (sent,) = self.batch([(port, packet)])
        return sent

    def command(self, line: str) -> str:
        """Run one command; its output. Raises CommandError if it is refused."""
        (((kind, text),),) = self.batch([(COMMAND, line.encode())])
        if kind == REFUSAL:
            raise CommandError(text.decode())
        return text.decode()

    def close(self) -> None:
        """End the switch."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(timeout=5)
        self.process.stdout.close()
