"""The processes of a running network's nodes, for faults on request (testbed.trial.injection.Nodes)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from inalab.topologies.plan import LinkPlan

if TYPE_CHECKING:  # in virtual time there is no Mininet
    from inalab.topologies.network import Network


class TrialProcesses:
    """`pids_of` has the processes on a node, a worker's and servers'. `restart` begins a worker or a switch again, `back` has the
    switch admit jobs, and `die` ends one for good."""

    def __init__(
        self, pids_of: Callable[[str], list[int]], restart: Callable[[str], None], back: Callable[[str], None],
        die: Callable[[str], None], network: Callable[[], Network],
    ) -> None:  # fmt: skip
        self.network = network
        self.pids_of, self.begin, self.back, self.die = pids_of, restart, back, die
        self.requested: set[str] = set()  # nodes whose processes were killed on request,
        self.dead: set[str] = set()  # and those that did not begin again

    def asked(self, node: str) -> bool:
        """Whether the death of its process, which has ended now, was requested. The next one's is not."""
        found = node in self.requested
        self.requested.discard(node)
        return found

    def kill(self, node: str) -> None:
        """By SIGKILL. What is there no more stays so."""
        if node in self.network().plan.switches:
            self.die(node)
            return
        if self.pids_of(node):  # otherwise the next death of its processes would count as requested
            self.requested.add(node)
        self.dead.add(node)
        self._send(node, signal.SIGKILL)

    def stop(self, node: str) -> None:
        """By SIGSTOP."""
        self.requested.add(node)
        self._send(node, signal.SIGSTOP)

    def go_on(self, node: str) -> None:
        """By SIGCONT."""
        self.requested.discard(node)
        self._send(node, signal.SIGCONT)

    def restart(self, node: str) -> None:
        """Kill it, if it is there, and begin another one."""
        if node not in self.network().plan.switches:
            self.kill(node)
            self.dead.discard(node)
        self.begin(node)

    def come_back(self, node: str) -> None:
        """A switch that has restarted."""
        self.back(node)

    def cut(self, node: str, on: bool) -> None:
        """Whether the management network reaches it."""
        network = self.network()
        network.cut(next(host.rank for host in network.plan.everyone if host.name == node), on)

    def set_rate(self, link: LinkPlan, rate: float | None) -> None:
        """Of a link that has one."""
        assert rate is not None
        self.network().set_rate(link, rate)

    def _send(self, node: str, number: signal.Signals) -> None:
        for pid in self.pids_of(node):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def hangs(pid: int) -> bool:
    """Whether a process is stopped, or one that it has started."""
    try:
        return any(psutil.Process(each).status() == psutil.STATUS_STOPPED for each in with_descendants(pid))
    except psutil.NoSuchProcess:
        return False


def with_descendants(pid: int) -> list[int]:
    """A process, and those that it has started, and so on; nothing where it has ended."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []
