"""The schemes by name, and what a worker must know to take part in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from hosts import wire
from hosts.collective import Collective, Membership
from hosts.pairwise import Pairwise, Server
from hosts.schedules import SCHEDULES, Schedule
from hosts.switchml import SwitchML

Pulse = Callable[[], str | None]
GLOO = "gloo"  # PyTorch's own, over the data network: what users have today
SERVED = "ps"  # has hosts that only serve


@dataclass(frozen=True)
class Place:
    """A node's place in a job: scheme, membership, the nodes' addresses and the own switch's, and the scheme's parameters."""

    scheme: str
    membership: Membership
    peers: list[str]  # addresses of all nodes by rank: workers, then dedicated servers
    switch: str
    slots: int
    k: int
    patience: float
    scaling: float | None = None  # switchml: a fixed factor instead of block exponents

    def dumps(self) -> str:
        """As text, for an environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Place:
        """What `dumps` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "membership": Membership(**fields["membership"])})

    def schedule(self) -> Schedule:
        """The schedule of a scheme without switches."""
        size = self.membership.size
        return SCHEDULES[self.scheme](size, len(self.peers) - size)


def _switchml(place: Place, pulse: Pulse) -> Collective:
    local, switch = (place.peers[place.membership.rank], wire.UDP_PORT), (place.switch, wire.UDP_PORT)
    return SwitchML(place.membership, local, switch, place.slots, place.k, place.patience, pulse, place.scaling)


def _pairwise(place: Place, pulse: Pulse) -> Collective:
    return Pairwise(place.membership, place.schedule(), place.peers, place.patience)


JOINS: dict[str, Callable[[Place, Pulse], Collective]] = {"switchml": _switchml, **dict.fromkeys(SCHEDULES, _pairwise)}
SCHEMES = (*JOINS, GLOO)


def join(place: Place, pulse: Pulse = lambda: None) -> Collective:
    """Take part in a job as a worker. `pulse` may tell a reason to give up; see hosts.switchml.SwitchML."""
    return JOINS[place.scheme](place, pulse)


def serve(place: Place) -> None:
    """Take part in a job as a dedicated server, until the workers leave."""
    server = Server(place.membership, place.schedule(), place.peers, place.patience)
    try:
        server.serve()
    finally:
        server.close()
