"""Leaf and spine: every rack's switch is connected to several roots."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import MAX_RACKS, Topology, TopologyError

MAX_SPINES = 8


@dataclass(frozen=True)
class LeafSpine(Topology):
    """A Clos network of two tiers. Each job that switches aggregate uses one spine; jobs take the spines in turn.

    Other traffic takes the spine that the rank of its destination chooses: one path for each host, so nothing is reordered.
    """

    spines: int = 2

    def __post_init__(self) -> None:
        if not 2 <= self.spines <= MAX_SPINES:
            raise TopologyError(f"{self.spines} spines: from 2 to {MAX_SPINES} are possible")
        if self.racks < 2:
            raise TopologyError(f"a leaf-spine network joins from 2 to {MAX_RACKS} racks: set racks to 2 or more")
        super().__post_init__()

    @property
    def uplinks(self) -> int:
        return self.spines

    def build(self, net: NetworkPlan) -> None:
        racks = net.add_racks()
        spines = [net.add_root(f"spine{s}") for s in range(self.spines)]
        for rack in racks:
            for spine in spines:
                net.add_link(rack, spine, self.uplink_rate)
