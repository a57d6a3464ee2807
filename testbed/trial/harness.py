"""Work on all hosts of a network at once, each in a process of its own: for benchmarks and tests of collectives alone."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Collective
from inalab.hosts.epoch import draw
from inalab.hosts.place import Place
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.trial.apart import Apart, followed
from inalab.testbed.trial.configuration import network_commands
from inalab.testbed.trial.deployment import Deployment, deployed
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.places import places_of
from inalab.topologies import isolation
from inalab.topologies.jobs import deal
from inalab.topologies.network import Network
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks


@dataclass(frozen=True)
class Job:
    """A job over all hosts of a racks description, or several equal ones that share them out; loss on every link if asked for.

    `settings` are the scheme's, where they differ from its defaults.
    """

    racks: Racks
    scheme: str = "switchml"
    settings: dict[str, Any] = field(default_factory=dict)
    loss: Loss | None = None
    seed: int = 1
    jobs: int = 1
    epoch: int = field(default_factory=draw)

    def plan(self) -> NetworkPlan:
        return NetworkPlan(self.racks)

    def admitted(self, plan: NetworkPlan) -> list[Admitted]:
        """The jobs, each with as many hosts of every rack as the others."""
        scheme, each = registry.find(self.scheme), [self.racks.workers // self.jobs] * self.racks.racks
        shares = deal(plan, [each] * self.jobs, [self.racks.servers // self.jobs] * self.jobs)
        return [Admitted(share, scheme, scheme.Settings(**self.settings)) for share in shares]

    def commands(self, plan: NetworkPlan) -> dict[str, list[str]]:
        """What each switch is told before packets flow."""
        return network_commands(plan, self.admitted(plan), self.loss, self.seed)

    def worker(self, host: HostPlan) -> Collective:
        """The worker of a host; to be made in the host's own process."""
        place = self.place(host)
        return place.scheme.join(place, self.epoch)

    def place(self, host: HostPlan) -> Place:
        """A host's place in its job."""
        plan = self.plan()
        return places_of(plan, self.admitted(plan))[host.name]


def on_hosts(network: Network, work: Callable[[HostPlan], Any], timeout: float = 120.0) -> list[Any]:
    """Run `work` on every host at once; its results in the order of ranks. Raises TrialError."""
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
            raise TrialError(f"hosts {', '.join(map(str, left))} have not finished after {timeout:g} s")
        for rank in [r for r, p in left.items() if p in ready]:
            good, results[rank] = left.pop(rank).recv()
            if not good:
                raise TrialError(f"host {rank}: {results[rank]}")
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


def in_network(job: Job, target: Target, work: Callable[[Deployment], Any]) -> Any:
    """Deploy the job on a network in namespaces of its own, and return what `work` makes of it. Raises TrialError."""

    def inside(sender: Connection) -> dict[str, Any]:
        plan = job.plan()
        with deployed(plan, job.admitted(plan), target, job.commands(plan), job.seed) as deployment:
            return {"made": work(deployment)}

    return followed(Apart(isolation.start, inside), lambda message: None)["made"]


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

    def work(deployment: Deployment) -> list[Any]:
        servers = deployment.spawn_servers()
        turns = on_hosts(deployment.network, on_host)
        deployment.end_servers(servers)
        return turns

    return in_network(job, target, work)  # type: ignore[no-any-return]


def as_tensors(racks: Racks, elements: int, seed: int = 1) -> list[NDArray[np.float32]]:
    """A normal float32 tensor for each worker, from a seed."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(racks.size)]
