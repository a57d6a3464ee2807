"""The schemes by name, and what a node must know to take part in one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from hosts import wire
from hosts.atp.server import AtpServer, gather
from hosts.atp.worker import AtpWorker
from hosts.collective import AggregationError, Collective, Membership
from hosts.pairwise import Pairwise, Server
from hosts.schedules import SCHEDULES, Schedule
from hosts.switchml import SwitchML

Pulse = Callable[[], str | None] | None
Over = Callable[[], bool]
log = logging.getLogger("inalab")
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
    congestion: str = "marks"  # atp: one of hosts.atp.congestion.CONTROLS
    recovery: str = "ask"  # switchml, atp: one of hosts.recovery.RECOVERIES


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


def _switchml(place: Place, epoch: int, pulse: Pulse) -> Collective:
    p, m = place.parameters, place.membership
    local, switch = (place.peers[m.rank], wire.UDP_PORT), (place.switches[m.rack], wire.UDP_PORT)
    return SwitchML(m, epoch, local, switch, p.slots, p.k, p.patience, pulse, p.scaling, p.recovery)


def _atp(place: Place, epoch: int, pulse: Pulse) -> Collective:
    p = place.parameters
    return AtpWorker(
        place.membership, epoch, peers=place.peers, control=place.control, server_racks=place.server_racks, window=p.slots, k=p.k,
        aggregators=p.aggregators, scaling=p.scaling, congestion=p.congestion, recovery=p.recovery, patience=p.patience,
        pulse=pulse,
    )  # fmt: skip


def _pairwise(place: Place, epoch: int, pulse: Pulse) -> Collective:
    return Pairwise(place.membership, place.schedule(), place.peers, epoch, place.parameters.patience, pulse)


def _atp_server(place: Place, over: Over) -> Serving | None:
    p = place.parameters
    if (group := gather(place.membership, place.control, p.patience, over)) is None:
        return None
    return AtpServer(
        place.membership, group, peers=place.peers, server_racks=place.server_racks, switches=place.switches, window=p.slots,
        k=p.k, aggregators=p.aggregators,
    )  # fmt: skip


def _pairwise_server(place: Place, over: Over) -> Serving | None:
    return Server.of_next_group(place.membership, place.schedule(), place.peers, place.parameters.patience, over)


JOINS: dict[str, Callable[[Place, int, Pulse], Collective]] = {
    "switchml": _switchml, "atp": _atp, **dict.fromkeys(SCHEDULES, _pairwise),
}  # fmt: skip
# of schemes with hosts that serve: each waits for the next group of workers; None where it is over before one has come
SERVERS: dict[str, Callable[[Place, Over], Serving | None]] = {"atp": _atp_server, "ps": _pairwise_server}
SCHEMES = (*JOINS, GLOO)


def join(place: Place, epoch: int, pulse: Pulse = None) -> Collective:
    """Take part in a job as a worker of the group with this epoch (hosts.epoch), the same on all of them.

    `pulse` may tell a reason to give up; see hosts.stream.Stream.
    """
    return JOINS[place.scheme](place, epoch, pulse)


def serve(place: Place, over: Over) -> None:
    """Take part in a job as a dedicated server, for one group of its workers after another, until it is `over`.

    A group that does not come together, or breaks, ends with a line in the log; its workers know more.
    """
    while not over():
        try:
            server = SERVERS[place.scheme](place, over)
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
