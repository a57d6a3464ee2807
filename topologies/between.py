"""The network between machines, as a switch that adds sees it: one rack, with a worker for each machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inalab.topologies.plan import Attachment, NetworkPlan, SwitchPlan
from inalab.topologies.topology import Topology


@dataclass(frozen=True)
class _Between(Topology):
    """The rack's switch is the one that joins the machines `of` a network. Their memories are its workers, at their interfaces."""

    of: NetworkPlan | None = None

    def build(self, net: NetworkPlan) -> None:
        assert self.of is not None
        root = self.of.roots[0]
        rack = net.switches[root.name] = SwitchPlan(root.name, root.station, 0)
        net.racks.append(rack)
        net.edges.append(rack.name)
        for number, memory in enumerate(self.of.servers):
            link = self.of.links[self.of.hop(self.of.edges[memory.rack], root.name)[0]]
            rack.attachments.append(Attachment(link.upper_port, memory.name, number, True))
            net.links.append(replace(link, number=number, lower=memory.name, lower_port=0))
            net.hosts.append(replace(memory, rank=number, rack=0, switch=root.station, home=root.name))


def between_machines(plan: NetworkPlan) -> NetworkPlan:
    """Of a network of two machines or more, each with one server."""
    return NetworkPlan(_Between(1, len(plan.servers), of=plan))
