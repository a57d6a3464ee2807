"""What workers send of a chunk: its packet, the same again, and queries about it. Each scheme has packets of its own."""

from __future__ import annotations

import numba

from inalab.hosts.atp import wire
from inalab.hosts.compiled import compiled
from inalab.hosts.switchml.wire import MARK_INSISTS
from inalab.hosts.switchml.worker import HEARD
from inalab.testbed.simulator.lines import HOST, cross_from_host, send_up
from inalab.testbed.simulator.world import (
    ASKED,
    CHUNK,
    INDEX,
    MARK,
    MISSED,
    PATH,
    PRESSED,
    QUERY,
    SWITCHML,
    TRIES,
    UPDATE,
    WORLD,
    B,
    R,
    World,
    Z,
    new_packet,
)

AGAIN, INSISTS = 1, MARK_INSISTS  # marks of SwitchML
WIRE_TRIES = 0xFF  # what a query of SwitchML has of the number of tries


@compiled(numba.void(WORLD, R, Z, Z, Z, Z, B))
def send_to_server(world: World, now: float, w: int, row: int, kind: int, flags: int, urgent: bool) -> None:
    """A worker of ATP sends a packet of a chunk, or a query about it, on its way to the chunk's server."""
    own, job = world.slots[w], world.workers[w].job
    tree = world.jobs[job].tree + own[PATH, row]
    place, p = world.trees[tree, w], new_packet(world)
    its = world.packets[p]
    its.kind, its.job, its.tree, its.node, its.slot, its.chunk = kind, job, tree, place.above, own[INDEX, row], own[CHUNK, row]
    its.mark, its.zero, its.seen, its.tries, its.goal = flags, place.zero, place.one, own[TRIES, row] % wire.TRIES, w
    cross_from_host(world, now, p, place.link, urgent)


@compiled(numba.void(WORLD, R, Z, Z, B), inline=True)
def send_chunk(world: World, now: float, w: int, row: int, urgent: bool) -> None:
    """The packet of a chunk leaves, marked if it is not the first time."""
    me, own = world.workers[w], world.slots[w]
    again = own[TRIES, row] > 0
    me.busy = max(now, me.busy) + world.costs[HOST]
    if world.jobs[me.job].scheme == SWITCHML:
        send_up(world, me.busy, me.job, w, UPDATE, row, own[CHUNK, row], AGAIN if again else 0, 0, urgent)
    else:
        send_to_server(world, me.busy, w, row, UPDATE, own[MARK, row] if again else 0, urgent)


@compiled(numba.void(WORLD, R, Z, Z, B, B))
def send_query(world: World, now: float, w: int, row: int, again: bool, urgent: bool) -> None:
    """A query about a chunk leaves: hosts.switchml.worker.SwitchML._ask, hosts.atp.worker.AtpWorker._ask."""
    me, own = world.workers[w], world.slots[w]
    me.busy = max(now, me.busy) + world.costs[HOST]
    if world.jobs[me.job].scheme == SWITCHML:
        mark = INSISTS if own[ASKED, row] > HEARD else (AGAIN if again else 0)
        send_up(world, me.busy, me.job, w, QUERY, row, own[CHUNK, row], mark, own[TRIES, row] & WIRE_TRIES, urgent)
    else:
        missed = own[MISSED, row] > 0 or own[PRESSED, row] == 0 or own[TRIES, row] > 0
        flags = (wire.ASKED if again else 0) | (wire.RESEND if missed else 0)
        send_to_server(world, me.busy, w, row, QUERY, flags, urgent)
