"""What must not end while jobs run: switches, servers, background traffic, and the links of the management network."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from math import inf

from inalab.hosts.collective import node_name
from inalab.hosts.messages import Lost
from inalab.schemes.scheme import Admitted
from inalab.testbed.trial.servers import Server, kill_servers, spawn_servers
from inalab.topologies import isolation
from inalab.topologies.jobs import JobPlan
from inalab.topologies.network import Network

EVERY = 0.1  # seconds between two looks
CUT_SECONDS = 3.0  # that a management link is down before it counts as cut: TCP outlives a shorter fault


def ended(pid: int) -> int | None:
    """The exit code of a child that has ended, -number for a signal; None while it runs."""
    pid, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


class Watch:
    """Look often; a look costs something only once in EVERY seconds."""

    def __init__(
        self, network: Network, jobs: Sequence[JobPlan], servers: dict[int, Server], spare: Sequence[float] = ()
    ) -> None:  # fmt: skip
        """`servers` are by pid; they run until SIGTERM. `spare` is how many of each job may die without ending it."""
        self.network = network
        self.names = {host.name: f"host {host.name}" for host in network.plan.everyone}
        self.jobs = jobs
        for job in jobs:
            whose = f" of job {job.number}" if len(jobs) > 1 else ""
            self.names |= {h.name: f"{node_name(job.rank(h), job.size)}{whose} (host {h.name})" for h in job.everyone}
        self.spare = dict(enumerate(spare))  # by job: how many more
        self.follow(servers)
        self.lost: list[Lost] = []  # servers without which their jobs have gone on
        self.background: dict[int, str] = {}  # processes of traffic of no job; they run until the network ends
        self.down: dict[str, float] = {}  # since when each management link is
        self.due = 0.0

    def follow(self, servers: dict[int, Server]) -> None:
        """These servers, by pid, and no others."""
        self.servers = {pid: server.name.format(self.names[server.host.name]) for pid, server in servers.items()}  # that run
        self.members = {
            pid: (job.number, job.rank(s.host))
            for pid, s in servers.items()
            for job in self.jobs
            if s.host in job.everyone and not s.manages and (s.host in job.servers or self.spare.get(job.number) == inf)
        }

    def replace(self, job: Admitted) -> None:
        """Kill the servers that are there, whatever they do, and start this job's."""
        kill_servers(self.servers)
        self.follow(spawn_servers(self.network, [job]))

    def trouble(self) -> str:
        """What has ended that must not, in a sentence; empty if nothing has."""
        now = time.monotonic()
        if now < self.due:
            return ""
        return self.look(now)

    def look(self, now: float) -> str:
        """See `trouble`; at once."""
        self.due = now + EVERY
        return "; ".join(self.network.dead_switches() or self._dead()) or self._cut_for_long(now)

    def cut(self) -> str:
        """Whom the management network does not reach at this moment, in a sentence; empty if it reaches all."""
        lost = ", ".join(self.names[host] for host in self.network.unreachable())
        return f"the management network is cut: it does not reach {lost}" if lost else ""

    def _dead(self) -> list[str]:
        dead = []
        for running in (self.servers, self.background):
            for pid, name in list(running.items()):
                if (code := ended(pid)) is not None:
                    del running[pid]
                    text = f"{name} {isolation.ending(code)}"
                    job, rank = self.members.get(pid, (-1, -1))
                    if self.spare.get(job, 0):
                        self.spare[job] -= 1
                        self.lost.append(Lost(job, rank, text))
                    else:
                        dead.append(text)
        return dead

    def losses(self) -> list[Lost]:
        """Servers that have died since the last call, and without which their jobs go on."""
        lost, self.lost = self.lost, []
        return lost

    def _cut_for_long(self, now: float) -> str:
        self.down = {host: self.down.get(host, now) for host in self.network.unreachable()}
        return self.cut() if any(now - since >= CUT_SECONDS for since in self.down.values()) else ""
