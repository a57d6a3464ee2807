"""Work on all hosts of a network at once, each in a process of its own; and what switches and servers of a job are told."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Pipe, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.places import place_of
from hosts.collective import Collective
from hosts.schemes import Place, join
from hosts.worker import run_server
from switches.loss import Loss, link_seed, set_loss
from switches.switchml import Pool
from switches.target import Target
from topologies import isolation
from topologies.network import Network
from topologies.racks import HostPlan, NetworkPlan, Racks

QUEUE_DEPTH = 1024  # packets of a port, at least; BMv2 has 64 and drops in silence


class FleetError(RuntimeError):
    """Work on a host failed; str() is its traceback or message."""


@dataclass(frozen=True)
class Job:
    """A job over all hosts of a racks description, with loss on every link if asked for."""

    racks: Racks
    slots: int = 64
    k: int = 64
    loss: Loss | None = None
    seed: int = 1
    patience: float = 30.0
    scheme: str = "switchml"

    def plan(self) -> NetworkPlan:
        return NetworkPlan(self.racks)

    def commands(self, plan: NetworkPlan) -> dict[str, list[str]]:
        """What each switch is told before packets flow."""
        return network_commands(plan, self.slots, self.loss, self.seed)

    def worker(self, host: HostPlan) -> Collective:
        """The worker of a host; to be made in the host's own process."""
        return join(self.place(host))

    def place(self, host: HostPlan) -> Place:
        """A host's place in the job."""
        return place_of(self.plan(), host, self.scheme, self.slots, self.k, self.patience)


def spawn_servers(network: Network, place: Callable[[HostPlan], Place]) -> list[int]:
    """Start the dedicated servers; their pids."""
    return [network.spawn(server.rank, partial(run_server, place(server))) for server in network.plan.servers]


def network_commands(plan: NetworkPlan, slots: int, loss: Loss | None, seed: int) -> dict[str, list[str]]:
    """What each switch of a network is told: see switch_commands."""
    return {name: switch_commands(plan, name, slots, loss, seed) for name in plan.switches}


def switch_commands(plan: NetworkPlan, name: str, slots: int, loss: Loss | None, seed: int) -> list[str]:
    """Queues, forwarding, one job over all hosts, and the loss of the links whose upper end the switch is."""
    commands = [f"set_queue_depth {max(QUEUE_DEPTH, 2 * slots)}", *plan.switch_commands(name, 0, Pool(0, slots))]
    for a in plan.switches[name].attachments if loss else []:
        for direction in (0, 1) if a.upper else ():
            assert loss is not None
            commands += set_loss(direction, a.port, loss, link_seed(seed, a.link, direction))
    return commands


def on_hosts(network: Network, work: Callable[[HostPlan], Any], timeout: float = 120.0) -> list[Any]:
    """Run `work` on every host at once; its results in the order of ranks. Raises FleetError."""
    pipes, pids = [], []
    for host in network.plan.hosts:
        receiver, sender = Pipe(duplex=False)
        pids.append(network.spawn(host.rank, lambda h=host, s=sender: _send_result(work, h, s)))  # type: ignore[misc]
        sender.close()
        pipes.append(receiver)
    results: list[Any] = [None] * len(pipes)
    left = dict(enumerate(pipes))
    while left:
        ready = wait(list(left.values()), timeout)
        if not ready:
            raise FleetError(f"hosts {', '.join(map(str, left))} have not finished after {timeout:g} s")
        for rank in [r for r, p in left.items() if p in ready]:
            good, results[rank] = left.pop(rank).recv()
            if not good:
                raise FleetError(f"host {rank}: {results[rank]}")
    for pid in pids:
        os.waitpid(pid, 0)
    return results


def _send_result(work: Callable[[HostPlan], Any], host: HostPlan, sender: Any) -> int:
    try:
        sender.send((True, work(host)))
    except Exception:
        sender.send((False, traceback.format_exc()))
        return 1
    return 0


def in_network(job: Job, target: Target, work: Callable[[Network], Any]) -> Any:
    """Build the job's network in namespaces of its own and return what `work` makes of it. Raises FleetError."""
    receiver, sender = Pipe(duplex=False)

    def inside() -> int:
        try:
            plan = job.plan()
            logs = Path("/run/inalab-logs")
            logs.mkdir()
            network = Network(plan, target, job.commands(plan), logs, job.seed)
            sender.send((True, work(network)))
            network.stop()
        except Exception:
            sender.send((False, traceback.format_exc()))
            return 1
        return 0

    pid = isolation.start(inside)
    sender.close()
    try:
        good, result = receiver.recv()
    except EOFError:
        good, result = False, "the network's process ended without a result"
    finally:
        isolation.wait(pid)
    if not good:
        raise FleetError(result)
    return result


def all_reduce(job: Job, target: Target, tensors: list[NDArray[Any]], times: int = 1) -> list[list[dict[str, Any]]]:
    """All-reduce tensor r on host r, `times` times over; for each host and turn its sum, its seconds and its counters."""

    def on_host(host: HostPlan) -> list[dict[str, Any]]:
        worker = job.worker(host)
        turns = []
        for _ in range(times):
            begun = time.monotonic()
            total = worker.all_reduce(tensors[host.rank])
            turns.append({"sum": total, "seconds": time.monotonic() - begun, "counters": worker.counters})
        worker.close()
        return turns

    def work(network: Network) -> list[Any]:
        spawn_servers(network, job.place)
        return on_hosts(network, on_host)

    return in_network(job, target, work)  # type: ignore[no-any-return]


def as_tensors(racks: Racks, elements: int, seed: int = 1) -> list[NDArray[np.float32]]:
    """A normal float32 tensor for each worker, from a seed."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(racks.size)]
