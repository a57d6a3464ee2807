"""Machines whose GPUs have NVLink among them, and whose network interface is at the first PCIe switch (BytePS, section 4.2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.machines import Machines
from inalab.topologies.plan import NetworkPlan, SwitchPlan
from inalab.topologies.topology import TopologyError, check_rate

GPUS = 2  # at a PCIe switch
PCIE, NVLINK = 1.1, 1.05  # lengths: NVLink is the way to all other GPUs, and nowhere else to


@dataclass(frozen=True)
class NvlinkMachines(Machines):
    """Two GPUs are at each PCIe switch. A GPU's own switch joins it to that and, at `nvlink_rate`, to all other GPUs."""

    nvlink_rate: float | None = 100.0

    nic = 0

    def __post_init__(self) -> None:
        if self.workers % GPUS or self.workers < 2 * GPUS:
            raise TopologyError(f"{self.workers} GPUs: {GPUS} are at each of two or more PCIe switches; set workers to 4, 6, 8, …")
        check_rate("nvlink_rate", self.nvlink_rate)
        super().__post_init__()

    def inside(self, net: NetworkPlan, rack: SwitchPlan) -> list[SwitchPlan]:
        r = rack.rack
        switches = [net.add_inner(f"pcie{r}-{i}", rack) for i in range(self.workers // GPUS)]
        nvlink = net.add_inner(f"nvlink{r}", rack)
        gpus = [net.add_inner(f"gpu{r}-{place}", rack) for place in range(self.workers)]
        for switch in switches:
            net.add_link(switch, rack, self.pcie_rate)
        for place, gpu in enumerate(gpus):
            net.add_link(gpu, switches[self.group(place)], self.host_rate, PCIE)
            net.add_link(gpu, nvlink, self.nvlink_rate, NVLINK)
        net.edges[-1] = switches[self.nic].name
        return gpus

    def rate(self, rank: int) -> float | None:
        """A GPU's own switch is inside it."""
        return None

    def group(self, place: int) -> int:
        return place // GPUS

    @property
    def uplinks(self) -> int:
        return self.workers // GPUS
