"""An aggregation tree over TCP that follows the links' rates (MLfabric, SoCC '20; our reading of it)."""

from __future__ import annotations

from inalab.hosts.tcp.schedules import Nodes, Schedule
from inalab.hosts.tcp.trees import tree
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled


class AggregationTree(Scheduled):
    """Sums go up a tree of workers, and the total comes down it; workers with slow links are its leaves."""

    name = "tree"
    look = Look("aggregation tree", "#8c6d1f", "p")
    of_bound = (0.6, 1.02)  # acknowledgments wait behind data

    def schedule(self, nodes: Nodes) -> Schedule:
        return tree(nodes.rates[: nodes.workers], nodes.racks)


SCHEME = AggregationTree()
