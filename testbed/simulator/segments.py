"""TCP in segments, for compiled loops: connections with windows, over links that send one packet after another.

A connection sends as many segments as its window has room for, in a burst. Every second one is acknowledged (RFC 9293, section
3.8.6.3), and the last of a message; acknowledgments go back over the same links, behind the data that waits there. So a window
that is smaller than that of a connection the other way has less of its link.

Links are HTB's, as topologies.links sets them: a token bucket lets a short burst pass at once. Queues hold all that comes, and
windows stay as they are: nothing is lost.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, get_type_hints

import numba
import numpy as np

from inalab.hosts.compiled import compiled
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.schemes.tcp import SEGMENT, TCP_FRAME
from inalab.testbed.simulator.events import pop, push
from inalab.testbed.simulator.world import Integers, R, Reals, Z, records

HEADERS = TCP_FRAME + PHYSICAL_BYTES - SEGMENT  # bytes on the wire beside a segment's data; an acknowledgment's have none
BITS, HEADER_BITS = 8.0 * SEGMENT, 8.0 * HEADERS
SIZE, ORDER, FREE, UNDER_WAY = range(4)  # `state`: events in the heap, pushed; the first free packet; how many are not free
STATES = 4
NONE, FULL = -1, -2  # in place of a message that has come
MOST = 64  # packets that one event makes, at most: more than a window

PACKET_FIELDS = np.dtype(
    [
        ("connection", "i4"),  # of a free one: which is the next free one
        ("hop", "i4"),  # of the connection's way, there and back
        ("message", "i4"),
        ("acknowledges", "i4"),  # segments; 0: it is one
        ("bits", "f8"),
    ]
)
CONNECTION_FIELDS = np.dtype(
    [
        ("first", "i8"),  # of its way in Wires.way,
        ("links", "i8"),  # and how long that is, one way
        ("window", "i8"),
        ("flying", "i8"),  # segments that are not acknowledged
        ("head", "i8"),  # messages that are to be sent, -1: none
        ("tail", "i8"),
        ("received", "i8"),  # segments that the other host has not acknowledged
    ]
)
MESSAGE_FIELDS = np.dtype(
    [
        ("sending", "i8"),  # segments that have not been sent,
        ("coming", "i8"),  # and that have not come
        ("last", "f8"),  # bits of the last one
        ("following", "i8"),  # on its connection, -1: none
    ]
)
LINE_FIELDS = np.dtype([("rate", "f8"), ("bucket", "f8"), ("busy", "f8")])  # bits/s, seconds that a burst may be ahead, until when


class Wires(NamedTuple):
    """One network, and what is on it."""

    times: Reals  # events (testbed.simulator.events): packets that come to the end of a link
    orders: Integers
    whats: Integers
    state: Integers
    clock: Reals  # now, and what a link takes beside its time
    packets: Annotated[Any, records(PACKET_FIELDS, 1)]
    connections: Annotated[Any, records(CONNECTION_FIELDS, 1)]
    messages: Annotated[Any, records(MESSAGE_FIELDS, 1)]
    way: Integers  # directions of links, of all connections
    lines: Annotated[Any, records(LINE_FIELDS, 1)]  # by direction of a link


WIRES: Any = numba.types.NamedTuple(  # type: ignore[no-untyped-call]
    [hint.__metadata__[0] for hint in get_type_hints(Wires, include_extras=True).values()], Wires
)


@compiled(numba.void(WIRES, Z), inline=True)
def cross(w: Wires, packet: int) -> None:
    """A packet crosses the next link of its way."""
    p = w.packets[packet]
    its = w.lines[w.way[w.connections[p.connection].first + p.hop]]
    its.busy = max(w.clock[0], its.busy) + p.bits / its.rate
    over = max(w.clock[0], its.busy - its.bucket) + w.clock[1]
    w.state[SIZE] = push(w.times, w.orders, w.whats, w.state[SIZE], over, w.state[ORDER], packet)
    w.state[ORDER] += 1


@compiled(numba.void(WIRES, Z), inline=True)
def release(w: Wires, packet: int) -> None:
    """A packet is no more: it is free again."""
    w.packets[packet].connection = w.state[FREE]
    w.state[FREE] = packet
    w.state[UNDER_WAY] -= 1


@compiled(numba.void(WIRES, Z))
def pump(w: Wires, connection: int) -> None:
    """Send what the window has room for."""
    c = w.connections[connection]
    while c.head >= 0 and c.flying < c.window:
        packet = w.state[FREE]
        p, m = w.packets[packet], w.messages[c.head]
        w.state[FREE] = p.connection
        w.state[UNDER_WAY] += 1
        m.sending -= 1
        p.connection, p.hop, p.message, p.acknowledges = connection, 0, c.head, 0
        p.bits = BITS + HEADER_BITS if m.sending else m.last
        c.flying += 1
        if m.sending == 0:
            c.head = m.following
        cross(w, packet)


@compiled(numba.void(WIRES, Z), inline=True)
def settle(w: Wires, packet: int) -> None:
    """An acknowledgment has come: a part of the window is free again."""
    p = w.packets[packet]
    connection = p.connection
    w.connections[connection].flying -= p.acknowledges
    release(w, packet)
    pump(w, connection)


@compiled(Z(WIRES, R, Z))
def go(w: Wires, until: float, most: int) -> int:
    """Let time pass until then, or until a message has come, which it returns; FULL where there is no room for more packets.

    NONE also where packets have crossed links `most` times, since the beginning.
    """
    while w.state[SIZE] and w.times[0] <= until and w.state[ORDER] < most:
        if w.state[UNDER_WAY] + MOST > len(w.packets):
            return FULL
        packet = w.whats[0]
        w.clock[0] = w.times[0]
        w.state[SIZE] = pop(w.times, w.orders, w.whats, w.state[SIZE])
        p = w.packets[packet]
        c = w.connections[p.connection]
        p.hop += 1
        if p.hop == 2 * c.links:
            settle(w, packet)
        elif p.acknowledges or p.hop < c.links:
            cross(w, packet)
        else:
            message = p.message
            m = w.messages[message]
            m.coming -= 1
            c.received += 1
            if c.received == 2 or m.coming == 0:
                p.acknowledges, p.bits = c.received, HEADER_BITS
                c.received = 0
                cross(w, packet)
            else:
                release(w, packet)
            if m.coming == 0:
                return int(message)
    return NONE
