"""The topologies there are, by name."""

from __future__ import annotations

from dataclasses import fields

from topologies.dumbbell import Dumbbell
from topologies.leaf_spine import LeafSpine
from topologies.mixed_rates import MixedRates
from topologies.pods import Pods
from topologies.racks import Racks
from topologies.topology import Topology, TopologyError

TOPOLOGIES: dict[str, type[Topology]] = {
    "racks": Racks,
    "leaf-spine": LeafSpine,
    "dumbbell": Dumbbell,
    "mixed-rates": MixedRates,
    "pods": Pods,
}


def find(name: str) -> type[Topology]:
    """A topology by name. TopologyError if there is none."""
    try:
        return TOPOLOGIES[name]
    except KeyError:
        raise TopologyError(f"there is no topology {name}: choose one of {', '.join(TOPOLOGIES)}") from None


def own_fields(kind: type[Topology]) -> list[str]:
    """What can be chosen of a topology beside what all have."""
    common = {field.name for field in fields(Topology)}
    return [field.name for field in fields(kind) if field.name not in common]
