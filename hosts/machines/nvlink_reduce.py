"""Reduction over NVLink to one GPU that does not share the network interface's PCIe switch (BytePS, OSDI '20, section 4.2.2).

The GPUs reduce-scatter among themselves, and each sends its part to that one, which copies the sum to host memory. So no GPU uses
the link between the network interface's PCIe switch and the CPU, and that of the chosen GPU's switch carries M each way.
"""

from __future__ import annotations

from inalab.hosts.machines.inside import Machine, Stage
from inalab.hosts.tcp.schedules import Move


class NvlinkReduce:
    """See hosts.machines.inside.Strategy."""

    def shards(self, machine: Machine) -> int:
        return len(machine.gpus)

    def _sender(self, machine: Machine) -> int:
        others = [group for switch, group in machine.switches.items() if switch != machine.nic]
        if not others:
            raise ValueError("all GPUs share the network interface's PCIe switch: choose another strategy")
        return others[0][0]

    def gather(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        gpus, sender = machine.gpus, self._sender(machine)
        own = gpus[shard]
        scatter = [Move(gpu, own, block, True) for gpu in gpus if gpu != own]
        return [scatter, [Move(own, sender, block, False)] if own != sender else [], [Move(sender, machine.memory, block, True)]]

    def spread(self, machine: Machine, block: int, shard: int) -> list[Stage]:
        gpus, sender = machine.gpus, self._sender(machine)
        own = gpus[shard]
        copy = [Move(machine.memory, sender, block, False)]
        scatter = [Move(sender, own, block, False)] if own != sender else []
        return [copy, scatter, [Move(own, gpu, block, False) for gpu in gpus if gpu not in (own, sender)]]


STRATEGY = NvlinkReduce()
