"""The embedded switch without interfaces or root: packets in, packets out, one after the other."""

from __future__ import annotations

import ctypes
import itertools
import os
import select
import struct
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from ..control import CommandError, ControlError
from .control import Reads

COMMAND, ANSWER, REFUSAL, END, CLOCK, NEXT = range(0xFFF0, 0xFFF6)
HEAD = struct.Struct(">HI")
TIME = struct.Struct(">Q")
NEVER = 2**64 - 1
ENDING = 5.0  # seconds
PART = 1 << 16  # bytes that are read or written at once

Record = tuple[int, bytes]


class Batches(Reads):
    """A switch that takes packets (port, bytes) and commands (COMMAND, bytes); it is a switches.control.Control.

    A packet is handled to its end before the next.
    """

    @abstractmethod
    def batch(self, records: Sequence[Record]) -> list[list[Record]]:
        """Let many packets and commands arrive at once, in order; what each of them caused.

        That is the (port, packet)s that left, or one (ANSWER or REFUSAL, text). Raises ControlError if the switch has ended,
        or breaks a bound.
        """

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Let a packet arrive at a port; the (port, packet)s that leave because of it, in order."""
        (sent,) = self.batch([(port, packet)])
        return [record for record in sent if record[0] != NEXT]

    def at(self, now: int, *arriving: Record) -> tuple[list[Record], int | None]:
        """Let the time be `now`, in nanoseconds, from when on it stands still, and packets arrive then at ports.

        The (port, packet)s that leave by then, in order, and when queues with a rate or a delay have something to send next.
        """
        results = self.batch([(CLOCK, TIME.pack(now)), *arriving])
        (due,) = TIME.unpack(results[-1].pop()[1])
        left = [record for result in results for record in result if record[0] != NEXT]
        return left, None if due == NEVER else due

    def command(self, line: str) -> str:
        """Run one command; its output. Raises CommandError if it is refused."""
        ((kind, text), *_), *_ = self.batch([(COMMAND, line.encode())])
        if kind == REFUSAL:
            raise CommandError(text.decode(errors="replace"))
        return text.decode(errors="replace")


class OfflineSwitch(Batches):
    """A built program (switches.embedded.build) on virtual ports 0 … ports - 1.

    So that every packet has an end, it may cause `most_copies` clones,
    resubmissions and recirculations (default: 4096); those beyond are counted by `show_copies`. `under` is a command that
    runs the executable, which is appended to it.

    A program of somebody else's may do anything: it is ended after `patience` seconds without a packet's or command's result,
    and where one has more than `most` bytes. By default neither has a bound.
    """

    def __init__(
        self,
        executable: Path,
        ports: int = 8,
        seed: int = 0,
        most_copies: int | None = None,
        under: Sequence[str] = (),
        patience: float | None = None,
        most: int | None = None,
    ) -> None:
        bound = [] if most_copies is None else ["--most-copies", str(most_copies)]
        self.patience, self.most = patience, most
        self.process = subprocess.Popen(
            [*under, executable, "--offline", str(ports), "--seed", str(seed), *bound],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._input, False)  # the switch stops reading while nothing reads what it writes

    def __enter__(self) -> OfflineSwitch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def batch(self, records: Sequence[Record]) -> list[list[Record]]:
        """See Batches."""
        left = memoryview(b"".join(HEAD.pack(kind, len(content)) + content for kind, content in records))
        results: list[list[Record]] = []
        current: list[Record] = []
        unread, size = bytearray(), 0  # size of the current result
        begun = time.monotonic()
        while len(results) < len(records):
            left = left[self._write(left) :]
            if not self._wait(bool(left), begun):
                continue
            part = os.read(self._output, PART)
            if not part:
                raise self._closed()
            unread += part
            size += len(part)
            done = len(results)
            current = _parsed(unread, results, current)
            if len(results) > done:
                begun, size = time.monotonic(), len(unread)
            elif self.most is not None and size > self.most:
                raise self._ended(f"its answer has more than {self.most} bytes")
        if left or unread or current or len(results) > len(records):
            raise self._ended("it answers what it was not given")
        return results

    def _write(self, data: memoryview) -> int:
        """Write what the switch takes now; how much that was."""
        if not data:
            return 0
        try:
            return os.write(self._input, data[:PART])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # the switch has ended, and the reader says so

    def _wait(self, writing: bool, begun: float) -> bool:
        """Wait until the switch reads or writes; whether it has written."""
        left = None if self.patience is None else begun + self.patience - time.monotonic()
        readable: list[int] = []
        writable: list[int] = []
        if left is None or left > 0:
            readable, writable, _ = select.select([self._output], [self._input] if writing else [], [], left)
        if not readable and not writable:
            raise self._ended(f"it does not answer within {self.patience:g} s")
        return bool(readable)

    def _closed(self) -> ControlError:
        """It has closed its output, as when it ends."""
        try:
            return ControlError(f"the switch ended with exit code {self.process.wait(ENDING)}")
        except subprocess.TimeoutExpired:
            return self._ended("it has closed its output")

    def _ended(self, why: str) -> ControlError:
        """End the switch, because of that."""
        self.process.kill()
        return ControlError(why)

    def close(self) -> None:
        """End the switch."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(ENDING)
        self.process.stdout.close()


loads = itertools.count()


class LoadedSwitch(Batches):
    """A program that is built as a library, in this process. Many may be loaded, each with a state of its own.

    There is no bound to what a packet takes, and an error of the program ends the process.
    """

    def __init__(self, library: Path, ports: Iterable[int] = range(8), seed: int = 0) -> None:
        # what is loaded twice from one file, or under one name, has one state: the path's spelling is the load's number
        copy, number = os.memfd_create(library.name), next(loads)
        os.write(copy, library.read_bytes())
        spelling = "".join("/./" if number >> bit & 1 else "//" for bit in range(24))
        self._library = ctypes.CDLL(f"/proc/self{spelling}fd/{copy}")
        os.close(copy)
        self._batch = self._library.library_batch
        self._batch.restype, self._batch.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
        self._answered = ctypes.c_size_t()
        self._answered_at = ctypes.addressof(self._answered)
        self._library.library_open(ctypes.c_uint64(seed))
        for port in ports:
            self._library.library_add_port(ctypes.c_uint(port))

    def batch(self, records: Sequence[Record]) -> list[list[Record]]:
        """See Batches."""
        data = b"".join([HEAD.pack(kind, len(content)) + content for kind, content in records])
        answers = ctypes.string_at(self._batch(data, len(data), self._answered_at), self._answered.value)
        results, current, at, end = list[list[Record]](), list[Record](), 0, len(answers)
        while at < end:
            number, length = HEAD.unpack_from(answers, at)
            at += HEAD.size
            if number == END:
                results.append(current)
                current = []
            else:
                current.append((number, answers[at : at + length]))
                at += length
        if len(results) < len(records):
            raise ControlError("a packet or a command is longer than a switch takes")
        return results

    def close(self) -> None:
        """Nothing ends: the switch is there for as long as the process."""


def _parsed(unread: bytearray, results: list[list[Record]], current: list[Record]) -> list[Record]:
    """Take whole records from the front of `unread`. They end the `current` result and more; the one that has not ended."""
    at = 0
    while len(unread) - at >= HEAD.size:
        number, length = HEAD.unpack_from(unread, at)
        if len(unread) - at - HEAD.size < length:
            break
        content = bytes(unread[at + HEAD.size : at + HEAD.size + length])
        at += HEAD.size + length
        if number == END:
            results.append(current)
            current = []
        else:
            current.append((number, content))
    del unread[:at]
    return current
