"""Leaf and spine: every rack's switch is connected to several roots."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import MAX_RACKS, Topology, TopologyError

MAX_SPINES = 8
MOST_SKEW = 100
TREE, ECMP, SPRAY = ROUTINGS = "tree", "ecmp", "spray"


@dataclass(frozen=True)
class LeafSpine(Topology):
    """A Clos network of two tiers. `routing` says which spine a packet takes from one rack to another.

    tree   one for each destination: what switches aggregate goes over the job's spine, and jobs take the spines in turn. Other
           traffic goes over that which the rank of its destination chooses. Nothing is reordered
    ecmp   that of its flow, by a hash (equal-cost multipath); all TCP from one host to another is one flow
    spray  the spines in turn, packet by packet, at each rack's switch
    """

    spines: int = 2
    routing: str = TREE
    skew: float = 0.0  # ms that the links of a spine take longer than those of the spine before it

    def __post_init__(self) -> None:
        if not 2 <= self.spines <= MAX_SPINES:
            raise TopologyError(f"{self.spines} spines: from 2 to {MAX_SPINES} are possible")
        if self.racks < 2:
            raise TopologyError(f"a leaf-spine network joins from 2 to {MAX_RACKS} racks: set racks to 2 or more")
        if not 0 <= self.skew <= MOST_SKEW:
            raise TopologyError(f"skew is {self.skew:g} ms: from 0 to {MOST_SKEW} are possible")
        if self.routing not in ROUTINGS:
            raise TopologyError(f"routing is {self.routing}: choose one of {', '.join(ROUTINGS)}")
        super().__post_init__()

    @property
    def spreads(self) -> bool:
        return self.routing != TREE

    @property
    def by_packet(self) -> bool:
        return self.routing == SPRAY

    @property
    def uplinks(self) -> int:
        return self.spines

    def build(self, net: NetworkPlan) -> None:
        racks = net.add_racks()
        spines = [net.add_root(f"spine{s}") for s in range(self.spines)]
        for rack in racks:
            for number, spine in enumerate(spines):
                net.add_link(rack, spine, self.uplink_rate, delay=number * self.skew)
