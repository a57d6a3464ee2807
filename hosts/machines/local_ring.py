"""What frameworks do: a ring all-reduce of all GPUs of a machine. One of them then sends, and in the end broadcasts along the ring.

With L GPUs at two PCIe switches the ring carries 2(L - 1)M/L over each switch's link to the CPU, in each direction. The sender's
link carries M more each way, and so does the broadcast where it passes on.
"""

from __future__ import annotations

from itertools import pairwise

from inalab.hosts.machines.inside import Machine, Stage, around
from inalab.hosts.tcp.schedules import Move


class LocalRing:
    """See hosts.machines.inside.Strategy. A machine's first GPU is its sender."""

    def shards(self, machine: Machine) -> int:
        return len(machine.gpus)

    def gather(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        return [*around(machine.gpus, shard - 1, block), [Move(machine.gpus[0], machine.memory, block, True)]]

    def spread(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        passed = [machine.memory, *machine.gpus]
        return [[Move(source, destination, block, False)] for source, destination in pairwise(passed)]


STRATEGY = LocalRing()
