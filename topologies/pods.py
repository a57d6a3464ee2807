"""Three tiers: racks in pods, and a core above the pods."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import Topology, TopologyError, check_rate


@dataclass(frozen=True)
class Pods(Topology):
    """A tree of three levels of switches: racks follow each other in pods of the same size, or one more in the first ones.

    `core_rate` is that of the links between pods and the core, in Mbit/s per direction, None for no limit.
    """

    pods: int = 2
    core_rate: float | None = 10.0

    def __post_init__(self) -> None:
        if not 2 <= self.pods <= self.racks:
            raise TopologyError(f"{self.pods} pods of {self.racks} racks: from 2 to as many as there are racks are possible")
        check_rate("core_rate", self.core_rate)
        super().__post_init__()

    def build(self, net: NetworkPlan) -> None:
        racks = net.add_racks()
        pods = [net.add_pod(f"pod{p}") for p in range(self.pods)]
        first = 0
        for p, pod in enumerate(pods):
            last = first + self.racks // self.pods + (p < self.racks % self.pods)
            for rack in racks[first:last]:
                net.add_link(rack, pod, self.uplink_rate)
            first = last
        core = net.add_root("core")
        for pod in pods:
            net.add_link(pod, core, self.core_rate)
