"""A plan's data network as a Mininet topology."""

from __future__ import annotations

from mininet.topo import Topo

from inalab.topologies.links import RateLink
from inalab.topologies.plan import NetworkPlan


class MininetTopo(Topo):
    """The data network of a plan, for Mininet."""

    def build(self, plan: NetworkPlan) -> None:
        """Hosts, switches and links of the plan; a link's parameter `rate` is in Mbit/s."""
        for number, switch in enumerate(plan.switches.values(), start=1):
            self.addSwitch(switch.name, dpid=f"{number:x}")
        for host in plan.everyone:
            self.addHost(host.name, mac=host.station.mac, ip=f"{host.station.ip}/16")
        for link in plan.links:
            self.addLink(link.lower, link.upper, port1=link.lower_port, port2=link.upper_port, cls=RateLink, rate=link.rate)
