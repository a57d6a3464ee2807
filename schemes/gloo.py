"""Gloo, PyTorch's own backend, over the data network: what users have today. Its bound is a ring's."""

from __future__ import annotations

from typing import Any

from inalab.hosts.collective import Collective
from inalab.hosts.place import Place, Pulse
from inalab.hosts.tcp.schedules import Nodes, Schedule, ring
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import ScheduledOverTcp


class Gloo(ScheduledOverTcp):
    """torch.distributed's own group sums, over the kernel's TCP."""

    name = "gloo"
    all_to_all = True
    look = Look("Gloo", "#4f9d69", "D")
    native, driven, timeline = True, False, False

    def elastic(self, settings: Any) -> bool:
        """On real networks, as a sum of its own group."""
        return True

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        from inalab.hosts.gloo_sums import GlooSums  # which loads PyTorch

        return GlooSums(place, epoch, pulse)

    def schedule(self, nodes: Nodes) -> Schedule:
        return ring(nodes.workers)


SCHEME = Gloo()
