"""A student's Python in processes of its own, confined, as the check sees it: hosts, and functions that can be called."""

from __future__ import annotations

import functools
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.testbed.lab import messages
from inalab.testbed.lab.confinement import confined, place, python
from inalab.testbed.lab.lab import Failure

PATIENCE = 15.0  # seconds that one call may take
MOST_OUTPUT = 4000  # characters that are shown


class StudentModule:
    """A file of the submission, imported in a confined process, of which each call or host gets a copy.

    Failure if it cannot be imported, or a call raises, does not return, or ends the process.
    """

    def __init__(self, submission: Path, file: str, deadline: float) -> None:
        if not (submission / file).is_file():
            raise Failure(f"there is no {file} in the folder that is checked")
        self.file, self.deadline = file, deadline
        self.written = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self.control, theirs = socket.socketpair()
        command = [*confined(submission), *python("inalab.testbed.lab.confined_main", place(submission, file))]
        self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=self.written, stderr=self.written)
        theirs.close()

    @functools.cached_property
    def names(self) -> list[str]:
        """What the file defines; the first to ask waits for the import, so that several files are imported at once."""
        names = self.answer(self.control, f"import {self.file}").get("names")
        if not isinstance(names, list):
            raise Failure(f"import {self.file} wrote to the check's socket")
        return names

    def connect(self, what: str) -> socket.socket:
        """A socket to a new copy of the process, which has the module's variables as they are after the import."""
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.control, [b"."], [theirs.fileno()])
        except OSError:
            assert self.names is not None  # else the import says why
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
        with self.connect(name) as connection:
            return [
                self.ask(connection, f"{name}()", do="call", name=name, arguments=arguments, named=named).get("result")
                for arguments in calls
            ]

    def ask(self, connection: socket.socket, what: str, **message: Any) -> dict[str, Any]:
        """The answer to a message; Failure says what happened instead."""
        try:
            messages.send(connection, message, self._patience(what))
        except messages.ClosedError:
            raise self._ended(what) from None
        except TimeoutError:
            raise self._late(what) from None
        return self.answer(connection, what)

    def answer(self, connection: socket.socket, what: str) -> dict[str, Any]:
        """The next answer; Failure says what happened instead."""
        try:
            answer = messages.receive(connection, self._patience(what))
        except TimeoutError:
            raise self._late(what) from None
        except messages.ClosedError:
            raise self._ended(what) from None
        except messages.MalformedError as error:
            raise Failure(f"{what} in {self.file} wrote to the check's socket: {error}") from None
        if not isinstance(answer, dict):
            raise Failure(f"{what} in {self.file} wrote to the check's socket")
        if "error" in answer:
            raise Failure(f"{what} in {self.file} raised an exception", str(answer["error"])[-MOST_OUTPUT:])
        return answer

    def _patience(self, what: str) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failure(f"the task takes too long, at last in {what} of {self.file}")
        return min(PATIENCE, left)

    def _late(self, what: str) -> Failure:
        self._patience(what)
        return Failure(f"{what} in {self.file} does not return within {PATIENCE:g} s: an endless loop?")

    def _ended(self, what: str) -> Failure:
        return Failure(f"{what} in {self.file} ended its process: out of memory, out of time, or by a signal")

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
    """A host on a network, whose class the student wrote; see testbed.lab.host. It shares nothing with another but the links."""

    def __init__(self, module: StudentModule, name: str, label: str) -> None:
        self.module, self.name, self.label = module, name, label
        self.connection = module.connect(label)

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        """What the host does when the network is up."""
        if self.name not in self.module.names:
            raise Failure(f"{self.module.file} does not define the class {self.name}")
        self._ask("make", 0.0, name=self.name)
        return self._ask("start", now, named=given)

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        """What the host does when a packet arrives."""
        return self._ask("receive", now, arguments=[packet])

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        """What the host does when a timer has run down."""
        return self._ask("expire", now, arguments=[timer])

    def _ask(self, do: str, now: float, **more: Any) -> list[tuple[str, Any]]:
        what = f"{self.name}.{'__init__' if do == 'make' else do}() of {self.label}"
        calls = self.module.ask(self.connection, what, **{"do": do, "now": now, "arguments": [], "named": {}} | more).get("calls")
        if not isinstance(calls, list) or not all(isinstance(c, list) and len(c) == 2 for c in calls):
            raise Failure(f"{what} in {self.module.file} wrote to the check's socket")
        return [(str(kind), value) for kind, value in calls]

    def close(self) -> None:
        """End its process."""
        self.connection.close()
