"""The schemes by name, and what a node must know to take part in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from hosts import wire
from hosts.atp.server import AtpServer
from hosts.atp.worker import AtpWorker
from hosts.collective import Collective, Membership
from hosts.pairwise import Pairwise, Server
from hosts.schedules import SCHEDULES, Schedule
from hosts.switchml import SwitchML

Pulse = Callable[[], str | None]
GLOO = "gloo"  # PyTorch's own, over the data network: what users have today


@dataclass(frozen=True)
class Parameters:
    """A scheme by name, and what it leaves open; the same on all nodes of a job."""

    scheme: str
    slots: int = 64  # chunks that a worker has under way: switchml's pool, atp's window
    k: int = 64
    patience: float = 30.0
    scaling: float | None = None  # a fixed factor: switchml's instead of block exponents, atp's instead of its own
    aggregators: int = 4096  # atp: of each switch that the job may ask for
    congestion: bool = True  # atp: the window follows marks and losses


@dataclass(frozen=True)
class Place:
    """A node's place in a job: the scheme, its membership, and the addresses of all nodes and of the racks' switches."""

    parameters: Parameters
    membership: Membership
    peers: list[str]  # addresses of all nodes by rank: workers, then dedicated servers
    server_racks: list[int]
    switches: list[str]  # by rack
    control: list[str]  # addresses of all nodes by rank, on the management network

    @property
    def scheme(self) -> str:
        return self.parameters.scheme

    def dumps(self) -> str:
        """As text, for an environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Place:
        """What `dumps` wrote."""
        fields = json.loads(text)
        told = {"parameters": Parameters(**fields["parameters"]), "membership": Membership(**fields["membership"])}
        return cls(**{**fields, **told})

    def schedule(self) -> Schedule:
        """The schedule of a scheme without switches."""
        size = self.membership.size
        return SCHEDULES[self.scheme](size, len(self.peers) - size)


class Serving(Protocol):
    """A dedicated server."""

    def serve(self) -> None:
        """Take part until the workers leave."""
        ...

    def close(self) -> None: ...


def _switchml(place: Place, pulse: Pulse) -> Collective:
    p, m = place.parameters, place.membership
    local, switch = (place.peers[m.rank], wire.UDP_PORT), (place.switches[m.rack], wire.UDP_PORT)
    return SwitchML(m, local, switch, p.slots, p.k, p.patience, pulse, p.scaling)


def _atp(place: Place, pulse: Pulse) -> Collective:
    p = place.parameters
    return AtpWorker(
        place.membership, peers=place.peers, control=place.control, server_racks=place.server_racks, window=p.slots, k=p.k,
        aggregators=p.aggregators, scaling=p.scaling, congestion=p.congestion, patience=p.patience, pulse=pulse,
    )  # fmt: skip


def _pairwise(place: Place, pulse: Pulse) -> Collective:
    return Pairwise(place.membership, place.schedule(), place.peers, place.parameters.patience)


def _atp_server(place: Place) -> Serving:
    p = place.parameters
    return AtpServer(
        place.membership, peers=place.peers, control=place.control, server_racks=place.server_racks, switches=place.switches,
        window=p.slots, k=p.k, aggregators=p.aggregators, patience=p.patience,
    )  # fmt: skip


def _pairwise_server(place: Place) -> Serving:
    return Server(place.membership, place.schedule(), place.peers, place.parameters.patience)


JOINS: dict[str, Callable[[Place, Pulse], Collective]] = {
    "switchml": _switchml, "atp": _atp, **dict.fromkeys(SCHEDULES, _pairwise),
}  # fmt: skip
SERVERS: dict[str, Callable[[Place], Serving]] = {"atp": _atp_server, "ps": _pairwise_server}  # of schemes with hosts that serve
SCHEMES = (*JOINS, GLOO)


def join(place: Place, pulse: Pulse = lambda: None) -> Collective:
    """Take part in a job as a worker. `pulse` may tell a reason to give up; see hosts.stream.Stream."""
    return JOINS[place.scheme](place, pulse)


def serve(place: Place) -> None:
    """Take part in a job as a dedicated server, until the workers leave."""
    server = SERVERS[place.scheme](place)
    try:
        server.serve()
    finally:
        server.close()
