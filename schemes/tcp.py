"""Schemes whose nodes have connections, over TCP or RDMA; and of those, the ones whose messages follow a schedule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from inalab.hosts.collective import Collective
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.hosts.roce import settings as roce
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.pairwise import Pairwise, Server
from inalab.hosts.tcp.schedules import Nodes, Schedule, blocks
from inalab.schemes import oracle
from inalab.schemes.scheme import Admitted, Conditions, Scheme, SchemeSettings, Simulation, Transfers, one_of
from inalab.switches import ecn
from inalab.switches.commands import Commands
from inalab.topologies.plan import HostPlan, NetworkPlan

SEGMENT = 1448  # bytes of data in a full TCP segment with time stamps
TCP_FRAME = SEGMENT + 66  # Ethernet, IP and TCP headers with it
TCP_OVERHEAD = (TCP_FRAME + PHYSICAL_BYTES) / SEGMENT
TCP, RDMA = "tcp", "rdma"
GO_BACK_N, SELECTIVE = "go-back-n", "selective"


class TransportSettings(SchemeSettings):
    """What carries the bytes between nodes."""

    transport: Annotated[str, one_of(TCP, RDMA)] = Field(
        TCP, description="of connections: tcp, or rdma (RoCEv2, queue pairs of type RC)"
    )
    retransmission: Annotated[str, one_of(GO_BACK_N, SELECTIVE)] = Field(
        GO_BACK_N, description="over rdma, what is sent again: all from the lost packet on (go-back-n), or what is lost (selective)"
    )
    dcqcn: bool = Field(True, description="over rdma: switches mark packets that find deep queues, and senders slow down (DCQCN)")


class OverTcp(Scheme):
    """Nodes have TCP connections to each other."""

    def group(self, place: Place, epoch: int = 0, pulse: Pulse = None) -> Group:
        """A node's group, and what carries its bytes."""
        return place.group(epoch, pulse)

    def overhead(self, settings: Any) -> float:
        """Bytes on the wire over those of data."""
        return TCP_OVERHEAD

    def framing(self, settings: Any, elements: int) -> float:
        return TCP_FRAME / SEGMENT


class OverConnections(OverTcp):
    """Nodes have connections to each other, over TCP or RDMA."""

    Settings: type[Any] = TransportSettings
    unsimulated: tuple[str, ...] = ("transport", "retransmission", "dcqcn")
    converges = True  # several nodes may send to one at once, so that queues form

    def group(self, place: Place, epoch: int = 0, pulse: Pulse = None) -> Group:
        s = place.settings
        if s.transport == TCP:
            return super().group(place, epoch, pulse)
        flows = len(place.peers) if self.converges else 1
        pairs = QueuePairs((*place.rates, *place.uplinks), flows, s.retransmission == SELECTIVE, s.dcqcn and self.converges)
        return place.group(epoch, pulse, pairs)

    def overhead(self, settings: Any) -> float:
        return float(roce.ON_WIRE / roce.PAYLOAD) if settings.transport == RDMA else super().overhead(settings)

    def framing(self, settings: Any, elements: int) -> float:
        return float(roce.FRAME / roce.PAYLOAD) if settings.transport == RDMA else super().framing(settings, elements)

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        """Whichever jobs there are."""
        self.configure(commands, plan, name, jobs, conditions)

    def configure(
        self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions
    ) -> None:  # fmt: skip
        """For DCQCN: marks."""
        if not self.converges or not any(job.settings.transport == RDMA and job.settings.dcqcn for job in jobs):
            return
        rates = {link.number: link.rate for link in plan.links}
        for a in plan.switches[name].attachments:
            if rate := rates[a.link]:
                commands.add(*ecn.marking(a.port, rate, roce.ON_WIRE, conditions.queue))


class ScheduledOverTcp(OverTcp):
    """Nodes follow a schedule (hosts.tcp.schedules): which block of the tensor goes from whom to whom, in which step."""

    simulation = Simulation.MESSAGES
    driven = timeline = True

    @abstractmethod
    def schedule(self, nodes: Nodes) -> Schedule:
        """Raises ValueError for numbers of workers and servers that it does not exist for."""
        raise NotImplementedError

    def check(self, jobs: Any, plan: NetworkPlan) -> None:
        for job in jobs:
            self.schedule(self.nodes(plan, job.plan.hosts, job.plan.servers, job.settings))

    def _of(self, place: Place) -> Schedule:
        return self.schedule(self.nodes_around(place))

    @staticmethod
    def nodes_around(place: Place) -> Nodes:
        """Of the job that a node has its place in."""
        workers = place.membership.size
        return Nodes(workers, len(place.peers) - workers, place.rates, place.racks, place.groups, place.nic, place.settings)

    @staticmethod
    def nodes(plan: NetworkPlan, workers: Sequence[HostPlan], servers: Sequence[HostPlan], settings: Any) -> Nodes:
        """Of a job on the network."""
        everyone = [*workers, *servers]
        racks = [host.rack for host in everyone]
        return Nodes(len(workers), len(servers), plan.rates(everyone), racks, plan.groups(workers), plan.topology.nic, settings)

    def on(self, plan: NetworkPlan, settings: Any) -> Schedule:
        """The schedule of a job that has the whole network."""
        return self.schedule(self.nodes(plan, plan.hosts, plan.servers, settings))

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        return Pairwise(self.group(place, epoch, pulse), self._of(place))

    def serve(self, place: Place, over: Over) -> Serving | None:
        return Server.of_next_group(self.group(place), self._of(place), over)

    def transfers(self, plan: NetworkPlan, settings: Any, elements: int) -> Transfers:
        """All moves between two nodes in a step are one, and connections share links alike."""
        schedule = self.on(plan, settings)
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
        return self.overhead(settings) * oracle.seconds(self.on(plan, settings), plan, 4 * elements)

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        steps = oracle.load(self.on(plan, settings), plan, 1.0)
        return self.framing(settings, elements) * max(sum(step[number, True] for step in steps) for number in plan.uplinks)


class Scheduled(OverConnections, ScheduledOverTcp):
    """Likewise, over TCP or RDMA."""
