"""The topologies there are, by name."""

from __future__ import annotations

from dataclasses import fields

from inalab.topologies.dumbbell import Dumbbell
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.mixed_rates import MixedRates
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology, TopologyError

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
