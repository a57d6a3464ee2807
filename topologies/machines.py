"""Machines with several GPUs, as BytePS has them (OSDI '20, section 4.2): what is inside a machine is a network, too."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import Topology, check_rate


@dataclass(frozen=True)
class Machines(Topology):
    """A machine is a rack, and its GPUs are the workers. Its own switch is the CPU, where host memory is: a server without a limit.

    `host_rate` is that of a GPU's link, `uplink_rate` a NIC's, and `pcie_rate` that of a link between a PCIe switch and the CPU. A
    shape says which PCIe switches there are: it makes them (`inside`), and `group` tells which one a GPU is at.
    """

    pcie_rate: float | None = 10.0

    rack_name = "cpu"
    machines = True

    def __post_init__(self) -> None:
        check_rate("pcie_rate", self.pcie_rate)
        super().__post_init__()

    def build(self, net: NetworkPlan) -> None:
        net.add_racks()
        if len(net.racks) > 1:
            network = net.add_root("network")
            for edge in net.edges:
                net.add_link(net.switches[edge], network, self.uplink_rate)

    @property
    def server_rate(self) -> float | None:
        return None
