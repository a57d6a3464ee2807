"""A server that is killed on request: the scheme's replica is to take its place."""

from __future__ import annotations

import os
import signal
import time


class ServerKill:
    """Of the process `pid`, at a time `due` of the monotonic clock; `at` is when it really was."""

    def __init__(self, pid: int, due: float) -> None:
        self.pid, self.due, self.at = pid, due, 0.0

    def look(self) -> None:
        """Kill the process if it is time."""
        if not self.at and time.monotonic() >= self.due:
            self.at = time.monotonic()
            os.kill(self.pid, signal.SIGKILL)
