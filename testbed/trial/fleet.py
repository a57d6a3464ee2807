"""Work on all hosts of a network at once, each in a process of its own; and what switches and servers of a job are told."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Pipe, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.atp import wire
from hosts.atp.congestion import MARKS
from hosts.collective import Collective
from hosts.epoch import draw
from hosts.schemes import Parameters, Place, join
from hosts.worker import run_server
from switches import atp
from switches.loss import Loss, link_seed, set_loss
from switches.switchml import Pool
from switches.target import Target
from testbed.plan.settings import TrialSettings
from testbed.trial.places import place_of
from topologies import isolation
from topologies.jobs import JobPlan, atp_commands, deal, switchml_commands
from topologies.network import Network
from topologies.racks import HostPlan, NetworkPlan, Racks

QUEUE_DEPTH = 1024  # packets of a port, at least; BMv2 has 64 and drops in silence
AGGREGATOR_LIFETIME = 1.0  # seconds that others respect an aggregator that nobody touches
SERVERS_END = 12.0  # seconds, longer than a server takes to release what its job holds
PACE = 0.98  # of a link's rate


class FleetError(RuntimeError):
    """Work on a host failed; str() is its traceback or message."""


@dataclass(frozen=True)
class Job:
    """A job over all hosts of a racks description, or several equal ones that share them out; loss on every link if asked for."""

    racks: Racks
    slots: int = 64
    k: int = 64
    loss: Loss | None = None
    seed: int = 1
    patience: float = 30.0
    scheme: str = "switchml"
    scaling: float | None = None
    aggregators: int = atp.AGGREGATORS
    congestion: str = MARKS
    recovery: str = "ask"
    jobs: int = 1
    epoch: int = field(default_factory=draw)

    @property
    def parameters(self) -> Parameters:
        return Parameters(
            self.scheme, self.slots, self.k, self.patience, self.scaling, self.aggregators, self.congestion, self.recovery
        )

    def plan(self) -> NetworkPlan:
        return NetworkPlan(self.racks)

    def shares(self, plan: NetworkPlan) -> list[JobPlan]:
        """The jobs, each with as many hosts of every rack as the others."""
        each = [self.racks.workers // self.jobs] * self.racks.racks
        return deal(plan, [each] * self.jobs, [self.racks.servers // self.jobs] * self.jobs)

    def commands(self, plan: NetworkPlan) -> dict[str, list[str]]:
        """What each switch is told before packets flow."""
        return network_commands(plan, [(job, self.parameters) for job in self.shares(plan)], self.loss, self.seed)

    def worker(self, host: HostPlan) -> Collective:
        """The worker of a host; to be made in the host's own process."""
        return join(self.place(host), self.epoch)

    def place(self, host: HostPlan) -> Place:
        """A host's place in its job."""
        plan = self.plan()
        return next(
            place_of(plan, job, mine, self.parameters)
            for job in self.shares(plan)
            for mine in job.everyone
            if mine.name == host.name
        )


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


Admitted = list[tuple[JobPlan, Parameters]]


def network_commands(
    plan: NetworkPlan, jobs: Admitted, loss: Loss | None, seed: int, queue: int | None = None, latency: float = 0.0,
    background: bool = False,
) -> dict[str, list[str]]:  # fmt: skip
    """What each switch of a network is told: see switch_commands."""
    return {name: switch_commands(plan, name, jobs, loss, seed, queue, latency, background) for name in plan.switches}


def commands_for(settings: TrialSettings, plan: NetworkPlan, seed: int) -> dict[str, list[str]]:
    """What each switch of a trial's network is told."""
    admitted, loss = settings.admitted(plan), settings.loss_model()
    return network_commands(plan, admitted, loss, seed, settings.queue, settings.latency, settings.background > 0)


def switch_commands(
    plan: NetworkPlan, name: str, jobs: Admitted, loss: Loss | None, seed: int, queue: int | None = None, latency: float = 0.0,
    background: bool = False,
) -> list[str]:  # fmt: skip
    """Queues, forwarding, the jobs that the switch takes part in, and the loss of the links whose upper end it is.

    `queue` is the depth of the ports' queues in packets; by default they hold all that can come. `latency` is in ms, of what
    leaves a port. `background`: others use the network, too.
    """
    deepest = max(QUEUE_DEPTH, sum(2 * p.slots * (job.size if p.scheme == "atp" else 1) for job, p in jobs))
    commands = [f"set_queue_depth {queue or deepest}", *plan.forwarding(name)]
    if latency:
        commands.append(f"set_queue_delay {round(1000 * latency)}")
    if windows := [p.slots for _, p in jobs if p.scheme == "atp"]:
        commands += atp.settings(AGGREGATOR_LIFETIME, _marking_depth(windows, queue)) + atp.trunks(plan.trunks(name))
    if all(p.scheme == "atp" for _, p in jobs) and (len(jobs) > 1 or queue or background):
        commands += _paced(plan, name, jobs)
    base = 0
    for job, parameters in jobs:
        node = sum(line.startswith("mc_node_create") for line in commands)
        if parameters.scheme == "atp":
            commands += atp_commands(plan, job, name, node)
        elif parameters.scheme == "switchml":
            commands += switchml_commands(plan, job, name, Pool(base, parameters.slots), node)
            base += 2 * parameters.slots
    for a in plan.switches[name].attachments if loss else []:
        for direction in (0, 1) if a.upper else ():
            assert loss is not None
            commands += set_loss(direction, a.port, loss, link_seed(seed, a.link, direction))
    return commands


def _marking_depth(windows: list[int], queue: int | None) -> int:
    """Packets in a queue from which on it marks: more than a window of one job, or half of a queue that is shorter than two.

    One job alone, whose packets are added on the way, then keeps its window where the machine lets them wait for some milliseconds
    and they arrive in a burst. Windows that meet in a queue, of two jobs or of workers whose packets find no aggregator, are marked
    while it still has packets for its link.
    """
    return min(max(windows), max(1, queue // 2)) if queue else max(windows)


def _paced(plan: NetworkPlan, name: str, jobs: Admitted) -> list[str]:
    """Send into each link a little less than it carries, so that queues form in the switch, where their depth is seen.

    A switch's rate is in packets, and a query takes the time of a vector. So one job alone, which has nobody to make room for, is
    not paced: where packets are lost that would be the larger part of what the loss costs.
    """
    bits = min(wire.bits_on_wire(p.k) for _, p in jobs)
    rates = {link.number: link.rate for link in plan.links}
    return [
        f"set_queue_rate {int(PACE * rate * 1e6 / bits)} {a.port}"
        for a in plan.switches[name].attachments
        if (rate := rates[a.link]) is not None
    ]


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
        servers = spawn_servers(network, job.place)
        turns = on_hosts(network, on_host)
        if left := end_servers(servers, SERVERS_END):
            raise FleetError(f"{len(left)} servers have not ended {SERVERS_END:g} s after the workers")
        return turns

    return in_network(job, target, work)  # type: ignore[no-any-return]


def as_tensors(racks: Racks, elements: int, seed: int = 1) -> list[NDArray[np.float32]]:
    """A normal float32 tensor for each worker, from a seed."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(elements).astype(np.float32) for _ in range(racks.size)]
