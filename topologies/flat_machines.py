"""Machines whose GPUs have a link each to the CPU, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.topologies.machines import Machines


@dataclass(frozen=True)
class FlatMachines(Machines):
    """No PCIe switches: only a GPU's own link can be too slow."""
