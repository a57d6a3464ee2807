"""What the server has and its replica lacks, and who sends it there (MLfabric, SoCC '20; our reading of it).

The distance is the sum of the norms of the updates that are in the server's model and not in the replica's: of what is lost if the
server dies. Workers keep what they have sent to the server. When the distance would exceed its bound, one of them sends the replica
the sum of what it has kept. So the server sends nothing. In chain replication (van Renesse and Schneider, OSDI '04), which stands
beside it, the server forwards every update and applies it once the replica has it.

The server keeps, too, what the replica lacks. It sends that in the place of a worker that has died. And it is the server that
applies no update by which the distance would exceed the bound (hosts.mlfabric.server); this module only decides who sends what.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from math import fsum

MODEL = 0  # number of the copy that is the model itself, which the server sends first
MOST = 32  # tickets whose updates a host keeps: beyond that it sends them, however small their norms are, to free the memory


@dataclass
class Kept:
    """What came to the server with a ticket, and the replica lacks."""

    holder: int  # rank of the host that keeps it, to send it
    updates: int
    norm: float
    size: float  # bytes on the wire
    under_way: bool = False  # in a copy


@dataclass
class Replication:
    """Of a group's server, by a host behind it. `distance` is the bound, 0 in a chain. Copies have numbers."""

    server: int
    replica: int
    distance: float
    chain: bool = False
    ready: bool = False  # the replica has the model
    kept: dict[int, Kept] = field(default_factory=dict)  # by ticket
    copies: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by number: the tickets of those that are under way
    begun: int = 0  # copies so far

    def came(self, ticket: int, sender: int, updates: int, norm: float, size: float) -> None:
        """What belongs to a ticket has come to the server."""
        self.kept[ticket] = Kept(self.server if self.chain else sender, updates, norm, size)

    def due(self, coming: float, planned: Container[int], busy: Container[int]) -> list[int]:
        """Hosts that are to send what they keep, so that the bound is kept when updates of the norm `coming` are in the model.

        Those that keep most go first, and those whose links are `busy` last. `planned` are to send already.
        """
        if not self.ready:
            return []
        by_holder: dict[int, list[float]] = {}
        for kept in self.kept.values():
            if not kept.under_way and kept.holder not in planned:
                by_holder.setdefault(kept.holder, []).append(kept.norm)
        found: list[int] = []
        for holder in sorted(by_holder, key=lambda holder: (holder in busy, -fsum(by_holder[holder]), holder)):
            left = (norm for other, norms in by_holder.items() if other not in found for norm in norms)
            if self.chain or len(by_holder[holder]) >= MOST or fsum((coming, *left)) > self.distance:
                found.append(holder)
        return found

    def _to_send(self, holder: int) -> list[int]:
        return sorted(ticket for ticket, kept in self.kept.items() if kept.holder == holder and not kept.under_way)

    def size(self, holder: int) -> float:
        """Bytes of what a host is to send next."""
        return max(self.kept[ticket].size for ticket in self._to_send(holder))

    def begin(self, holder: int) -> tuple[int, tuple[int, ...]]:
        """A host sends a copy now: its number, and the tickets in it. In a chain these are one."""
        tickets = tuple(self._to_send(holder))
        tickets = tickets[:1] if self.chain else tickets
        for ticket in tickets:
            self.kept[ticket].under_way = True
        self.begun += 1
        self.copies[self.begun] = tickets
        return self.begun, tickets

    def held(self, number: int) -> tuple[int, ...]:
        """The replica has a copy; the tickets in it."""
        self.ready |= number == MODEL
        tickets = self.copies.pop(number, ())
        for ticket in tickets:
            del self.kept[ticket]
        return tickets

    def gone(self, worker: int) -> None:
        """A worker has died: the server sends what it kept, also what it had begun to send."""
        for kept in self.kept.values():
            if kept.holder == worker:
                kept.holder = self.server

    def gated(self) -> int:
        """Updates that have come to the server and cannot be in its model yet: the distance would exceed its bound."""
        updates, norms = 0, list[float]()
        for ticket in sorted(self.kept):
            norms.append(self.kept[ticket].norm)
            if fsum(norms) > self.distance:
                updates += self.kept[ticket].updates
        return updates
