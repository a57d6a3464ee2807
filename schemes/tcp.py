"""Schemes over the kernel's TCP: a schedule of messages between nodes, and its bound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from inalab.hosts.collective import Collective
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.hosts.tcp.pairwise import Pairwise, Server
from inalab.hosts.tcp.schedules import Nodes, Schedule, blocks
from inalab.schemes import oracle
from inalab.schemes.scheme import Scheme, Simulation, Transfers
from inalab.topologies.plan import HostPlan, NetworkPlan

SEGMENT = 1448  # bytes of data in a full TCP segment with time stamps
TCP_FRAME = SEGMENT + 66  # Ethernet, IP and TCP headers with it
TCP_OVERHEAD = (TCP_FRAME + PHYSICAL_BYTES) / SEGMENT


class Scheduled(Scheme):
    """Nodes follow a schedule (hosts.tcp.schedules): which block of the tensor goes from whom to whom, in which step."""

    simulation = Simulation.MESSAGES
    driven = True

    @abstractmethod
    def schedule(self, nodes: Nodes) -> Schedule:
        """Raises ValueError for numbers of workers and servers that it does not exist for."""
        raise NotImplementedError

    def check(self, jobs: Any, plan: NetworkPlan) -> None:
        for job in jobs:
            self.schedule(_nodes(plan, job.plan.hosts, job.plan.servers))

    def _of(self, place: Place) -> Schedule:
        workers = place.membership.size
        return self.schedule(Nodes(workers, len(place.peers) - workers, place.rates, place.racks))

    def _on(self, plan: NetworkPlan) -> Schedule:
        return self.schedule(_nodes(plan, plan.hosts, plan.servers))

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        return Pairwise(place.group(epoch, pulse), self._of(place))

    def serve(self, place: Place, over: Over) -> Serving | None:
        return Server.of_next_group(place.group(), self._of(place), over)

    def transfers(self, plan: NetworkPlan, settings: Any, elements: int) -> Transfers:
        """All moves between two nodes in a step are one, and connections share links alike."""
        schedule = self._on(plan)
        moves = np.array([(step, m.source, m.destination) for step, moves in enumerate(schedule) for m in moves], np.int64)
        if not len(moves):  # a worker alone
            none = np.zeros(0, np.int64)
            return Transfers(none, none, none, np.zeros(0), np.zeros(0))
        pairs, counts = np.unique(moves, axis=0, return_counts=True)
        sizes = np.multiply(counts, 4.0 * -(-elements // blocks(schedule)))
        steps, sources, destinations = np.ascontiguousarray(pairs.T)
        return Transfers(sources, destinations, steps, sizes, np.ones(len(pairs)))

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """What the oracle makes of the schedule."""
        return TCP_OVERHEAD * oracle.seconds(self._on(plan), plan, 4 * elements)

    def framing(self, settings: Any, elements: int) -> float:
        return TCP_FRAME / SEGMENT

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        steps = oracle.load(self._on(plan), plan, 1.0)
        return self.framing(settings, elements) * max(sum(step[number, True] for step in steps) for number in plan.uplinks)


def _nodes(plan: NetworkPlan, workers: Sequence[HostPlan], servers: Sequence[HostPlan]) -> Nodes:
    everyone = [*workers, *servers]
    return Nodes(len(workers), len(servers), plan.rates(everyone), [host.rack for host in everyone])
