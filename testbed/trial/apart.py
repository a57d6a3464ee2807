"""A trial in a process of its own, which tells what happens, and at last its result."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

from inalab.hosts.messages import Message
from inalab.switches.control import ControlError
from inalab.switches.target import SwitchError
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError


class Apart:
    """A trial in a process that `begin` makes. Whatever ends this process, the trial's ends with it."""

    def __init__(self, begin: Callable[[Callable[[], int]], int], trial: Callable[[Connection], dict[str, Any]]) -> None:
        """`trial` may send messages (hosts.messages), and returns its result."""
        self.receiver, sender = Pipe(duplex=False)
        self._result: dict[str, Any] | None = None
        self._failure = ""
        self._code: int | None = None

        def work() -> int:
            self.receiver.close()
            return _work(trial, sender)

        self._pid = begin(work)
        sender.close()

    def hear(self, report: Callable[[Message], None]) -> bool:
        """Wait for what the trial sends next, and report it if it is a message; False when there is nothing more to come."""
        try:
            received: dict[str, Any] | str | Message = self.receiver.recv()
        except EOFError:
            return False
        if isinstance(received, dict):
            self._result = received
        elif isinstance(received, str):
            self._failure = received
        else:
            report(received)
        return True

    def result(self) -> dict[str, Any]:
        """The result, once there is nothing more to come. Raises TrialError."""
        code = self._wait()
        if self._result is None:
            raise TrialError(self._failure or f"the trial's first process {isolation.ending(code)} and left no result")
        return self._result

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self._code is None:
            with suppress(ProcessLookupError):  # see _wait
                os.kill(self._pid, signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        if self._code is None:
            try:
                self._code = isolation.wait(self._pid)
            except ChildProcessError:  # an interruption has come when it had ended, and before that was noted
                self._code = -signal.SIGKILL
            self.receiver.close()
        return self._code


def followed(trial: Apart, report: Callable[[Message], None]) -> dict[str, Any]:
    """The trial's result. Raises TrialError."""
    try:
        while trial.hear(report):
            pass
        return trial.result()
    finally:
        trial.kill()


def _work(trial: Callable[[Connection], dict[str, Any]], sender: Connection) -> int:
    """The trial's first process. It sends messages, and at last the result, or why there is none."""
    try:
        sender.send(trial(sender))
        return 0
    except (TrialError, NetworkError, SwitchError, ControlError) as error:
        sender.send(str(error))
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        sender.send(f"unexpected {type(error).__name__}: {error}")
    return 1
