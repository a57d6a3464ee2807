"""Gloo, PyTorch's own backend, over the data network: what users have today. Its bound is a ring's."""

from __future__ import annotations

from inalab.hosts.tcp.schedules import Nodes, Schedule, ring
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled


class Gloo(Scheduled):
    """torch.distributed's own group sums, over the kernel's TCP."""

    name = "gloo"
    all_to_all = True
    look = Look("Gloo", "#4f9d69", "D")
    native, driven = True, False

    def schedule(self, nodes: Nodes) -> Schedule:
        return ring(nodes.workers)


SCHEME = Gloo()
