"""A student's Python in processes of its own, confined, as the check sees it: hosts, and functions that can be called."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.lab import messages
from testbed.lab.confinement import confined, place
from testbed.lab.lab import Failure

PATIENCE = 15.0  # seconds that one call may take
MOST_OUTPUT = 4000  # characters that are shown


class StudentModule:
    """A file of the submission, imported. Failure if it cannot be, or a call raises, does not return, or ends the process."""

    def __init__(self, submission: Path, file: str, deadline: float) -> None:
        if not (submission / file).is_file():
            raise Failure(f"there is no {file} in the folder that is checked")
        self.file, self.deadline = file, deadline
        self.written = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        ours, theirs = socket.socketpair()
        command = [*confined(submission), sys.executable, "-m", "testbed.lab.confined_main", place(submission, file)]
        self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=self.written, stderr=self.written)
        theirs.close()
        self.control = ours
        told = self.answer(ours, f"import {file}", PATIENCE)
        self.names = told["names"]

    def connect(self, what: str) -> socket.socket:
        """A socket to a new copy of the process, which has the module's variables as they are after the import."""
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.control, [b"."], [theirs.fileno()])
        except OSError:
            raise Failure(f"{what}: the process that runs {self.file} has ended") from None
        finally:
            theirs.close()
        return ours

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of the module, in a fresh copy of it; what it returns."""
        (result,) = self.call_each(name, [arguments], **named)
        return result

    def call_each(self, name: str, calls: Sequence[Sequence[Any]], **named: Any) -> list[Any]:
        """Call a function with each of these arguments, in one fresh copy of the module; what it returns."""
        if name not in self.names:
            raise Failure(f"{self.file} does not define {name}")
        results = []
        with self.connect(name) as connection:
            for arguments in calls:
                messages.send(connection, {"do": "call", "name": name, "arguments": arguments, "named": named})
                results.append(self.answer(connection, f"{name}()", PATIENCE).get("result"))
        return results

    def answer(self, connection: socket.socket, what: str, patience: float) -> dict[str, Any]:
        """The answer to a message; Failure says what happened instead."""
        connection.settimeout(max(0.01, min(patience, self.deadline - time.monotonic())))
        try:
            answer = messages.receive(connection)
        except TimeoutError:
            if time.monotonic() >= self.deadline:
                raise Failure(f"the task takes too long, at last in {what} of {self.file}") from None
            raise Failure(f"{what} in {self.file} does not return within {patience:g} s: an endless loop?") from None
        except messages.ClosedError:
            raise Failure(f"{what} in {self.file} ended its process: out of memory, out of time, or by a signal") from None
        except messages.MalformedError as error:
            raise Failure(f"{what} in {self.file} wrote to the check's socket: {error}") from None
        if not isinstance(answer, dict):
            raise Failure(f"{what} in {self.file} wrote to the check's socket")
        if "error" in answer:
            raise Failure(f"{what} in {self.file} raised an exception", str(answer["error"])[-MOST_OUTPUT:])
        return answer

    def output(self) -> str:
        """What the student's code has printed so far, the end of it."""
        self.written.seek(0, 2)
        size = self.written.tell()
        self.written.seek(max(0, size - MOST_OUTPUT))
        return self.written.read().decode(errors="replace")

    def close(self) -> None:
        """End all its processes."""
        self.control.close()
        self.process.kill()  # bubblewrap's end is the end of all inside
        self.process.wait()
        with suppress(OSError):
            self.written.close()


def expect_array(value: Any, length: int, kind: str, what: str) -> NDArray[Any]:
    """A value if it is an array of that length, of floats ("f") or of integers ("i"). Failure says what it is instead."""
    if not isinstance(value, np.ndarray):
        raise Failure(f"{what} must return a numpy array, and returns {type(value).__name__}")
    if value.shape != (length,) or value.dtype.kind != kind:
        wanted = {"f": "floats", "i": "integers"}[kind]
        raise Failure(f"{what} must return {length} {wanted}; it returns an array of shape {value.shape} and dtype {value.dtype}")
    return value


class StudentHost:
    """A host on a network, whose class the student wrote; see testbed.lab.host."""

    def __init__(self, module: StudentModule, name: str, label: str) -> None:
        if name not in module.names:
            raise Failure(f"{module.file} does not define the class {name}")
        self.module, self.name, self.label = module, name, label
        self.connection = module.connect(label)
        self._ask("make", 0.0, name=name)

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        """What the host does when the network is up."""
        return self._ask("start", now, named=given)

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        """What the host does when a packet arrives."""
        return self._ask("receive", now, arguments=[packet])

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        """What the host does when a timer has run down."""
        return self._ask("expire", now, arguments=[timer])

    def _ask(self, do: str, now: float, **more: Any) -> list[tuple[str, Any]]:
        what = f"{self.name}.{'__init__' if do == 'make' else do}() of {self.label}"
        try:
            messages.send(self.connection, {"do": do, "now": now, "arguments": [], "named": {}} | more)
        except messages.ClosedError:
            raise Failure(f"{what} in {self.module.file}: its process has ended") from None
        calls = self.module.answer(self.connection, what, PATIENCE).get("calls")
        if not isinstance(calls, list) or not all(isinstance(c, list) and len(c) == 2 for c in calls):
            raise Failure(f"{what} in {self.module.file} wrote to the check's socket")
        return [(str(kind), value) for kind, value in calls]

    def close(self) -> None:
        """End its process."""
        self.connection.close()
