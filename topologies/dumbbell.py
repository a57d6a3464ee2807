"""Dumbbell: two racks, joined by one link."""

from __future__ import annotations

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import Topology, TopologyError


class Dumbbell(Topology):
    """The bottleneck of congestion control's textbooks, between two switches with hosts and nothing above them."""

    def __post_init__(self) -> None:
        if self.racks != 2:
            raise TopologyError(f"a dumbbell has 2 racks, not {self.racks}: set racks to 2")
        super().__post_init__()

    def build(self, net: NetworkPlan) -> None:
        left, right = net.add_racks()
        net.add_link(right, left, self.uplink_rate)
