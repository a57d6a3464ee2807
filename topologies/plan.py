"""A network as planned: names, addresses, ports, links and rates, and which way ordinary traffic goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import networkx

from inalab.switches.commands import Commands
from inalab.switches.forwarding import Station, by_packet, forward
from inalab.topologies.topology import Topology, TopologyError


@dataclass(frozen=True)
class Attachment:
    """One port of a switch: what is at the other end, and which link it is. `upper` is true at the link's upper end."""

    port: int
    peer: str
    link: int
    upper: bool


@dataclass
class SwitchPlan:
    """A switch of the network: its name, its address, its ports; a rack's switch has the rack's number."""

    name: str
    station: Station
    rack: int | None = None
    attachments: list[Attachment] = field(default_factory=list)


@dataclass
class HostPlan:
    """A worker's or a server's host: name, address, the switch that it talks to, and its address on the management network.

    Servers have the ranks after the workers'.
    """

    name: str
    rank: int
    rack: int
    station: Station
    switch: Station
    management_ip: str
    home: str  # the switch that its link leads to

    @property
    def data_interface(self) -> str:
        """Its interface on the data network."""
        return f"{self.name}-eth0"

    @property
    def management_interface(self) -> str:
        """Its interface on the management network."""
        return f"{self.name}-mgmt"


@dataclass(frozen=True)
class LinkPlan:
    """A link between a lower node (a host, or a rack's switch) and the switch above it."""

    number: int
    lower: str
    lower_port: int
    upper: str
    upper_port: int
    rate: float | None
    length: float = 1.0  # ordinary traffic goes the shortest way
    delay: float = 0.0  # ms that packets take longer, where the switches can hold them so long (targets embedded and virtual)

    @property
    def name(self) -> str:
        """Its two ends: two nodes share one link at most."""
        return f"{self.lower}-{self.upper}"


CLOSE = 1e-9  # lengths of ways that differ by less are alike
Hop = tuple[int, bool]  # number of a link in the plan, and whether a packet goes up


class NetworkPlan:
    """What a topology builds. Ports of a rack's switch: workers in the order of their ranks, then uplinks, then servers."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.switches: dict[str, SwitchPlan] = {}
        self.hosts: list[HostPlan] = []
        self.servers: list[HostPlan] = []
        self.links: list[LinkPlan] = []
        self.racks: list[SwitchPlan] = []  # their switches
        self.inner: list[SwitchPlan] = []  # switches inside racks, which forward and do nothing else
        self.edges: list[str] = []  # by rack: the switch from which its link leads to other racks
        self.pods: list[SwitchPlan] = []  # switches without hosts, which join racks, and are joined by roots
        self.roots: list[SwitchPlan] = []  # switches without hosts, which join racks, or pods where there are any
        topology.build(self)
        self._check()

    def _check(self) -> None:
        """Raise TopologyError for what the control planes cannot serve."""
        name = type(self.topology).__name__
        for switch in self.switches.values():
            ports = [a.port for a in switch.attachments]
            if len(set(ports)) < len(ports):
                raise TopologyError(f"topology {name} uses a port of {switch.name} twice: its uplinks are {self.topology.uplinks}")
        kind, below = ("pod", [pod.name for pod in self.pods]) if self.pods else ("rack", self.edges)
        for root in self.roots:
            if [a.peer for a in root.attachments] != below:
                raise TopologyError(f"topology {name} does not link each {kind} to {root.name} once, in their order")
        in_pods = [rack for pod in self.pods for rack in self.below(pod.name)]
        if self.pods and in_pods != [rack.name for rack in self.racks]:
            raise TopologyError(f"topology {name} does not link each rack to one pod, in their order")
        if not self.roots and len(self.racks) > 2:
            raise TopologyError(f"topology {name} has {len(self.racks)} racks and no root: more than two racks need one")

    # --- what a topology's build calls

    def add_racks(self) -> list[SwitchPlan]:
        """The racks' switches with all hosts: workers by rank, and the servers, which are dealt out to the racks in turn."""
        topology = self.topology
        for r, ranks in enumerate(topology.members):
            rack = self._switch(f"{topology.rack_name}{r}", Station(f"02:00:00:01:{r:02x}:fe", f"10.0.{r}.254"), r)
            self.racks.append(rack)
            self.edges.append(rack.name)
            homes = topology.inside(self, rack)
            for i, (rank, home) in enumerate(zip(ranks, homes, strict=True)):
                station = Station(f"02:00:00:00:{r:02x}:{i + 1:02x}", f"10.0.{r}.{i + 1}")
                port = i if home is rack else len(home.attachments)
                self.hosts.append(self._host(f"h{rank}", rank, rack, home, station, port, topology.rate(rank)))
        for j in range(topology.servers):
            rack = self.racks[r := j % topology.racks]
            station = Station(f"02:00:00:03:{r:02x}:{j + 1:02x}", f"10.0.{r}.{j + 101}")
            port = topology.workers + topology.uplinks + j // topology.racks
            self.servers.append(self._host(f"s{j}", topology.size + j, rack, rack, station, port, topology.server_rate))
        return self.racks

    def add_inner(self, name: str, rack: SwitchPlan) -> SwitchPlan:
        """A switch inside a rack."""
        number = len(self.inner)
        station = Station(f"02:00:00:04:{number >> 8:02x}:{number & 255:02x}", f"10.1.{number // 250}.{number % 250 + 1}")
        self.inner.append(made := self._switch(name, station, None))
        return made

    def add_root(self, name: str) -> SwitchPlan:
        """A switch without hosts, above the racks or the pods."""
        self.roots.append(root := self._inner(name))
        return root

    def add_pod(self, name: str) -> SwitchPlan:
        """A switch without hosts, above some racks and below the roots."""
        self.pods.append(pod := self._inner(name))
        return pod

    def _inner(self, name: str) -> SwitchPlan:
        number = len(self.roots) + len(self.pods)
        return self._switch(name, Station(f"02:00:00:02:{number:02x}:fe", f"10.0.{255 - number}.254"), None)

    def add_link(
        self, lower: SwitchPlan, above: SwitchPlan, rate: float | None, length: float = 1.0, delay: float = 0.0
    ) -> None:  # fmt: skip
        """Join a rack's switch to a pod's, a root, or another rack's; or a pod's to a root."""
        lower_port, upper_port = self._uplink_port(lower), self._uplink_port(above)
        number = self._link(lower.name, lower_port, above, upper_port, rate, length, delay)
        lower.attachments.append(Attachment(lower_port, above.name, number, False))

    def _uplink_port(self, switch: SwitchPlan) -> int:
        return len(switch.attachments) if switch.rack is None else self.topology.workers + len(self.trunks(switch.name))

    def _switch(self, name: str, station: Station, rack: int | None) -> SwitchPlan:
        made = self.switches[name] = SwitchPlan(name, station, rack)
        return made

    def _host(
        self, name: str, rank: int, rack: SwitchPlan, home: SwitchPlan, station: Station, port: int, rate: float | None
    ) -> HostPlan:  # fmt: skip
        assert rack.rack is not None
        self._link(name, 0, home, port, rate)
        return HostPlan(name, rank, rack.rack, station, rack.station, f"192.168.{rank // 250}.{rank % 250 + 2}", home.name)

    def _link(
        self, lower: str, lower_port: int, upper: SwitchPlan, upper_port: int, rate: float | None, length: float = 1.0,
        delay: float = 0.0,
    ) -> int:  # fmt: skip
        number = len(self.links)
        self.links.append(LinkPlan(number, lower, lower_port, upper.name, upper_port, rate, length, delay))
        upper.attachments.append(Attachment(upper_port, lower, number, True))
        return number

    # --- what is there

    @property
    def everyone(self) -> list[HostPlan]:
        """Workers and servers, by rank."""
        return [*self.hosts, *self.servers]

    def root(self, job: int) -> SwitchPlan | None:
        """Where the sums of a job's racks meet: jobs have the roots in turn. None where there is no switch above the racks."""
        return self.roots[job % len(self.roots)] if self.roots else None

    def above(self, name: str, job: int) -> SwitchPlan | None:
        """The switch through which a switch reaches a job's hosts that are not below it; None for the root of the job.

        It is a rack's pod, the job's root, or a dumbbell's other rack.
        """
        if self.switches[name] is (root := self.root(job)):
            return None
        pod = next((pod for pod in self.pods if name in self.below(pod.name)), None)
        return pod or root or next((other for other in self.racks if other.name != name), None)

    def below(self, name: str) -> list[str]:
        """The switches below a switch that has no hosts."""
        return [a.peer for a in self.switches[name].attachments if a.upper and a.peer in self.switches]

    def number(self, name: str) -> int:
        """A switch's number among the racks', or the pods'."""
        switch = self.switches[name]
        return switch.rack if switch.rack is not None else self.pods.index(switch)

    def racks_of_pods(self) -> list[list[int]]:
        """The racks in each pod, by number; nothing where there are no pods."""
        return [[self.number(rack) for rack in self.below(pod.name)] for pod in self.pods]

    def port(self, name: str, peer: str) -> int:
        """The port of the switch `name` that leads to its neighbour `peer`."""
        return next(a.port for a in self.switches[name].attachments if a.peer == peer)

    def trunks(self, name: str) -> list[int]:
        """The ports of the switch `name` that lead to other switches."""
        return [a.port for a in self.switches[name].attachments if a.peer in self.switches]

    def links_above(self, names: Iterable[str]) -> list[LinkPlan]:
        """The links at whose lower ends these nodes are, in the nodes' order."""
        return [link for name in names for link in self.links if link.lower == name]

    def rates(self, hosts: Iterable[HostPlan]) -> list[float]:
        """Of these hosts' links, in Mbit/s; 0 where it is not limited."""
        limits = {link.lower: link.rate or 0.0 for link in self.links}
        return [limits[host.name] for host in hosts]

    def groups(self, workers: Iterable[HostPlan]) -> list[int]:
        """The PCIe switches that these are at, where racks are machines."""
        return [self.topology.group(host.rank % self.topology.workers) for host in workers]

    def uplink_rates(self) -> list[float]:
        """Of each rack's link to what is above it, in Mbit/s; 0 where it is not limited, or there is none."""
        between = [link for link in self.links if link.number in self.uplinks]
        return [next((link.rate or 0.0 for link in between if rack.name in (link.lower, link.upper)), 0.0) for rack in self.racks]

    @property
    def uplinks(self) -> set[int]:
        """The numbers of the links between switches."""
        return {link.number for link in self.links if link.lower in self.switches}

    def loses(self, number: int) -> bool:
        """Whether the link of this number may lose packets: what is inside a machine does not."""
        return not self.topology.machines or self.links[number].upper in {root.name for root in self.roots}

    # --- ordinary traffic

    @cached_property
    def _switch_graph(self) -> networkx.Graph:
        graph = networkx.Graph()
        graph.add_nodes_from(self.switches)
        between = ((link.lower, link.upper, link.length) for link in self.links if link.lower in self.switches)
        graph.add_weighted_edges_from(between)
        return graph

    @cached_property
    def _distances(self) -> dict[str, dict[str, float]]:
        return dict(networkx.all_pairs_dijkstra_path_length(self._switch_graph))

    @cached_property
    def _spanning_tree(self) -> networkx.Graph:
        """Broadcasts follow it, because a loop would multiply them."""
        return networkx.bfs_tree(self._switch_graph, next(iter(self.switches))).to_undirected()

    def next_switch(self, name: str, goal: str, choice: int = 0) -> str:
        """The neighbour through which the switch `name` reaches the switch `goal`; `choice` selects among equally short ways."""
        ways = self._ways(name, goal)
        return ways[choice % len(ways)]

    def _ways(self, name: str, goal: str) -> list[str]:
        """All neighbours through which the way is as short."""
        beside = [a for a in self.switches[name].attachments if a.peer in self.switches]
        lengths = [self.links[a.link].length + self._distances[a.peer][goal] for a in beside]
        return [a.peer for a, length in zip(beside, lengths, strict=True) if length < min(lengths) + CLOSE]

    def _ports(self, name: str, ways: list[str]) -> range:
        """Of a switch, to these neighbours; TopologyError where they do not follow each other."""
        ports = sorted(self.port(name, peer) for peer in ways)
        if ports != list(range(ports[0], ports[-1] + 1)):
            raise TopologyError(
                f"switch {name} spreads packets over ports {', '.join(map(str, ports))}: they have to follow each other"
            )
        return range(ports[0], ports[-1] + 1)

    def path(self, source: HostPlan, destination: HostPlan) -> list[Hop]:
        """The links that ordinary traffic crosses, in order."""
        names = [source.name, source.home]
        while names[-1] != destination.home:
            names.append(self.next_switch(names[-1], destination.home, destination.rank))
        names.append(destination.name)
        return [self.hop(*pair) for pair in itertools.pairwise(names)]

    def hop(self, name: str, peer: str) -> Hop:
        """From a node to its neighbour."""
        if (number := self._ends.get((name, peer))) is not None:
            return number, True
        return self._ends[peer, name], False

    @cached_property
    def _ends(self) -> dict[tuple[str, str], int]:
        return {(link.lower, link.upper): link.number for link in self.links}

    def forwarding(self, name: str, jobs: Mapping[int, int] | None = None) -> list[str]:
        """What `forward` adds at a switch that has no commands yet."""
        commands = Commands()
        self.forward(commands, name, jobs)
        return commands.lines

    def forward(self, commands: Commands, name: str, jobs: Mapping[int, int] | None = None) -> None:
        """Ordinary traffic at the switch `name`, between all hosts and switches. Each host has one way from everywhere.

        `jobs` are the jobs of hosts, by rank, that have to be reached through their job's root.
        """
        switch, stations = self.switches[name], {h.name: h.station for h in self.everyone}
        routes = {other.station.mac: self._towards(name, other.name, 0) for other in self.switches.values() if other is not switch}
        for host in self.everyone:
            if name == host.home:
                routes[host.station.mac] = self.port(name, host.name)
            else:
                routes[host.station.mac] = self._towards(name, host.home, (jobs or {}).get(host.rank, host.rank))
        flood = [a.port for a in switch.attachments if a.peer in stations or self._spanning_tree.has_edge(name, a.peer)]
        hosts = {a.port: stations[a.peer] for a in switch.attachments if a.peer in stations}
        forward(commands, flood, routes, hosts)
        if self.topology.by_packet:
            by_packet(commands)

    def _towards(self, name: str, goal: str, choice: int) -> int | range:
        """The port of a switch that leads to another one; all ports that do, where packets are spread over them."""
        ways = self._ways(name, goal)
        if self.topology.spreads and len(ways) > 1:
            return self._ports(name, ways)
        return self.port(name, ways[choice % len(ways)])
