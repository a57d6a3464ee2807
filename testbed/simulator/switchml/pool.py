"""A switch's pool of slots, as p4/switchml.p4 and tests/reference.py have it: what a packet does to its cell, and what leaves."""

from __future__ import annotations

import numba

from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.lines import SWITCH, multicast, send_down, send_up
from inalab.testbed.simulator.sending import AGAIN, INSISTS
from inalab.testbed.simulator.world import QUERY, RESULT, STATUS, UPDATE, WORLD, R, World, Z

NO_ONE = -1


@compiled(numba.void(WORLD, R, Z, Z), inline=True)
def take_update(world: World, now: float, packet: int, number: int) -> None:
    """A worker's part, or a rack's, for a cell: reference.ModelSwitch.update."""
    p = world.packets[packet]
    job, node, slot, chunk, mark = p.job, p.node, p.slot, p.chunk, p.mark
    cell, place = world.cells[node - len(world.workers), number], world.trees[job, node]
    if chunk < cell.chunk:
        return  # delayed beyond its round
    if chunk > cell.chunk:
        cell.chunk, cell.seen, cell.final, cell.asker = chunk, 0, 0, NO_ONE
    before, own = cell.seen, 1 << p.child
    complete = before == place.everyone
    if before & own:
        if not complete:
            return
    else:
        cell.seen = before | own
        if cell.seen != place.everyone:
            return
    if place.above >= 0 and not cell.final:
        send_up(world, now, job, node, UPDATE, slot, chunk, mark, 0, False)
    elif complete:
        send_down(world, now, job, world.children[place.first + p.child], RESULT, slot, chunk, mark, 0, 0)
    else:
        multicast(world, now, job, node, RESULT, slot, chunk, mark, 0, 0)


@compiled(numba.void(WORLD, R, Z, Z))
def take_query(world: World, now: float, packet: int, number: int) -> None:
    """What became of a chunk: reference.ModelSwitch.query."""
    p = world.packets[packet]
    job, node, slot, chunk, mark, child, tries = p.job, p.node, p.slot, p.chunk, p.mark, p.child, p.tries
    cell, place = world.cells[node - len(world.workers), number], world.trees[job, node]
    inside = cell.seen if cell.chunk == chunk else 0
    asking = world.children[place.first + child]
    if inside != place.everyone:
        send_down(world, now, job, asking, STATUS, slot, chunk, 0, inside, tries)
    elif cell.final or place.above < 0:
        send_down(world, now, job, asking, RESULT, slot, chunk, AGAIN, 0, 0)
    else:
        if cell.asker == NO_ONE or mark == INSISTS:
            cell.asker = child
        elif cell.asker != child or mark == 0:
            return
        send_up(world, now, job, node, QUERY, slot, chunk, mark, tries, False)


@compiled(numba.void(WORLD, R, Z, Z))
def take_from_above(world: World, now: float, packet: int, number: int) -> None:
    """A result, or what the switch above lacks: reference.ModelSwitch.result and status."""
    p = world.packets[packet]
    kind, job, node, slot, chunk, mark = p.kind, p.job, p.node, p.slot, p.chunk, p.mark
    cell, place = world.cells[node - len(world.workers), number], world.trees[job, node]
    if cell.chunk != chunk or cell.seen != place.everyone or cell.final:
        return  # a second copy, or too late
    if kind == RESULT:
        cell.final = 1
        multicast(world, now, job, node, RESULT, slot, chunk, mark, 0, 0)
    elif mark != 0 or p.seen >> place.child & 1:
        multicast(world, now, job, node, STATUS, slot, chunk, mark + 1, p.seen, p.tries)
    else:
        send_up(world, now, job, node, UPDATE, slot, chunk, AGAIN, 0, False)


@compiled(numba.void(WORLD, R, Z), inline=True)
def take_at_switch(world: World, now: float, packet: int) -> None:
    """A packet has arrived at a switch, which looks at one after another."""
    p = world.packets[packet]
    kind, switch, job = p.kind, p.node - len(world.workers), world.jobs[p.job]
    now = max(now, world.switches[switch]) + world.costs[SWITCH]
    world.switches[switch] = now
    number = job.base + p.chunk // job.slots % 2 * job.slots + p.slot
    if kind == UPDATE:
        take_update(world, now, packet, number)
    elif kind == QUERY:
        take_query(world, now, packet, number)
    else:
        take_from_above(world, now, packet, number)
