"""The dedicated servers of a network's jobs, each a process on a host of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from hosts.place import Place
from hosts.worker import run_server
from topologies.network import Network
from topologies.plan import HostPlan

SERVERS_END = 12.0  # seconds, longer than a server takes to release what its job holds


def spawn_servers(network: Network, place: Callable[[HostPlan], Place]) -> list[int]:
    """Start the dedicated servers; their pids."""
    return [network.spawn(server.rank, partial(run_server, place(server))) for server in network.plan.servers]


def end_servers(pids: list[int], seconds: float) -> list[int]:
    """Have servers end once their workers have left; those that have not ended after so many seconds."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    end, left = time.monotonic() + seconds, list(pids)
    while left and time.monotonic() < end:
        left = [pid for pid in left if not os.waitpid(pid, os.WNOHANG)[0]]
        time.sleep(0.01 * bool(left))
    return left
