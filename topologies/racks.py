"""Racks of workers under one root: who is connected to whom, with which addresses and at what rate."""

from __future__ import annotations

from dataclasses import dataclass, field

from mininet.topo import Topo

from switches.forwarding import Station, forwarding
from switches.switchml import MAX_WORKERS
from topologies.links import RateLink

MAX_RACKS = 32
MAX_SERVERS = 32
MAX_PORTS = 64  # as p4/include/sizes.p4 has it


class TopologyError(ValueError):
    """A network that cannot be built; str() is one sentence that says what to change."""


@dataclass(frozen=True)
class Racks:
    """R racks of m workers, and dedicated servers spread over the racks. With one rack there is no root.

    Rates are in Mbit/s per direction, None for no limit; a server's link is as fast as a worker's.
    """

    racks: int = 2
    workers: int = 4
    host_rate: float | None = 10.0
    uplink_rate: float | None = 10.0
    servers: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.racks <= MAX_RACKS:
            raise TopologyError(f"{self.racks} racks: from 1 to {MAX_RACKS} are possible")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise TopologyError(f"{self.workers} workers in a rack: the program holds from 1 to {MAX_WORKERS} below one switch")
        if not 0 <= self.servers <= MAX_SERVERS:
            raise TopologyError(f"{self.servers} servers: from 0 to {MAX_SERVERS} are possible")
        ports = self.workers + 1 + -(-self.servers // self.racks)
        if ports > MAX_PORTS:
            raise TopologyError(f"a rack's switch would have {ports} ports, and has {MAX_PORTS}: fewer workers or servers a rack")
        for name, rate in (("host_rate", self.host_rate), ("uplink_rate", self.uplink_rate)):
            if rate is not None and not 0.1 <= rate <= 100_000:
                raise TopologyError(f"{name} is {rate} Mbit/s: from 0.1 to 100000 is possible")

    @property
    def size(self) -> int:
        return self.racks * self.workers

    @property
    def members(self) -> list[list[int]]:
        """The ranks of each rack."""
        return [list(range(r * self.workers, (r + 1) * self.workers)) for r in range(self.racks)]


@dataclass(frozen=True)
class Attachment:
    """One port of a switch: what is at the other end, and which link it is. `upper` is true at the link's upper end."""

    port: int
    peer: str
    link: int
    upper: bool


@dataclass
class SwitchPlan:
    """A switch of the network: its name, its address, its ports."""

    name: str
    station: Station
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

    @property
    def data_interface(self) -> str:
        """Its interface on the data network."""
        return f"{self.name}-eth0"

    @property
    def management_interface(self) -> str:
        """Its interface on the management network."""
        return f"{self.name}-mgmt"


def _management_ip(rank: int) -> str:
    return f"192.168.{rank // 250}.{rank % 250 + 2}"


class RackTopo(Topo):
    """The data network of a Racks description, for Mininet."""

    def build(self, plan: NetworkPlan) -> None:
        """Hosts, switches and links of the plan; a link's parameter `rate` is in Mbit/s."""
        for number, switch in enumerate(plan.switches.values(), start=1):
            self.addSwitch(switch.name, dpid=f"{number:x}")
        for host in plan.everyone:
            self.addHost(host.name, mac=host.station.mac, ip=f"{host.station.ip}/16")
        for link in plan.links:
            self.addLink(link.lower, link.upper, port1=link.lower_port, port2=link.upper_port, cls=RateLink, rate=link.rate)


@dataclass(frozen=True)
class LinkPlan:
    """A link between a lower node (host or rack switch) and the switch above it."""

    number: int
    lower: str
    lower_port: int
    upper: str
    upper_port: int
    rate: float | None


class NetworkPlan:
    """Names, addresses, ports and links of a Racks description, and what each switch must be told."""

    def __init__(self, racks: Racks) -> None:
        self.racks = racks
        self.switches: dict[str, SwitchPlan] = {}
        self.hosts: list[HostPlan] = []
        self.servers: list[HostPlan] = []
        self.links: list[LinkPlan] = []
        for r in range(racks.racks):
            tor = self.switches[f"tor{r}"] = SwitchPlan(f"tor{r}", Station(f"02:00:00:01:{r:02x}:fe", f"10.0.{r}.254"))
            for i in range(racks.workers):
                rank = len(self.hosts)
                station = Station(f"02:00:00:00:{r:02x}:{i + 1:02x}", f"10.0.{r}.{i + 1}")
                host = HostPlan(f"h{rank}", rank, r, station, tor.station, _management_ip(rank))
                self.hosts.append(host)
                self._link(host.name, 0, tor, i, racks.host_rate)
        for j in range(racks.servers):
            rank, r = racks.size + j, j % racks.racks
            tor = self.switches[f"tor{r}"]
            station = Station(f"02:00:00:03:{r:02x}:{j + 1:02x}", f"10.0.{r}.{j + 101}")
            server = HostPlan(f"s{j}", rank, r, station, tor.station, _management_ip(rank))
            self.servers.append(server)
            self._link(server.name, 0, tor, racks.workers + 1 + j // racks.racks, racks.host_rate)
        if racks.racks > 1:
            root = self.switches["root"] = SwitchPlan("root", Station("02:00:00:02:00:fe", "10.0.255.254"))
            for r in range(racks.racks):
                tor = self.switches[f"tor{r}"]
                number = self._link(tor.name, racks.workers, root, r, racks.uplink_rate)
                tor.attachments.append(Attachment(racks.workers, "root", number, False))

    def _link(self, lower: str, lower_port: int, upper: SwitchPlan, upper_port: int, rate: float | None) -> int:
        number = len(self.links)
        self.links.append(LinkPlan(number, lower, lower_port, upper.name, upper_port, rate))
        upper.attachments.append(Attachment(upper_port, lower, number, True))
        return number

    @property
    def everyone(self) -> list[HostPlan]:
        """Workers and servers, by rank."""
        return [*self.hosts, *self.servers]

    def topo(self) -> RackTopo:
        """The plan as a Mininet topology."""
        return RackTopo(plan=self)

    def rack(self, name: str) -> int:
        """The rack of a rack's switch."""
        return int(name.removeprefix("tor"))

    def port(self, name: str, peer: str) -> int:
        """The port of the switch `name` that leads to `peer`."""
        return next(a.port for a in self.switches[name].attachments if a.peer == peer)

    def trunks(self, name: str) -> list[int]:
        """The ports of the switch `name` that lead to other switches."""
        return [a.port for a in self.switches[name].attachments if a.peer in self.switches]

    def forwarding(self, name: str) -> list[str]:
        """Ordinary traffic at the switch `name`, between all hosts and switches."""
        routes = {}
        for a in self.switches[name].attachments:
            if a.upper and a.peer.startswith("tor"):
                routes[self.switches[a.peer].station.mac] = a.port
                routes |= {h.station.mac: a.port for h in self.everyone if f"tor{h.rack}" == a.peer}
            elif a.upper:
                routes |= {h.station.mac: a.port for h in self.everyone if h.name == a.peer}
            else:
                routes |= {h.station.mac: a.port for h in self.everyone if f"tor{h.rack}" != name}
                routes |= {other.station.mac: a.port for other in self.switches.values() if other.name != name}
        stations = {h.name: h.station for h in self.everyone}
        hosts = {a.port: stations[a.peer] for a in self.switches[name].attachments if a.peer in stations}
        return forwarding([a.port for a in self.switches[name].attachments], routes, hosts)
