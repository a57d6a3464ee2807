"""Machines whose GPUs are at two PCIe switches, and whose network interface has lanes of its own (BytePS, section 4.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.machines import Machines
from inalab.topologies.plan import NetworkPlan, SwitchPlan
from inalab.topologies.topology import TopologyError

SWITCHES = 2


@dataclass(frozen=True)
class PcieMachines(Machines):
    """The first half of the GPUs is at one PCIe switch, the other at the other."""

    def __post_init__(self) -> None:
        if self.workers % SWITCHES:
            raise TopologyError(f"{self.workers} GPUs do not fill {SWITCHES} PCIe switches alike: set workers to an even number")
        super().__post_init__()

    def inside(self, net: NetworkPlan, rack: SwitchPlan) -> list[SwitchPlan]:
        switches = [net.add_inner(f"pcie{rack.rack}-{i}", rack) for i in range(SWITCHES)]
        for switch in switches:
            net.add_link(switch, rack, self.pcie_rate)
        return [switches[self.group(place)] for place in range(self.workers)]

    def group(self, place: int) -> int:
        return place * SWITCHES // self.workers

    @property
    def uplinks(self) -> int:
        return SWITCHES + 1
