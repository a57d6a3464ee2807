"""The servers of a network's jobs, each a process: dedicated ones on hosts of their own, others on workers' hosts, schedulers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from inalab.hosts.worker import run_server
from inalab.schemes.scheme import Admitted
from inalab.testbed.trial.places import place_of
from inalab.topologies.plan import HostPlan

if TYPE_CHECKING:  # in virtual time there is no Mininet
    from inalab.topologies.network import Network

SERVERS_END = 12.0  # seconds, longer than a server takes to release what its job holds


@dataclass(frozen=True)
class Server:
    """A server's process: its host, and what it is called in messages, where braces stand for the host's node."""

    host: HostPlan
    name: str = "{}"
    manages: bool = False  # it is a job's scheduler


def servers_of(job: Admitted) -> list[Server]:
    """A job's servers: on hosts of their own, on workers' hosts, and its scheduler."""
    found = [Server(host) for host in job.plan.servers]
    if job.scheme.serves_on_workers:
        found += [Server(host, "the server of {}") for host in job.plan.hosts]
    if job.scheme.managed and job.scheme.manages(job):
        found.append(Server(job.plan.servers[0], "the scheduler beside {}", manages=True))
    return found


def spawn_servers(network: Network, jobs: Sequence[Admitted]) -> dict[int, Server]:
    """Start all servers of these jobs, by pid."""
    return {
        network.spawn(
            server.host.rank, partial(run_server, place_of(network.plan, job, server.host, network.seed, jobs), server.manages)
        ): server
        for job in jobs
        for server in servers_of(job)
    }


def kill_servers(pids: Iterable[int]) -> None:
    """End servers at once, whatever they do."""
    for pid in list(pids):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def end_servers(pids: Iterable[int], seconds: float) -> list[int]:
    """Have servers end once their workers have left; those that have not ended after so many seconds."""
    left = list(pids)
    for pid in left:
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + seconds
    while left and time.monotonic() < end:
        left = [pid for pid in left if not os.waitpid(pid, os.WNOHANG)[0]]
        time.sleep(0.01 * bool(left))
    return left
