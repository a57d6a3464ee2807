"""What the server has and its replica lacks, and who sends it there (MLfabric, SoCC '20; our reading of it).

The distance between the two models is at most the sum of the norms of the updates that the replica lacks. Workers keep what they
have sent to the server. When the distance would exceed its bound, one of them sends the replica the sum of what it has kept. So
the server sends nothing. In chain replication (van Renesse and Schneider, OSDI '04), which stands beside it, the server forwards
every update and applies it once the replica has it.

The server keeps, too, what the replica lacks. It sends that in the place of a worker that has died. And it is the server that
applies no update by which the distance would exceed the bound (hosts.mlfabric.server); here is only decided who sends what.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

MODEL = 0  # number of the copy that is the model itself, which the server sends first


@dataclass
class Kept:
    """What came to the server with a ticket, and is kept by a host."""

    holder: int  # rank
    norm: float
    size: float  # bytes on the wire


@dataclass
class Replication:
    """Of a group's server, by a host behind it. `distance` is the bound, 0 in a chain. Copies have numbers."""

    server: int
    replica: int
    distance: float
    chain: bool = False
    ready: bool = False  # the replica has the model
    kept: dict[int, Kept] = field(default_factory=dict)  # by ticket: what the replica lacks and nobody has begun to send
    copies: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by number: the tickets of those that are under way
    begun: int = 0  # copies so far

    def came(self, ticket: int, sender: int, norm: float, size: float) -> None:
        """What belongs to a ticket has come to the server."""
        self.kept[ticket] = Kept(self.server if self.chain else sender, norm, size)

    def due(self, coming: float, planned: Container[int], busy: Container[int]) -> list[int]:
        """Hosts that are to send what they keep, so that the bound is kept when updates of the norm `coming` are in the model.

        Those that keep most go first, and those whose links are `busy` last. `planned` are to send already.
        """
        if not self.ready:
            return []
        by_holder: dict[int, float] = {}
        for kept in self.kept.values():
            by_holder[kept.holder] = by_holder.get(kept.holder, 0.0) + kept.norm
        left = {holder: norm for holder, norm in by_holder.items() if holder not in planned}
        lacks, found = coming + sum(left.values()), []
        for holder in sorted(left, key=lambda holder: (holder in busy, -left[holder], holder)):
            if lacks > self.distance or self.chain:
                found.append(holder)
                lacks -= left[holder]
        return found

    def size(self, holder: int) -> float:
        """Bytes of what a host is to send next."""
        return max(kept.size for kept in self.kept.values() if kept.holder == holder)

    def begin(self, holder: int) -> tuple[int, tuple[int, ...]]:
        """A host sends a copy now: its number, and the tickets in it. In a chain these are one."""
        tickets = tuple(sorted(ticket for ticket, kept in self.kept.items() if kept.holder == holder))
        tickets = tickets[:1] if self.chain else tickets
        for ticket in tickets:
            del self.kept[ticket]
        self.begun += 1
        self.copies[self.begun] = tickets
        return self.begun, tickets

    def held(self, number: int) -> tuple[int, ...]:
        """The replica has a copy; the tickets in it."""
        self.ready |= number == MODEL
        return self.copies.pop(number, ())

    def gone(self, worker: int) -> None:
        """A worker has died: the server sends what it kept. Copies that it has begun are to be sent by the server, too."""
        for kept in self.kept.values():
            if kept.holder == worker:
                kept.holder = self.server
