"""Jobs on a network: which hosts are whose."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.topology import TopologyError


@dataclass(frozen=True)
class JobPlan:
    """A job's number and its hosts: the workers' by rank, and the dedicated servers', which have the ranks after them.

    `called` is what the workers are called in messages, where that is not their ranks. `port` is the UDP port of its workers'
    packets where it is not the scheme's own, because their hosts are in another job, too.
    """

    number: int
    hosts: tuple[HostPlan, ...]
    servers: tuple[HostPlan, ...] = ()
    port: int | None = None
    called: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.hosts)

    @property
    def everyone(self) -> tuple[HostPlan, ...]:
        """Workers and servers, by rank."""
        return (*self.hosts, *self.servers)

    def rank(self, host: HostPlan) -> int:
        """A host's rank in this job."""
        return self.everyone.index(host)

    def members(self, racks: int) -> list[list[int]]:
        """The workers' ranks, by rack of the network."""
        found: list[list[int]] = [[] for _ in range(racks)]
        for rank, host in enumerate(self.hosts):
            found[host.rack].append(rank)
        return found

    def ranks_below(self, plan: NetworkPlan, name: str) -> tuple[int, ...]:
        """The ranks of the workers that a node is, or has below it."""
        lower = [rank for child in (plan.below(name) if name in plan.switches else ()) for rank in self.ranks_below(plan, child)]
        own = [rank for rank, host in enumerate(self.hosts) if name in (host.name, plan.racks[host.rack].name)]
        return tuple(own or lower)

    def children(self, plan: NetworkPlan, name: str) -> list[str]:
        """Who sends its sums to the switch `name`: workers in the order of their ranks, or further up switches of racks or pods."""
        switch = plan.switches[name]
        if switch.rack is not None:
            return [host.name for host in self.hosts if host.rack == switch.rack]
        mine = switch in plan.pods or switch is plan.root(self.number)
        return [lower for lower in plan.below(name) if self.children(plan, lower)] if mine else []


def deal(plan: NetworkPlan, workers: list[list[int]], servers: list[int]) -> list[JobPlan]:
    """Give each job hosts of its own: so many of each rack (workers[job][rack]), and so many servers.

    Raises TopologyError if there are not enough.
    """
    left = [[h for h in plan.hosts if h.rack == r] for r in range(plan.topology.racks)]
    spare = list(plan.servers)
    jobs = []
    for number, (by_rack, wanted) in enumerate(zip(workers, servers, strict=True)):
        if len(spare) < wanted or any(len(have) < n for have, n in zip(left, by_rack, strict=True)):
            raise TopologyError(f"job {number} needs more hosts than the network has left: fewer jobs, or fewer workers in each")
        hosts = [host for have, n in zip(left, by_rack, strict=True) for host in have[:n]]
        left = [have[n:] for have, n in zip(left, by_rack, strict=True)]
        jobs.append(JobPlan(number, tuple(hosts), tuple(spare[:wanted])))
        spare = spare[wanted:]
    return jobs
