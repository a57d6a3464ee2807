"""Racks under one root."""

from __future__ import annotations

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import Topology


class Racks(Topology):
    """A tree of two levels: a switch for each rack, and a root above them. One rack needs no root."""

    def build(self, net: NetworkPlan) -> None:
        racks = net.add_racks()
        if len(racks) > 1:
            root = net.add_root("root")
            for rack in racks:
                net.add_link(rack, root, self.uplink_rate)
