"""The processes of a running network's nodes, for faults on request (testbed.trial.injection.Processes)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress


class TrialProcesses:
    """`pids_of` has the processes on a node, a worker's and servers'. `restart` begins a worker or a switch again, and `back` has
    the switch admit jobs."""

    def __init__(
        self, pids_of: Callable[[str], list[int]], restart: Callable[[str], None], back: Callable[[str], None]
    ) -> None:  # fmt: skip
        self.pids_of, self.begin, self.back = pids_of, restart, back
        self.requested: set[str] = set()  # nodes whose processes were killed on request

    def kill(self, node: str) -> None:
        """By SIGKILL. What is there no more stays so."""
        self.requested.add(node)
        self._send(node, signal.SIGKILL)

    def stop(self, node: str) -> None:
        """By SIGSTOP."""
        self.requested.add(node)
        self._send(node, signal.SIGSTOP)

    def go_on(self, node: str) -> None:
        """By SIGCONT."""
        self._send(node, signal.SIGCONT)

    def restart(self, node: str) -> None:
        """Kill it, if it is there, and begin another one."""
        self.kill(node)
        self.begin(node)

    def come_back(self, node: str) -> None:
        """A switch that has restarted."""
        self.back(node)

    def _send(self, node: str, number: signal.Signals) -> None:
        for pid in self.pids_of(node):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
