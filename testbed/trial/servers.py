"""The servers of a network's jobs, each a process: dedicated ones on hosts of their own, and those on workers' hosts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial

from hosts.place import Place
from hosts.worker import run_server
from schemes.scheme import Admitted
from topologies.network import Network
from topologies.plan import HostPlan

SERVERS_END = 12.0  # seconds, longer than a server takes to release what its job holds


def serving_workers(jobs: Iterable[Admitted]) -> list[HostPlan]:
    """The workers' hosts on which a server runs, too."""
    return [host for job in jobs if job.scheme.serves_on_workers for host in job.plan.hosts]


def spawn_servers(network: Network, place: Callable[[HostPlan], Place], workers: Iterable[HostPlan] = ()) -> dict[int, HostPlan]:
    """Start the dedicated servers, and one on each of these workers' hosts; their hosts by pid."""
    hosts = [*network.plan.servers, *workers]
    return {network.spawn(host.rank, partial(run_server, place(host))): host for host in hosts}


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
