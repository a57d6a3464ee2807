"""A node's place in a job, and what it needs of a scheme to take part."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from inalab.hosts.collective import AggregationError, Collective, Membership, Operation
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.plugins import load
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.tcp.group import Group

Pulse = Callable[[], str | None] | None
Over = Callable[[], bool]
log = logging.getLogger("inalab")


class Serving(Protocol):
    """A server, on a host of its own or on a worker's."""

    def serve(self) -> None:
        """Take part until the workers leave."""
        ...

    def close(self) -> None: ...


class Participant(Protocol):
    """A scheme, as the nodes of a job see it (schemes.scheme.Scheme)."""

    name: str
    source: str  # the module or file that defines it as SCHEME
    native: bool  # PyTorch's own group sums
    serves_on_workers: bool  # `serve` is called on every worker's host, too
    managed: bool  # `manage` is called, on the first server's host
    Settings: type[BaseModel]

    def operations_in(self, membership: Membership) -> tuple[Operation, ...]: ...

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective: ...

    def serve(self, place: Place, over: Over) -> Serving | None: ...

    def manage(self, place: Place, over: Over) -> Serving | None: ...


@dataclass(frozen=True)
class Place:
    """A node's place in a job: its scheme, what that is set to, and where all are."""

    scheme: Participant
    settings: Any  # of the scheme's Settings
    membership: Membership
    peers: list[str]  # addresses of all nodes by rank: workers, then dedicated servers
    server_racks: list[int]
    switches: list[str]  # by rack
    control: list[str]  # addresses of all nodes by rank, on the management network
    rates: list[float]  # Mbit/s of the links of all nodes by rank; 0 where it is not limited
    uplinks: list[float] = field(default_factory=list)  # likewise, of each rack's uplink
    groups: list[int] = field(default_factory=list)  # of workers by rank, where racks are machines: their PCIe switches
    nic: int | None = None  # that of a machine's network interface, if it is at one
    root: str = ""  # the switch above the racks that is the job's; empty where there is none
    port: int | None = None  # UDP, of the workers' packets, where it is not the scheme's own
    seed: int = 0  # of what a server or what manages it draws at random
    together: tuple[Place, ...] = ()  # of the first worker of each job that has the same scheme, where there are several
    driver: Driver = SOCKETS  # which the process that has the place chooses

    @property
    def racks(self) -> list[int]:
        """Of all nodes by rank."""
        m = self.membership
        of_workers = (next(number for number, ranks in enumerate(m.racks) if rank in ranks) for rank in range(m.size))
        return [*of_workers, *self.server_racks]

    def group(self, epoch: int = 0, pulse: Pulse = None, pairs: QueuePairs | None = None) -> Group:
        """Its group over the data network; the epoch is a worker's."""
        return Group(self.membership, self.peers, epoch, self.settings.patience, pulse, self.driver, pairs)

    def dumps(self) -> str:
        """As text, for an environment variable."""
        named = "peers", "server_racks", "switches", "control", "rates", "uplinks", "groups", "nic", "root", "port", "seed"
        fields = {name: getattr(self, name) for name in named}
        own = {"scheme": self.scheme.source, "settings": self.settings.model_dump(), "membership": asdict(self.membership)}
        return json.dumps(fields | own)

    @classmethod
    def loads(cls, text: str) -> Place:
        """What `dumps` wrote."""
        fields = json.loads(text)
        scheme: Participant = load(fields["scheme"], "SCHEME")
        own = {"settings": scheme.Settings(**fields["settings"]), "membership": Membership(**fields["membership"])}
        return cls(**fields | own | {"scheme": scheme})


def serve(place: Place, over: Over, manages: bool = False) -> None:
    """Take part in a job as a server, or as what manages it, for one group of its workers after another, until it is `over`.

    A group that does not come together, or breaks, ends with a line in the log; its workers know more.
    """
    while not over():
        try:
            server = place.scheme.manage(place, over) if manages else place.scheme.serve(place, over)
        except AggregationError as error:
            log.warning("%s", error)
            continue
        if server is None:
            return
        try:
            server.serve()
        except AggregationError as error:
            log.warning("%s", error)
        finally:
            server.close()
