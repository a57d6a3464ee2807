"""A switch's aggregators, as p4/atp.p4 and tests/atp_reference.py have them: what a packet does to its own, and what leaves.

Levels are those of a tree, which leads to one server: 0 in a remote worker's rack, 1 in the server's, TRANSIT above them.
"""

from __future__ import annotations

import numba

from inalab.hosts.atp.wire import ASKED, COLLISION, ECN, JOINS, RESEND
from inalab.hosts.compiled import compiled
from inalab.switches.atp import EVENTS
from inalab.testbed.simulator.lines import SWITCH, launch
from inalab.testbed.simulator.world import QUERY, RESULT, STATUS, UPDATE, WORLD, B, R, World, Z, drop, new_packet

TRANSIT = 2
CLAIM, COLLIDE, COMPLETE, FLUSH, PASS, FREE, ANSWER, REPAIR = range(len(EVENTS))
LIFETIME = 1.0  # seconds that others respect an aggregator that is not touched: schemes.atp.AGGREGATOR_LIFETIME


@compiled(Z(Z), inline=True)
def count(bits: int) -> int:
    """How many of them are set."""
    found = 0
    while bits:
        bits &= bits - 1
        found += 1
    return found


@compiled(numba.void(WORLD, Z, Z), inline=True)
def note(world: World, packet: int, event: int) -> None:
    """Count what happens to a packet at its switch."""
    p = world.packets[packet]
    world.happened[p.node - len(world.workers), p.job, event] += 1


@compiled(numba.void(WORLD, R, Z))
def go_up(world: World, now: float, packet: int) -> None:
    """A packet leaves a switch for the next one on the way to its server, or for that."""
    p = world.packets[packet]
    place = world.trees[p.tree, p.node]
    p.node = place.above
    launch(world, now, packet, place.link, place.way)


@compiled(numba.void(WORLD, R, Z, Z))
def go_down(world: World, now: float, packet: int, node: int) -> None:
    """A packet leaves for a node below."""
    p = world.packets[packet]
    place = world.trees[p.tree, node]
    p.node = node
    launch(world, now, packet, place.link, 1 - place.way)


@compiled(numba.void(WORLD, R, Z))
def go_to(world: World, now: float, packet: int) -> None:
    """A packet leaves for the next node on the way down to its goal."""
    p = world.packets[packet]
    node, tree = p.goal, world.trees[p.tree]
    while tree[node].above != p.node:
        node = tree[node].above
    go_down(world, now, packet, node)


@compiled(numba.void(WORLD, R, Z))
def spread(world: World, now: float, packet: int) -> None:
    """A result leaves for all workers below, and switches, each of which spreads it further."""
    p = world.packets[packet]
    place, node = world.trees[p.tree, p.node], p.node
    for i in range(place.first, place.first + place.count):
        copy = new_packet(world)
        world.packets[copy] = p
        world.packets[copy].node = node
        world.packets[copy].goal = world.children[i]
        go_down(world, now, copy, world.children[i])
    drop(world, packet)


@compiled(numba.void(WORLD, R, Z, Z), inline=True)
def on(world: World, now: float, packet: int, seen: int) -> None:
    """ModelAtpSwitch._on: a gradient leaves for its server, with these children."""
    p = world.packets[packet]
    place = world.trees[p.tree, p.node]
    if place.level == 1:
        p.seen = seen
    else:
        p.zero = 0 if count(seen) == place.fan_in else seen
    go_up(world, now, packet)


@compiled(numba.void(WORLD, R, Z))
def take_gradient(world: World, now: float, packet: int) -> None:
    """ModelAtpSwitch.gradient."""
    p = world.packets[packet]
    place, its = world.trees[p.tree, p.node], world.aggregators[p.node - len(world.workers), p.slot]
    if place.level == 1 and p.zero:
        if p.mark & COLLISION:
            its.refused_job, its.refused_chunk = p.job, p.chunk
        note(world, packet, PASS)
        go_up(world, now, packet)
        return
    who = p.zero if place.level == 0 else p.seen
    if its.seen == 0 or its.job != p.job or its.chunk != p.chunk:
        late = (its.refused_job == p.job and its.refused_chunk == p.chunk) or (
            its.finished_job == p.job and its.finished_chunk == p.chunk
        )
        held = its.seen != 0 and now - its.touched <= LIFETIME
        if not p.mark & RESEND and (held or (late and count(who) < place.fan_in)):
            its.refused_job, its.refused_chunk = p.job, p.chunk
            p.mark |= COLLISION
            note(world, packet, COLLIDE)
        elif not p.mark & RESEND and count(who) < place.fan_in:
            its.job, its.chunk, its.seen, its.touched, its.asked = p.job, p.chunk, who, now, 0
            its.ecn, its.again = p.mark & ECN, p.mark & ASKED
            note(world, packet, CLAIM)
            drop(world, packet)
            return
        else:
            note(world, packet, PASS)
        on(world, now, packet, who)
        return
    stays = p.mark & JOINS != RESEND
    missing = who & ~its.seen
    if missing:
        its.seen |= who
        its.touched = now
        its.ecn |= p.mark & ECN
        its.again |= p.mark & ASKED
    seen = its.seen
    if stays and (not missing or count(seen) < place.fan_in):
        drop(world, packet)
        return
    p.mark |= its.ecn
    note(world, packet, COMPLETE if stays else FLUSH)
    if stays:
        p.mark = p.mark & ~JOINS | its.again
    else:
        its.seen = 0
    on(world, now, packet, seen)


@compiled(B(WORLD, Z), inline=True)
def owns(world: World, packet: int) -> bool:
    """Whether a packet's aggregator holds its chunk."""
    p = world.packets[packet]
    its = world.aggregators[p.node - len(world.workers), p.slot]
    return bool(its.seen != 0 and its.job == p.job and its.chunk == p.chunk)


@compiled(numba.void(WORLD, R, Z))
def take_query(world: World, now: float, packet: int) -> None:
    """ModelAtpSwitch.query."""
    p = world.packets[packet]
    place, its = world.trees[p.tree, p.node], world.aggregators[p.node - len(world.workers), p.slot]
    if (place.level == 1 and p.zero) or not owns(world, packet):
        if place.level == 0 and place.fan_in == 1:
            p.zero = 0
        go_up(world, now, packet)
        return
    who = p.zero if place.level == 0 else p.seen
    if who & ~its.seen or count(its.seen) < place.fan_in or (its.asked and not p.mark & ASKED):
        p.kind = STATUS
        p.mark = p.mark & ECN | JOINS
        if place.level == 0:
            p.zero = its.seen
        else:
            p.seen = its.seen
        note(world, packet, ANSWER)
        go_to(world, now, packet)
        return
    its.asked = 1
    if place.level == 0:
        p.zero = 0
    else:
        p.seen = its.seen
    go_up(world, now, packet)


@compiled(numba.void(WORLD, R, Z))
def take_status(world: World, now: float, packet: int) -> None:
    """ModelAtpSwitch.status."""
    p = world.packets[packet]
    place, its = world.trees[p.tree, p.node], world.aggregators[p.node - len(world.workers), p.slot]
    if not owns(world, packet):
        go_to(world, now, packet)
        return
    its.asked = 0
    there = p.seen != 0 if place.level == 1 else p.seen & place.one != 0
    seen, complete = its.seen, count(its.seen) == place.fan_in
    if not (complete and not there):
        if not there or p.mark & ASKED:
            go_to(world, now, packet)
            return
        its.seen = 0  # the server has a part: what is missing here will not come, or the whole is of no use
        if complete:
            go_to(world, now, packet)
            return
    note(world, packet, FLUSH if its.seen == 0 else REPAIR)
    p.kind = UPDATE
    p.mark |= ASKED | its.ecn
    p.zero, p.seen = 0, seen
    if place.level == 0:
        p.zero, p.seen = 0 if complete else seen, place.one
    go_up(world, now, packet)


@compiled(numba.void(WORLD, R, Z))
def take_result(world: World, now: float, packet: int) -> None:
    """ModelAtpSwitch.result, of one that is for all below; another passes by."""
    p = world.packets[packet]
    if p.goal != p.node:
        go_to(world, now, packet)
        return
    its = world.aggregators[p.node - len(world.workers), p.slot]
    its.finished_job, its.finished_chunk = p.job, p.chunk
    if owns(world, packet):
        note(world, packet, FREE)
        its.seen = 0
    spread(world, now, packet)


@compiled(numba.void(WORLD, R, Z))
def take_at_switch(world: World, now: float, packet: int) -> None:
    """A packet has arrived at a switch, which looks at one after another."""
    p = world.packets[packet]
    switch = p.node - len(world.workers)
    now = max(now, world.switches[switch]) + world.costs[SWITCH]
    world.switches[switch] = now
    transit = world.trees[p.tree, p.node].level == TRANSIT
    if p.kind == RESULT:
        take_result(world, now, packet)
    elif p.kind == STATUS:
        if transit:
            go_to(world, now, packet)
        else:
            take_status(world, now, packet)
    elif transit:
        go_up(world, now, packet)
    elif p.kind == QUERY:
        take_query(world, now, packet)
    else:
        take_gradient(world, now, packet)
