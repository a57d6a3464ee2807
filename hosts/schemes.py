"""The schemes by name, and what a worker must know to take part in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from hosts import wire
from hosts.collective import Collective, Membership
from hosts.pairwise import Pairwise
from hosts.schedules import SCHEDULES
from hosts.switchml import SwitchML

Pulse = Callable[[], str | None]


@dataclass(frozen=True)
class Place:
    """A worker's place in a job: scheme, membership, the workers' addresses and its switch's, and the scheme's parameters."""

    scheme: str
    membership: Membership
    peers: list[str]  # addresses of all workers, by rank
    switch: str
    slots: int
    k: int
    patience: float

    def dumps(self) -> str:
        """As text, for an environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Place:
        """What `dumps` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "membership": Membership(**fields["membership"])})


def _switchml(place: Place, pulse: Pulse) -> Collective:
    local, switch = (place.peers[place.membership.rank], wire.UDP_PORT), (place.switch, wire.UDP_PORT)
    return SwitchML(place.membership, local, switch, place.slots, place.k, place.patience, pulse)


def _pairwise(place: Place, pulse: Pulse) -> Collective:
    schedule = SCHEDULES[place.scheme](place.membership.size)
    return Pairwise(place.membership, schedule, place.peers, place.patience)


SCHEMES: dict[str, Callable[[Place, Pulse], Collective]] = {"switchml": _switchml, **dict.fromkeys(SCHEDULES, _pairwise)}


def join(place: Place, pulse: Pulse = lambda: None) -> Collective:
    """Take part in a job. `pulse` may tell a reason to give up; see hosts.switchml.SwitchML."""
    return SCHEMES[place.scheme](place, pulse)
