"""The network of a trial in virtual time: hosts, links with rates, and switches that run the P4 program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inalab.hosts.drivers.driver import Address
from inalab.hosts.drivers.virtual import EPOCH, VirtualHost, VirtualRequested
from inalab.hosts.drivers.virtual_connections import Meetings, VirtualConnection
from inalab.hosts.drivers.virtual_time import START, VirtualTime
from inalab.switches.control import Control
from inalab.switches.embedded.offline import LoadedSwitch
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.virtual import frames
from inalab.testbed.virtual.links import HostLink, Left, Link
from inalab.testbed.virtual.reliable import ReliableEnd
from inalab.testbed.virtual.tcp import TcpEnd
from inalab.topologies.plan import HostPlan, NetworkPlan

NANOSECONDS = 1e9  # in a second
BOOTED = START - 1.0  # when the switches' clocks began
FIRST_PORT = 32768  # of those that connect


class HostEnd:
    """A host's end of its link (hosts.drivers.virtual.Wire): what the host sends takes its processor, one packet after another."""

    def __init__(self, network: VirtualNetwork, plan: HostPlan, costs: Costs) -> None:
        self.network, self.time, self.station, self.cost = network, network.time, plan.station, costs.host
        self.link: HostLink
        self.busy = 0.0
        self.ends: dict[tuple[int, str, int], TcpEnd] = {}  # of connections, by this host's port, and the other's address and port
        self.ports = itertools.count(FIRST_PORT)

    def put(self, datagram: bytes, source: Address, destination: Address, urgent: bool) -> None:
        """See Wire."""
        to = self.network.stations[destination[0]]
        self._send(frames.headers(self.station, source[1], to, destination[1], len(datagram)) + datagram, urgent, None)

    def put_packet(self, packet: bytes, source: Address, destination: Address, urgent: bool, left: Left) -> None:
        """Likewise."""
        to = self.network.stations[destination[0]]
        start = frames.headers(self.station, source[1], to, destination[1], len(packet), frames.CAPABLE)
        self.link.enqueue(start + packet, urgent, left)

    def transmit(self, segment: frames.Segment, destination: str, left: Left) -> None:
        """See testbed.virtual.tcp.Outlet."""
        self._send(frames.framed(self.station, self.network.stations[destination], segment), False, left)

    def _send(self, frame: bytes, urgent: bool, left: Left) -> None:
        self.busy = max(self.busy, self.time.now) + self.cost
        if self.cost:
            self.time.at(self.busy, self.link.enqueue, frame, urgent, left)
        else:
            self.link.enqueue(frame, urgent, left)

    def arrive(self, segment: frames.Segment, source: str) -> None:
        """A segment has come from this address, for a connection."""
        if end := self.ends.get((segment.port, source, segment.source_port)):
            end.arrive(segment)


class VirtualSwitch:
    """A switch of the network: the program as it is compiled for the embedded switch, with its queues, by the network's clock."""

    def __init__(self, time: VirtualTime, library: Path, ports: list[int], seed: int, cost: float) -> None:
        self.time, self.cost = time, cost
        self.load = partial(LoadedSwitch, library, ports, seed)
        self.boot()
        self.out: dict[int, Link] = {}  # by port
        self.busy = 0.0
        self.due: int | None = None  # when its queues have something to send

    def boot(self) -> None:
        """Begin with nothing."""
        self.program, self.dead = self.load(), False
        self.program.at(_nanoseconds(self.time.now))
        self.due = None

    def arrive(self, port: int, frame: bytes) -> None:
        """A frame has come; switches handle one after another."""
        self.busy = max(self.busy, self.time.now) + self.cost
        if self.cost:
            self.time.at(self.busy, self._turn, (port, frame))
        else:
            self._turn((port, frame))

    def _turn(self, *arriving: tuple[int, bytes]) -> None:
        if self.dead:
            return
        sent, due = self.program.at(_nanoseconds(self.time.now), *arriving)
        for port, frame in sent:
            self.out[port].put(frame)
        if due is not None and due != self.due:
            self.time.at(BOOTED + due / NANOSECONDS, self._look, due)
        self.due = due

    def _look(self, due: int) -> None:
        if due == self.due:
            self._turn()


def _nanoseconds(moment: float) -> int:
    return round((moment - BOOTED) * NANOSECONDS)


class VirtualNetwork:
    """A plan's hosts, links and switches. `commands` configure each switch, `costs` are what hosts, switches and links take."""

    def __init__(
        self, time: VirtualTime, plan: NetworkPlan, library: Path, commands: dict[str, list[str]], costs: Costs, seed: int
    ) -> None:
        self.time, self.plan = time, plan
        stations = [*(host.station for host in plan.everyone), *(switch.station for switch in plan.switches.values())]
        self.stations = {station.ip: station for station in stations}
        self.switches = {
            name: VirtualSwitch(time, library, [a.port for a in switch.attachments], seed, costs.switch)
            for name, switch in plan.switches.items()
        }
        servers: dict[Address, VirtualRequested] = {}
        self.wires = {host.name: HostEnd(self, host, costs) for host in plan.everyone}
        taken = costs.host, costs.batch, costs.naps
        meetings = Meetings(time, EPOCH, self._connect)
        self.hosts = {name: VirtualHost(time, wire, meetings, servers, *taken) for name, wire in self.wires.items()}
        self.moment = 2 * (costs.host + costs.delay)  # that a message takes on the management network
        self.names = {host.station.ip: host.name for host in plan.everyone}  # by address, on the data network,
        self.managed = {host.management_ip: host.name for host in plan.everyone}  # and on the management network
        self.links: dict[tuple[int, bool], Link] = {}  # by number, and whether upwards
        for planned in plan.links:
            up = partial(self.switches[planned.upper].arrive, planned.upper_port)
            if planned.lower in self.switches:
                self.links[planned.number, True] = Link(time, planned.rate, costs, up)
                down: Callable[[bytes], None] = partial(self.switches[planned.lower].arrive, planned.lower_port)
                self.switches[planned.lower].out[planned.lower_port] = self.links[planned.number, True]
            else:
                down = partial(self._to_host, planned.lower)
                self.links[planned.number, True] = self.wires[planned.lower].link = HostLink(time, planned.rate, costs, up)
            self.links[planned.number, False] = Link(time, planned.rate, costs, down)
            self.switches[planned.upper].out[planned.upper_port] = self.links[planned.number, False]
        self.commands, self.controls = commands, dict[str, Control]()
        for name in commands:
            self._tell(name)

    def kill(self, name: str) -> None:
        """Nothing crosses a switch any more, and nothing controls it."""
        self.switches[name].dead = True
        del self.controls[name]

    def restart(self, name: str) -> None:
        """A switch begins again with nothing but its commands."""
        self.switches[name].boot()
        self._tell(name)

    def _tell(self, name: str) -> None:
        self.controls[name] = program = self.switches[name].program
        for line in self.commands[name]:
            program.command(line)

    def _to_host(self, name: str, frame: bytes) -> None:
        wire = self.wires[name]
        if found := frames.received(frame, wire.station):
            self.hosts[name].arrive(*found, marked=frames.marked(frame))
        elif segment := frames.received_segment(frame, wire.station):
            wire.arrive(segment, frames.source(frame))

    def _connect(self, own: str, peer: str, port: int) -> tuple[VirtualConnection, VirtualConnection]:
        """Both ends of a connection from one address to another, and a port there, on one of the networks."""
        made: tuple[VirtualConnection, VirtualConnection]
        if own in self.managed:
            made = ReliableEnd.pair(self.time, self.moment)
            names = self.managed[own], self.managed[peer]
        elif own == peer:
            made = ReliableEnd.pair(self.time, 0.0)
            names = self.names[own], self.names[own]
        else:
            names = self.names[own], self.names[peer]
            ports = next(self.wires[names[0]].ports), port
            made = self._end(names[0], ports, peer), self._end(names[1], ports[::-1], own)
        for name, end in zip(names, made, strict=True):
            self.hosts[name].connected(end)
        return made

    def _end(self, name: str, ports: tuple[int, int], peer: str) -> TcpEnd:
        wire = self.wires[name]
        end = wire.ends[ports[0], peer, ports[1]] = TcpEnd(self.time, wire, ports[0], (peer, ports[1]))
        return end
