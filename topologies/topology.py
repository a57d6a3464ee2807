"""A topology: racks of workers, and how their switches are joined.

A subclass is one kind of network. Its `build` says which switches and links there are, its fields what can be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from inalab.switches.sizes import MAX_PORTS, MAX_WORKERS

if TYPE_CHECKING:
    from inalab.topologies.plan import NetworkPlan, SwitchPlan

MAX_RACKS = 32
MAX_SERVERS = 32


class TopologyError(ValueError):
    """A network that cannot be built; str() is one sentence that says what to change."""


def check_rate(name: str, rate: float | None) -> None:
    """Raise TopologyError for a rate in Mbit/s that no link can have; None is no limit."""
    if rate is not None and not 0.1 <= rate <= 2_000_000:
        raise TopologyError(f"{name} is {rate} Mbit/s: from 0.1 to 2000000 is possible")


@dataclass(frozen=True)
class Topology:
    """R racks of m workers, and dedicated servers spread over the racks.

    Rates are in Mbit/s per direction, None for no limit; a server's link has the rate `host_rate`.
    Raises TopologyError for what cannot be built.
    """

    racks: int = 2
    workers: int = 4
    host_rate: float | None = 10.0
    uplink_rate: float | None = 10.0
    servers: int = 0

    def build(self, net: NetworkPlan) -> None:
        """Make the racks, the switches that join them, and the links between."""
        raise NotImplementedError

    def inside(self, net: NetworkPlan, rack: SwitchPlan) -> list[SwitchPlan]:
        """The switches that a rack's workers are at, in the workers' order: its own, unless it makes others inside the rack."""
        return [rack] * self.workers

    @property
    def uplinks(self) -> int:
        """Of a rack: ports of its switch between those of its workers and those of servers."""
        return 1

    @property
    def spreads(self) -> bool:
        """Whether switches use all equally short paths to a destination."""
        return False

    @property
    def by_packet(self) -> bool:
        """Whether they choose one for each packet, and not for each flow."""
        return False

    rack_name: ClassVar[str] = "tor"  # of a rack's switch, before the rack's number
    machines: ClassVar[bool] = False  # whether racks are machines with several GPUs
    nic: ClassVar[int | None] = None  # where they are: the PCIe switch that the network interface is at, if any

    def group(self, place: int) -> int:
        """And the one that a worker is at, by its place in the machine."""
        return 0

    def rate(self, rank: int) -> float | None:
        """Of a worker's link."""
        return self.host_rate

    @property
    def server_rate(self) -> float | None:
        """Of a server's link."""
        return self.host_rate

    def __post_init__(self) -> None:
        if not 1 <= self.racks <= MAX_RACKS:
            raise TopologyError(f"{self.racks} racks: from 1 to {MAX_RACKS} are possible")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise TopologyError(f"{self.workers} workers in a rack: the program holds from 1 to {MAX_WORKERS} below one switch")
        if not 0 <= self.servers <= MAX_SERVERS:
            raise TopologyError(f"{self.servers} servers: from 0 to {MAX_SERVERS} are possible")
        ports = self.workers + self.uplinks + -(-self.servers // self.racks)
        if ports > MAX_PORTS:
            raise TopologyError(f"a rack's switch would have {ports} ports, and has {MAX_PORTS}: fewer workers or servers a rack")
        check_rate("host_rate", self.host_rate)
        check_rate("uplink_rate", self.uplink_rate)

    @property
    def size(self) -> int:
        """Workers, in all racks."""
        return self.racks * self.workers

    @property
    def members(self) -> list[list[int]]:
        """The workers' ranks, by rack."""
        return [list(range(r * self.workers, (r + 1) * self.workers)) for r in range(self.racks)]
