"""Ring all-reduce over TCP: 2(n-1)/n of the tensor over every worker's link (Patarasuk and Yuan, 2009)."""

from __future__ import annotations

from inalab.hosts.tcp.schedules import Nodes, Schedule, ring
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled


class Ring(Scheduled):
    """Each worker sends to the next."""

    name = "ring"
    all_to_all = True
    converges = False
    look = Look("ring", "#d1762d", "s")

    def schedule(self, nodes: Nodes) -> Schedule:
        return ring(nodes.workers)


SCHEME = Ring()
