"""The topologies there are, by name."""

from __future__ import annotations

from dataclasses import fields

from inalab.hosts.plugins import PluginError, load
from inalab.topologies.dumbbell import Dumbbell
from inalab.topologies.flat_machines import FlatMachines
from inalab.topologies.leaf_spine import LeafSpine
from inalab.topologies.mixed_rates import MixedRates
from inalab.topologies.nvlink_machines import NvlinkMachines
from inalab.topologies.pcie_machines import PcieMachines
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology, TopologyError

TOPOLOGIES: dict[str, type[Topology]] = {
    "racks": Racks,
    "leaf-spine": LeafSpine,
    "dumbbell": Dumbbell,
    "mixed-rates": MixedRates,
    "pods": Pods,
    "flat-machines": FlatMachines,
    "pcie-machines": PcieMachines,
    "nvlink-machines": NvlinkMachines,
}


def find(name: str) -> type[Topology]:
    """A topology by name, or by the file that defines it as TOPOLOGY. TopologyError if there is none."""
    if name.endswith(".py"):
        return _defined(name)
    try:
        return TOPOLOGIES[name]
    except KeyError:
        raise TopologyError(f"there is no topology {name}: choose one of {', '.join(TOPOLOGIES)}") from None


def _defined(source: str) -> type[Topology]:
    try:
        found = load(source, "TOPOLOGY")
    except PluginError as error:
        raise TopologyError(str(error)) from None
    if not (isinstance(found, type) and issubclass(found, Topology)):
        raise TopologyError(f"TOPOLOGY in {source} is no subclass of inalab.topologies.topology.Topology")
    return found


def own_fields(kind: type[Topology]) -> list[str]:
    """What can be chosen of a topology beside what all have."""
    common = {field.name for field in fields(Topology)}
    return [field.name for field in fields(kind) if field.name not in common]
