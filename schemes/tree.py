"""An aggregation tree over TCP that follows the links' rates (MLfabric, SoCC '20; our reading of it)."""

from __future__ import annotations

from pydantic import Field

from inalab.hosts.collective import Collective
from inalab.hosts.place import Place, Pulse
from inalab.hosts.tcp.replanned import Replanned, Replanning
from inalab.hosts.tcp.schedules import Nodes, Schedule
from inalab.hosts.tcp.trees import tree
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled, TransportSettings


class Settings(TransportSettings):
    """What the tree follows."""

    learn: bool = Field(
        False, description="workers measure their links' rates and plan the tree anew when these change; else it stays as it is"
    )


class AggregationTree(Scheduled):
    """Sums go up a tree of workers, and the total comes down it; workers with slow links are its leaves."""

    name = "tree"
    look = Look("aggregation tree", "#8c6d1f", "p")
    Settings = Settings
    unsimulated = (*Scheduled.unsimulated, "learn")
    of_bound = (0.6, 1.02)  # acknowledgments wait behind data

    def schedule(self, nodes: Nodes) -> Schedule:
        return tree(nodes.rates[: nodes.workers], nodes.racks)

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        if not place.settings.learn:
            return super().join(place, epoch, pulse)
        octets = 1e6 / 8 / self.overhead(place.settings)  # of data in a second, where a megabit on the wire is
        nodes = self.nodes_around(place)
        given = [octets * rate for rate in nodes.rates[: nodes.workers]]
        return Replanned(self.group(place, epoch, pulse), Replanning(given, nodes.racks))


SCHEME = AggregationTree()
