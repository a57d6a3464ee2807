"""The network of a trial in virtual time: hosts, links with rates, and switches that run the P4 program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inalab.hosts.drivers.driver import Address
from inalab.hosts.drivers.virtual import VirtualHost, VirtualRequested
from inalab.hosts.drivers.virtual_time import START, VirtualTime
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.switches.embedded.offline import LoadedSwitch
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.virtual import frames
from inalab.topologies.plan import HostPlan, NetworkPlan

NANOSECONDS = 1e9  # in a second
BOOTED = START - 1.0  # when the switches' clocks began


class Link:
    """One direction of a link: frames leave one after the other. `octets` are those that were sent."""

    def __init__(self, time: VirtualTime, rate: float | None, delay: float, deliver: Callable[[bytes], None]) -> None:
        """`rate` is in Mbit/s; `delay` is from a frame's last bit to the next node, in seconds."""
        self.time, self.delay, self.deliver = time, delay, deliver
        self.seconds = 8 / (rate * 1e6) if rate else 0.0  # of a byte
        self.free = 0.0  # when the last frame so far has left
        self.octets = 0

    def put(self, frame: bytes) -> None:
        """Send a frame when those before it have left."""
        now = self.time.now
        self.octets += len(frame)
        self.free = (self.free if self.free > now else now) + (len(frame) + PHYSICAL_BYTES) * self.seconds
        self.time.at(self.free + self.delay, self.deliver, frame)


class HostLink(Link):
    """Upwards from a host: urgent frames leave first."""

    def __init__(self, time: VirtualTime, rate: float | None, delay: float, deliver: Callable[[bytes], None]) -> None:
        super().__init__(time, rate, delay, deliver)
        self.queues: tuple[deque[bytes], deque[bytes]] = deque(), deque()
        self.busy = False

    def put(self, frame: bytes, urgent: bool = False) -> None:
        """Send a frame when those before it have left that are not less urgent."""
        self.queues[not urgent].append(frame)
        if not self.busy:
            self._next()

    def _next(self) -> None:
        queue = self.queues[0] or self.queues[1]
        self.busy = bool(queue)
        if queue:
            super().put(queue.popleft())
            self.time.at(self.free, self._next)


class HostEnd:
    """A host's end of its link (hosts.drivers.virtual.Wire): what the host sends takes its processor, one packet after another."""

    def __init__(self, network: VirtualNetwork, plan: HostPlan, costs: Costs) -> None:
        self.network, self.time, self.station, self.cost = network, network.time, plan.station, costs.host
        self.link: HostLink
        self.busy = 0.0

    def put(self, datagram: bytes, source: Address, destination: Address, urgent: bool) -> None:
        """See Wire."""
        to = self.network.stations[destination[0]]
        frame = frames.headers(self.station, source[1], to, destination[1], len(datagram)) + datagram
        self.busy = max(self.busy, self.time.now) + self.cost
        if self.cost:
            self.time.at(self.busy, self.link.put, frame, urgent)
        else:
            self.link.put(frame, urgent)


class VirtualSwitch:
    """A switch of the network: the program as it is compiled for the embedded switch, with its queues, by the network's clock."""

    def __init__(self, time: VirtualTime, library: Path, ports: list[int], seed: int, cost: float) -> None:
        self.time, self.cost = time, cost
        self.program = LoadedSwitch(library, ports, seed)
        self.program.at(_nanoseconds(time.now))
        self.out: dict[int, Link] = {}  # by port
        self.busy = 0.0
        self.due: int | None = None  # when its queues have something to send

    def arrive(self, port: int, frame: bytes) -> None:
        """A frame has come; switches handle one after another."""
        self.busy = max(self.busy, self.time.now) + self.cost
        if self.cost:
            self.time.at(self.busy, self._turn, (port, frame))
        else:
            self._turn((port, frame))

    def _turn(self, *arriving: tuple[int, bytes]) -> None:
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
        self.hosts = {name: VirtualHost(time, wire, servers, *taken) for name, wire in self.wires.items()}
        self.links: dict[tuple[int, bool], Link] = {}  # by number, and whether upwards
        for planned in plan.links:
            up = partial(self.switches[planned.upper].arrive, planned.upper_port)
            if planned.lower in self.switches:
                self.links[planned.number, True] = Link(time, planned.rate, costs.delay, up)
                down: Callable[[bytes], None] = partial(self.switches[planned.lower].arrive, planned.lower_port)
                self.switches[planned.lower].out[planned.lower_port] = self.links[planned.number, True]
            else:
                down = partial(self._to_host, planned.lower)
                self.links[planned.number, True] = self.wires[planned.lower].link = HostLink(time, planned.rate, costs.delay, up)
            self.links[planned.number, False] = Link(time, planned.rate, costs.delay, down)
            self.switches[planned.upper].out[planned.upper_port] = self.links[planned.number, False]
        for name, lines in commands.items():
            for line in lines:
                self.switches[name].program.command(line)

    def _to_host(self, name: str, frame: bytes) -> None:
        host = self.hosts[name]
        if found := frames.received(frame, self.wires[name].station):
            host.arrive(*found)
