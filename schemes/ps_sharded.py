"""A parameter server on every worker, over TCP: every worker sends block w to worker w, which sends the sum back."""

from __future__ import annotations

from inalab.hosts.tcp.schedules import Nodes, Schedule, sharded_server
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled


class ShardedParameterServer(Scheduled):
    """Every worker serves an equal share of the tensor."""

    name = "ps-sharded"
    all_to_all = True
    look = Look("server on every worker", "#7d5ba6", "v")
    of_bound = (0.4, 1.02)  # acknowledgments wait behind data, the more so the more partners a node has at once

    def schedule(self, nodes: Nodes) -> Schedule:
        return sharded_server(nodes.workers)


SCHEME = ShardedParameterServer()
