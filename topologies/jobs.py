"""Jobs on a network: which hosts are whose, and what each switch must be told of a job."""

from __future__ import annotations

from dataclasses import dataclass

from switches import atp, switchml
from topologies.racks import HostPlan, NetworkPlan, TopologyError


@dataclass(frozen=True)
class JobPlan:
    """A job's number and its hosts: the workers' by rank, and the dedicated servers', which have the ranks after them."""

    number: int
    hosts: tuple[HostPlan, ...]
    servers: tuple[HostPlan, ...] = ()

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

    def children(self, plan: NetworkPlan, name: str) -> int:
        """How many send their sums to the switch `name`: workers, or at the root racks."""
        members = self.members(plan.racks.racks)
        return sum(map(bool, members)) if name == "root" else len(members[plan.rack(name)])


def deal(plan: NetworkPlan, workers: list[list[int]], servers: list[int]) -> list[JobPlan]:
    """Give each job hosts of its own: so many of each rack (workers[job][rack]), and so many servers.

    Raises TopologyError if there are not enough.
    """
    left = [[h for h in plan.hosts if h.rack == r] for r in range(plan.racks.racks)]
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


def switchml_commands(plan: NetworkPlan, job: JobPlan, name: str, pool: switchml.Pool, first_node: int) -> list[str]:
    """Admission of a SwitchML job at the switch `name`; nothing where it has no worker below."""
    members = job.members(plan.racks.racks)
    switch, parent = plan.switches[name], None
    if name == "root":
        below = [r for r, ranks in enumerate(members) if ranks]
        children = [switchml.Child(r, r, plan.switches[f"tor{r}"].station) for r in below]
    else:
        rack = plan.rack(name)
        hosts = [job.hosts[rank] for rank in members[rack]]
        children = [switchml.Child(i, plan.port(name, host.name), host.station) for i, host in enumerate(hosts)]
        if "root" in plan.switches:
            parent = switchml.Parent(plan.port(name, "root"), plan.switches["root"].station, switch.station, rack)
    return switchml.job(job.number, pool, children, parent, first_node) if children else []


def atp_commands(plan: NetworkPlan, job: JobPlan, name: str, first_node: int) -> list[str]:
    """Admission of an ATP job at the switch `name`."""
    own = plan.switches[name].station
    racks = {r: ranks for r, ranks in enumerate(job.members(plan.racks.racks)) if ranks}
    if name == "root":  # in transit for gradients; results go to every rack but the server's own
        below = {r: atp.Child(1 + r, r, plan.switches[f"tor{r}"].station) for r in racks}
        spread = [tuple(child for r, child in below.items() if r != s.rack) for s in job.servers]
        servers = [atp.Server(s.rack, s.station, to) for s, to in zip(job.servers, spread, strict=True)]
        return [*atp.transit(), *atp.job(job.number, own, [], servers, first_node)]
    rack = plan.rack(name)
    here = [job.hosts[rank] for rank in racks.get(rack, [])]
    away = {r: ranks for r, ranks in racks.items() if r != rack}
    children = [atp.Child(1 + i, plan.port(name, host.name), host.station) for i, host in enumerate(here)]
    if away:
        children.append(atp.Child(atp.MAX_FAN_IN + 1, plan.port(name, "root"), plan.switches["root"].station))
    sources, servers = [], []
    for server in job.servers:
        at_home = server.rack == rack
        to = tuple(children if at_home else children[: len(here)])
        port = plan.port(name, server.name if at_home else "root")
        bit, fan_in = (0, len(here) + len(away)) if at_home else (atp.rack_bit(rack), len(here))
        servers.append(atp.Server(port, server.station, to, bit, fan_in))
        for i, host in enumerate(here):
            bits = (1 << i, (0, 0xFFFFFFFF)) if at_home else (bit, (1 << i, 0xFFFFFFFF))
            sources.append(atp.Source(plan.port(name, host.name), host.station, server.station, int(at_home), *bits, fan_in))
        for other, ranks in away.items() if at_home else ():
            outside = 0xFFFFFFFF ^ (1 << len(ranks)) - 1  # bits of no worker there
            for worker in (job.hosts[rank].station for rank in ranks):
                bits = (atp.rack_bit(other), (0, outside))
                sources.append(atp.Source(plan.port(name, "root"), worker, server.station, 1, *bits, fan_in))
    return atp.job(job.number, own, sources, servers, first_node)
