"""A trial in a process of its own, which tells what happens, and at last its result."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

from inalab.hosts.messages import Message
from inalab.switches.control import ControlError
from inalab.switches.target import SwitchError
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError


def apart(
    begin: Callable[[Callable[[], int]], int], trial: Callable[[Connection], dict[str, Any]], report: Callable[[Message], None]
) -> dict[str, Any]:
    """The result of a trial that runs in a process which `begin` makes. `report` gets every message that the trial sends.

    Raises TrialError. Whatever ends this process, the trial's ends with it.
    """
    receiver, sender = Pipe(duplex=False)

    def work() -> int:
        receiver.close()
        return _work(trial, sender)

    result: dict[str, Any] | None = None
    failure = ""
    pid = begin(work)
    try:
        sender.close()
        while True:
            try:
                received: dict[str, Any] | str | Message = receiver.recv()
            except EOFError:
                break
            if isinstance(received, dict):
                result = received
            elif isinstance(received, str):
                failure = received
            else:
                report(received)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = isolation.wait(pid)
        receiver.close()
    if result is None:
        raise TrialError(failure or f"the trial's first process {isolation.ending(code)} and left no result")
    return result


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
