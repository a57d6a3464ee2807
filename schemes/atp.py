"""ATP (NSDI '21): jobs share the switches' aggregators packet by packet; what finds none is added at parameter servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from inalab.hosts.atp import wire
from inalab.hosts.atp.congestion import CONTROLS, NONE, PAPER
from inalab.hosts.atp.control import ServerConnections, answering, gather
from inalab.hosts.atp.server import AtpServer
from inalab.hosts.atp.tree import Tree
from inalab.hosts.atp.worker import AtpWorker
from inalab.hosts.collective import AggregationError, Collective, Membership
from inalab.hosts.drivers.server import ServerDriver
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.schemes.scheme import Admitted, Cells, Conditions, Look, Simulation, one_of
from inalab.schemes.streaming import P4, RecoverySettings, Streaming
from inalab.switches import atp
from inalab.switches.commands import Commands
from inalab.switches.control import Control
from inalab.switches.forwarding import by_packet
from inalab.switches.sizes import MAX_JOBS, MAX_WORKERS
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import Topology

AGGREGATOR_LIFETIME = 1.0  # seconds that others respect an aggregator that is not touched
PACE = 0.98  # of a link's rate


class Settings(RecoverySettings):
    """Slots are the chunks of a worker's window. Without a fixed factor, tensors have exponents of their own."""

    servers: int = Field(1, ge=1, description="dedicated servers, on hosts of their own")
    aggregators: int = Field(atp.AGGREGATORS, description="of each switch, shared by all jobs")
    congestion: Annotated[str, one_of(*CONTROLS)] = Field(
        "marks",
        description="what cuts the window: marks, paper (marks and losses), a2tp (marks, and collisions one of their own), or none",
    )

    @field_validator("aggregators")
    @classmethod
    def _fit(cls, aggregators: int) -> int:
        if not 1 <= aggregators <= atp.AGGREGATORS:
            raise ValueError(f"a switch has from 1 to {atp.AGGREGATORS}")
        return aggregators

    @field_validator("congestion", mode="before")
    @classmethod
    def _as_word(cls, value: Any) -> Any:
        """What it was in the records of 0.4: whether the window followed marks and losses."""
        return {True: PAPER, False: NONE}[value] if isinstance(value, bool) else value


class Atp(Streaming):
    """A window of chunks that go to a parameter server by way of an aggregator, if one is free."""

    name = "atp"
    look = Look("ATP", "#c9a227", "X")
    Settings = Settings
    program = P4 / "atp.p4"
    of_bound = (0.85, 1.02)
    simulation, events, header = Simulation.AGGREGATORS, atp.EVENTS, wire.HEADER.itemsize
    resends_without_loss = True  # what found no aggregator in time
    prioritizes = False  # workers say how urgent their gradients are

    def part_of_memory(self, cells: int, jobs: int, window: int) -> dict[str, int]:
        """All jobs share all aggregators."""
        return {"aggregators": cells}

    def step(self, settings: Any, workers: int, largest: float) -> float:
        """Of the factor, where it is fixed; what overflows is added as floats."""
        return float(1 / settings.scaling) if settings.scaling else super().step(settings, workers, largest)

    def servers(self, settings: Any) -> int:
        return int(settings.servers)

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        if plan.pods:
            raise ValueError(f"scheme {self.name} adds at two levels of switches: choose a topology without pods")
        told = sum(np.array(_sources(plan, job.plan)) for job in jobs)
        if (most := int(np.max(told))) > atp.SOURCES:
            raise ValueError(f"a rack's switch tells {atp.SOURCES} sources apart, not {most}: fewer workers, servers or spines")
        for job in jobs:
            own = job.plan
            for server in own.servers:
                Tree(Membership(own.number, 0, own.size, own.members(plan.topology.racks)), server.rack)

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        s, m = place.settings, place.membership
        core = AtpWorker(
            m, epoch, place.server_racks, window=s.slots, k=s.k, aggregators=s.aggregators, scaling=s.scaling,
            congestion=s.congestion, recovery=s.recovery, patience=s.patience, prioritizes=self.prioritizes,
        )  # fmt: skip
        local, *servers = ((place.peers[node], wire.UDP_PORT) for node in [m.rank, *range(m.size, len(place.peers))])
        worker = StreamDriver(core, place.driver, local, servers, pulse)
        try:
            worker.control = ServerConnections(place.driver, m, place.control, s.patience, epoch)
        except AggregationError:
            worker.close()
            raise
        return worker

    def serve(self, place: Place, over: Over) -> Serving | None:
        s, m = place.settings, place.membership
        if (group := gather(place.driver, m, place.control, s.patience, over)) is None:
            return None
        core = AtpServer(
            m, group.epoch, place.server_racks, len(place.switches), window=s.slots, k=s.k, aggregators=s.aggregators,
            times=wire.link_times(s.k, place.rates[m.rank]),
        )  # fmt: skip
        local, *peers = ((ip, wire.UDP_PORT) for ip in [place.peers[m.rank], *place.switches, *place.peers[: m.size]])
        group.handler = answering(core)
        return ServerDriver(core, place.driver, local, peers, s.slots, group)

    # --- switches

    def queue(self, job: Admitted) -> int:
        """Where no aggregator is free, every worker's window comes to one port."""
        return 2 * int(job.settings.slots) * job.plan.size

    def marks_from(self, jobs: Sequence[Admitted], conditions: Conditions) -> int:
        """More than a window of one job, or half of a queue that is shorter than two.

        One job alone, whose packets are added on the way, then keeps its window where the machine lets them wait for some
        milliseconds and they arrive in a burst. Windows that meet in a queue, of two jobs or of workers whose packets find no
        aggregator, are marked while it still has packets for its link.
        """
        largest = max(job.settings.slots for job in jobs)
        return int(min(largest, max(1, conditions.queue // 2)) if conditions.queue else largest)

    def pace(self, rate: float, jobs: Sequence[Admitted], conditions: Conditions) -> int:
        """A little less than the link carries.

        Queues then form in the switch, where their depth is seen. A switch's rate is in packets, and a query takes the time of a
        vector. So one job alone, which has none to make room for, is not paced: where packets are lost that would be the larger
        part of what the loss costs.
        """
        if conditions.mixed or not (max(conditions.streams, len(jobs)) > 1 or conditions.queue or conditions.background):
            return 0
        return int(PACE * rate * 1e6 / min(wire.bits_on_wire(job.settings.k) for job in jobs))

    def configure(
        self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions
    ) -> None:  # fmt: skip
        """Lifetime, marking and pacing of the switch."""
        on_one_way = plan.switches[name].rack is None and plan.topology.spreads
        trunks = atp.all_pass() if on_one_way else atp.trunks(plan.trunks(name))
        commands.add(*atp.settings(AGGREGATOR_LIFETIME, self.marks_from(jobs, conditions)), *trunks)
        if plan.topology.by_packet:
            by_packet(commands, "result_paths")
        rates = {link.number: link.rate for link in plan.links}
        for a in plan.switches[name].attachments:
            if packets := self.pace(rates[a.link] or 0.0, jobs, conditions):
                commands.add(f"set_queue_rate {packets} {a.port}")

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        """Likewise, and the admission of each job."""
        self.configure(commands, plan, name, jobs, conditions)
        for job in jobs:
            self.admit(commands, plan, name, job)

    def most_jobs(self, settings: Any) -> int:
        """They share the aggregators."""
        return MAX_JOBS

    def admit(self, commands: Commands, plan: NetworkPlan, name: str, job: Admitted) -> None:
        admit(commands, plan, job.plan, name)

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """Packets turned away by reason, what became of each job's packets, and the aggregators that are not free."""
        events = [atp.events(control, job.plan.number) for job in jobs]
        return {"rejected": atp.rejected(control), "jobs": events, "aggregators_held": atp.held(control)}

    def memory(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> list[Cells]:
        """The aggregators that are not free, by their owners, which are job and sequence. The servers take the chunks in turn."""
        bitmaps, owners = control.registers("aggregator.bitmap"), control.registers("aggregator.owner")
        found = []
        for job in jobs:
            number, by_server = job.plan.number, [_children(plan, job.plan, name, server.rack) for server in job.plan.servers]
            taken = {}
            for i, bits in enumerate(bitmaps):
                if bits and owners[i] >> 24 & 0xFF == number:
                    children = by_server[owners[i] % wire.SEQUENCES % len(by_server)]
                    inside = [child for bit, child in children.items() if bits & bit]
                    taken[i] = inside, [child for child in children.values() if child not in inside]
            found.append(Cells(f"job {number}, aggregators", len(bitmaps), taken))
        return found

    def metrics(self, counted: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {"aggregators_held": sum(switch["aggregators_held"] for switch in counted)}

    # --- theory

    def bits_on_wire(self, k: int) -> int:
        return wire.bits_on_wire(k)

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """Each link carries a chunk once in each direction if all find an aggregator; but see `busiest`. Where racks have several
        ways to each other, each of these carries an equal part."""
        between = busiest(plan.topology) / (len(plan.roots) if plan.topology.spreads else 1)
        loads = [(link.rate, between if link.number in plan.uplinks else 1.0) for link in plan.links]
        carried = self.packets(settings, elements) * self.bits_on_wire(settings.k)
        return max(float(load * carried / (rate * 1e6)) for rate, load in loads if rate is not None)


def _sources(plan: NetworkPlan, job: JobPlan) -> list[int]:
    """By rack, how many sources of a job's packets its switch tells apart: other racks' workers for each way that they may come."""
    ways = len(plan.roots) if plan.topology.spreads else 1
    homes = [sum(server.rack == rack for server in job.servers) for rack in range(plan.topology.racks)]
    here = [len(ranks) for ranks in job.members(plan.topology.racks)]
    return [own * len(job.servers) + home * (job.size - own) * ways for own, home in zip(here, homes, strict=True)]


def busiest(topology: Topology) -> float:
    """Sums and results that come into a rack, for each of a job's chunks: the most of all racks.

    A rack's own servers, which are dealt out in turn, get the other racks' sums of their share; of the rest come results.
    """
    racks, servers = topology.racks, topology.servers
    shares = [len(range(r, servers, racks)) / servers for r in range(racks)]
    return float(max(share * (racks - 1) + (1 - share) for share in shares))


def admit(commands: Commands, plan: NetworkPlan, job: JobPlan, name: str) -> None:
    """Admission of a job at the switch `name`."""
    switch = plan.switches[name]
    own, rack = switch.station, switch.rack
    racks = {r: ranks for r, ranks in enumerate(job.members(plan.topology.racks)) if ranks}
    if rack is None:
        _admit_above(commands, plan, job, name, list(racks))
        return
    here = [job.hosts[rank] for rank in racks.get(rack, [])]
    away = {r: ranks for r, ranks in racks.items() if r != rack}
    children = [atp.Child(1 + i, plan.port(name, host.name), host.station) for i, host in enumerate(here)]
    next_up = plan.above(name, job.number)
    uppers = plan.roots if plan.topology.spreads else [next_up] if next_up else []
    above = tuple(atp.Child(MAX_WORKERS + 1 + i, plan.port(name, upper.name), upper.station) for i, upper in enumerate(uppers))
    sources, servers = [], []
    for server in job.servers:
        at_home = server.rack == rack
        ports = [plan.port(name, server.name)] if at_home else plan.trunks(name)
        bit, fan_in = (0, len(here) + len(away)) if at_home else (atp.rack_bit(rack), len(here))
        others = above if at_home and away else ()
        servers.append(atp.Server(tuple(ports), server.station, tuple(children), bit, fan_in, others))
        for i, host in enumerate(here):
            bits = (1 << i, (0, 0xFFFFFFFF)) if at_home else (bit, (1 << i, 0xFFFFFFFF))
            sources.append(atp.Source(plan.port(name, host.name), host.station, server.station, int(at_home), *bits, fan_in))
        for other, ranks in away.items() if at_home else ():
            outside = 0xFFFFFFFF ^ (1 << len(ranks)) - 1  # bits of no worker there
            for worker in (job.hosts[rank].station for rank in ranks):
                bits = (atp.rack_bit(other), (0, outside))
                sources += [atp.Source(upper.port, worker, server.station, 1, *bits, fan_in) for upper in above]
    atp.admit(commands, job.number, own, sources, servers)


def _admit_above(commands: Commands, plan: NetworkPlan, job: JobPlan, name: str, racks: list[int]) -> None:
    """At a switch above racks: it is in transit for gradients. Results go to every rack of these but the server's own."""
    own, ports = plan.switches[name].station, {r: plan.port(name, f"tor{r}") for r in range(plan.topology.racks)}
    below = {r: atp.Child(1 + r, ports[r], plan.racks[r].station) for r in racks}
    spread = [tuple(child for r, child in below.items() if r != server.rack) for server in job.servers]
    if plan.topology.spreads:
        atp.addresses(commands, job.number, below.values())
        for number, (server, to) in enumerate(zip(job.servers, spread, strict=True)):
            atp.relay(commands, job.number, number, own, server.station, ports[server.rack], to)
    elif plan.switches[name] is plan.root(job.number):
        servers = [atp.Server((ports[s.rack],), s.station, to) for s, to in zip(job.servers, spread, strict=True)]
        commands.add(*atp.transit())
        atp.admit(commands, job.number, own, [], servers)
    else:
        commands.add(*(atp.passing_by(job.number, ports[server.rack], server.station) for server in job.servers))


def _children(plan: NetworkPlan, job: JobPlan, name: str, home: int) -> dict[int, str]:
    """Who sends its part to the switch `name` for a server in the rack `home`, by their bits; above the racks none."""
    rack, members = plan.switches[name].rack, job.members(plan.topology.racks)
    if rack is None:
        return {}
    here = {1 << i: job.hosts[rank].name for i, rank in enumerate(members[rack])}
    away = {atp.rack_bit(r): plan.racks[r].name for r, ranks in enumerate(members) if ranks and r != rack}
    return here | away if rack == home else here


SCHEME = Atp()
