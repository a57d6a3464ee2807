"""How packets get from one node to the next: a link sends one after another at its rate, a host's urgent ones first."""

from __future__ import annotations

import numba
import numpy as np

from inalab.hosts.atp.wire import ECN
from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.losses import loses
from inalab.testbed.simulator.world import (
    ABOVE,
    DOWN,
    EVENTS,
    NEVER_LATE,
    NOWHERE,
    PACKET,
    QUERY,
    STATUS,
    UP,
    WORLD,
    B,
    R,
    World,
    Z,
    drop,
    new_packet,
    schedule,
)

HOST, BATCH, SWITCH, DELAY, NAP = range(5)  # of World.costs
COSTS = 5
NOTHING = 1e-6  # of a packet: what rounding may add


@compiled(R(WORLD, Z, Z, Z), inline=True)
def time_on(world: World, packet: int, link: int, direction: int) -> float:
    """How long a packet takes on a link."""
    its = world.links[link, direction]
    return float(its.header if world.packets[packet].kind in (QUERY, STATUS) else its.vector)


@compiled(numba.void(WORLD, R, Z, Z, B), inline=True)
def cross_from_host(world: World, now: float, packet: int, link: int, urgent: bool) -> None:
    """A host's packet goes over its link, after what was sent before; an urgent one before all that have not begun to cross.

    Those arrive later then. The events of their arrivals are there already, and find that they are not `due` (`is_due`).
    """
    p, its, takes = world.packets[packet], world.links[link, UP], time_on(world, packet, link, UP)
    start = max(now, its.busy)
    its.busy = start + takes
    p.link = link
    if urgent:
        waits = its.head
        while waits >= 0 and world.packets[waits].start <= now:
            waits = world.packets[waits].following
        if waits >= 0:
            start = world.packets[waits].start
        while waits >= 0:
            world.packets[waits].start += takes
            world.packets[waits].due += takes
            waits = world.packets[waits].following
        p.due = NEVER_LATE
    else:
        p.start, p.due, p.following = start, start + takes + world.costs[DELAY], -1
        if its.head < 0:
            its.head = packet
        else:
            world.packets[its.tail].following = packet
        its.tail = packet
    schedule(world, start + takes + world.costs[DELAY], packet * EVENTS + PACKET)


@compiled(B(WORLD, Z, R), inline=True)
def is_due(world: World, packet: int, now: float) -> bool:
    """Whether a packet arrives, which something urgent may have overtaken; else it does later."""
    p = world.packets[packet]
    if p.due == NEVER_LATE:
        return True
    if p.due > now:
        schedule(world, p.due, packet * EVENTS + PACKET)
        return False
    world.links[p.link, UP].head = p.following
    return True


@compiled(numba.void(WORLD, R, Z, Z, Z), inline=True)
def cross(world: World, now: float, packet: int, link: int, direction: int) -> None:
    """A switch's packet goes over a link, and arrives after its delay; unless the queue before it is full.

    A queue that has a rate lets packets go one after another, whatever their size, and tells how many wait.
    """
    its = world.links[link, direction]
    world.packets[packet].due = NEVER_LATE
    if its.pace > 0.0:
        waiting = int(np.ceil((its.paced - now) / its.pace - NOTHING)) - 1  # those that have not left
        if its.depth and waiting >= its.depth:
            its.dropped += 1
            drop(world, packet)
            return
        if its.deep and waiting >= its.deep:
            world.packets[packet].mark |= ECN
        now = max(now, its.paced)
        its.paced = now + its.pace
    elif its.depth and its.busy - now > its.depth * its.vector:
        its.dropped += 1
        drop(world, packet)
        return
    its.busy = max(now, its.busy) + time_on(world, packet, link, direction)
    schedule(world, its.busy + world.costs[DELAY], packet * EVENTS + PACKET)


@compiled(numba.void(WORLD, R, Z, Z, Z), inline=True)
def launch(world: World, now: float, packet: int, link: int, direction: int) -> None:
    """A switch's packet leaves for its node, unless the link loses it: downwards at once, upwards on arrival."""
    if direction == UP:
        world.packets[packet].link = link
    elif loses(world, link, DOWN):
        drop(world, packet)
        return
    else:
        world.packets[packet].link = NOWHERE
    cross(world, now, packet, link, direction)


@compiled(Z(WORLD, Z, Z, Z, Z, Z, Z, Z, Z, Z), inline=True)
def packet_of(
    world: World, kind: int, job: int, node: int, child: int, slot: int, chunk: int, mark: int, seen: int, tries: int
) -> int:
    """A new packet."""
    p = new_packet(world)
    its = world.packets[p]
    its.kind, its.job, its.tree, its.node, its.child, its.slot, its.chunk = kind, job, job, node, child, slot, chunk
    its.mark, its.seen, its.tries = mark, seen, tries
    return p


@compiled(numba.void(WORLD, R, Z, Z, Z, Z, Z, Z, Z, B), inline=True)
def send_up(
    world: World, now: float, job: int, node: int, kind: int, slot: int, chunk: int, mark: int, tries: int, urgent: bool
) -> None:
    """A node of SwitchML sends a packet to the switch above it. What its link loses is lost on arrival (`arrives`)."""
    place = world.trees[job, node]
    p = packet_of(world, kind, job, place.above, place.child, slot, chunk, mark, 0, tries)
    if node < len(world.workers):
        cross_from_host(world, now, p, place.link, urgent)
    else:
        launch(world, now, p, place.link, UP)


@compiled(numba.void(WORLD, R, Z, Z, Z, Z, Z, Z, Z, Z), inline=True)
def send_down(
    world: World, now: float, job: int, node: int, kind: int, slot: int, chunk: int, mark: int, seen: int, tries: int
) -> None:
    """A switch of SwitchML sends a packet to a node below it."""
    p = packet_of(world, kind, job, node, ABOVE, slot, chunk, mark, seen, tries)
    launch(world, now, p, world.trees[job, node].link, DOWN)


@compiled(numba.void(WORLD, R, Z, Z, Z, Z, Z, Z, Z, Z), inline=True)
def multicast(
    world: World, now: float, job: int, node: int, kind: int, slot: int, chunk: int, mark: int, seen: int, tries: int
) -> None:
    """A switch sends a packet to all of a job's nodes below it."""
    place = world.trees[job, node]
    for i in range(place.first, place.first + place.count):
        send_down(world, now, job, world.children[i], kind, slot, chunk, mark, seen, tries)


@compiled(B(WORLD, Z), inline=True)
def arrives(world: World, packet: int) -> bool:
    """Whether the link that a packet has crossed has not lost it. The upper end of a link decides, for both directions."""
    link = world.packets[packet].link
    return link == NOWHERE or not loses(world, link, UP)
