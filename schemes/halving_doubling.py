"""Recursive halving and doubling over TCP (Thakur, Rabenseifner and Gropp, 2005)."""

from __future__ import annotations

from inalab.hosts.tcp.schedules import Nodes, Schedule, halving_doubling
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled


class HalvingDoubling(Scheduled):
    """Pairs at halving distances exchange halves of what they hold, then the way back."""

    name = "halving-doubling"
    look = Look("halving-doubling", "#2a9d9d", "P")
    of_bound = (0.4, 1.02)  # acknowledgments wait behind data, the more so the more partners a node has at once

    def schedule(self, nodes: Nodes) -> Schedule:
        return halving_doubling(nodes.workers)


SCHEME = HalvingDoubling()
