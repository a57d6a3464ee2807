"""Results that a server has sent and that have not left its host: a query about one of these has its answer on the way.

At a low rate the queue of the server's link takes longer than any worker waits. If every query were answered with another copy, and
those left before what is new, the link would soon carry nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

NO_ONE = -1
URGENT, ALL = range(2)  # of the times of `occupy`: what is urgent leaves before everything else

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]


class Departures:
    """By row of sums: to whom the last copy of its result goes, and when that leaves, by a clock of the link's rate.

    Whom copies go to is told by peers of the server's socket: switches by rack, then workers by rank, whose racks are `racks`. What
    goes to the server's own switch goes to `to_all`.
    """

    def __init__(self, rows: int, switches: int, racks: Integers, to_all: int) -> None:
        self.rack_of = np.concatenate([np.arange(switches), racks])  # of peers
        self.to_all = to_all
        self.goal, self.leaves = np.full(rows, NO_ONE), np.zeros(rows)
        self.idle_at = np.zeros(2)

    def sent(self, rows: Integers, peer: int, urgent: bool, seconds: float, now: float) -> None:
        """Results of these rows are sent to a peer; each takes so many seconds on the link, 0 where that has no rate."""
        leave(rows, peer, urgent, seconds, now, self.idle_at, self.goal, self.leaves)

    def occupied(self, count: int, seconds: float, now: float) -> None:
        """So many other urgent packets are sent."""
        occupy(count, True, seconds, now, self.idle_at)

    def lacking(self, rows: Integers, peers: Integers, now: float) -> tuple[Integers, Integers]:
        """Peers ask for these rows: the rows of which no copy to them waits here, once each, and to whom the copies are to go."""
        return lacking(rows, peers, now, self.goal, self.leaves, self.rack_of, self.to_all)


@compiled("void(i8, b1, f8, f8, f8[:])")
def occupy(count: int, urgent: bool, seconds: float, now: float, idle_at: Reals) -> None:
    """Packets are sent. `idle_at` is when the link has sent all that is urgent, and all."""
    if urgent:
        idle_at[URGENT] = max(idle_at[URGENT], now) + count * seconds
    idle_at[ALL] = max(idle_at[ALL], now) + count * seconds


@compiled("void(i8[:], i8, b1, f8, f8, f8[:], i8[:], f8[:])")
def leave(
    rows: Integers, peer: int, urgent: bool, seconds: float, now: float, idle_at: Reals, goal: Integers, leaves: Reals
) -> None:
    """See Departures.sent."""
    for row in rows:
        occupy(1, urgent, seconds, now, idle_at)
        goal[row], leaves[row] = peer, idle_at[URGENT if urgent else ALL]


@compiled("Tuple((i8[::1], i8[::1]))(i8[:], i8[:], f8, i8[:], f8[:], i8[:], i8)")
def lacking(
    rows: Integers, peers: Integers, now: float, goal: Integers, leaves: Reals, rack_of: Integers, to_all: int
) -> tuple[Integers, Integers]:
    """See Departures.lacking. Where two ask, of a rack, the copy goes to the rack; else to all."""
    to = np.full(len(goal), NO_ONE)
    for i in range(len(rows)):
        row, peer = rows[i], peers[i]
        had = to[row]
        if had == NO_ONE and leaves[row] > now:
            had = goal[row]
        if had == NO_ONE:
            to[row] = peer
        elif had not in (to_all, peer, rack_of[peer]):
            to[row] = rack_of[peer] if rack_of[had] == rack_of[peer] else to_all
    found = np.flatnonzero(to != NO_ONE)
    return found, to[found]
