"""CPU-assisted aggregation, for machines without NVLink (BytePS, OSDI '20, section 4.2.1).

The l GPUs at a PCIe switch reduce-scatter among themselves. Each copies its part to host memory, where the CPU adds those of all
switches, and has it back in the end. So a link between a PCIe switch and the CPU carries M each way, and a GPU's (2l - 1)M/l.
"""

from __future__ import annotations

from inalab.hosts.machines.inside import Machine, Stage
from inalab.hosts.tcp.schedules import Move


class CpuAssisted:
    """See hosts.machines.inside.Strategy."""

    def shards(self, machine: Machine) -> int:
        sizes = {len(group) for group in machine.groups}
        if len(sizes) != 1:
            raise ValueError("cpu-assisted aggregation needs the same number of GPUs at each PCIe switch")
        return sizes.pop()

    def gather(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        scatter = [Move(gpu, group[shard], block, True) for group in machine.groups for gpu in group if gpu != group[shard]]
        return [scatter, [Move(group[shard], machine.memory, block, True) for group in machine.groups]]

    def spread(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        copies = [Move(machine.memory, group[shard], block, False) for group in machine.groups]
        return [copies, [Move(group[shard], gpu, block, False) for group in machine.groups for gpu in group if gpu != group[shard]]]


STRATEGY = CpuAssisted()
