"""A parameter server: hosts.atp.server.AtpServer and hosts.atp.merger.Merger for compiled loops, by their names.

It adds nothing: of each chunk it knows who is in, by rack. Integers are taken to suffice, so no worker sends raw values.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp.allocation import following
from inalab.hosts.atp.departures import NO_ONE, lacking, occupy
from inalab.hosts.atp.departures import leave as depart
from inalab.hosts.atp.tree import BITS
from inalab.hosts.atp.wire import ASKED, COLLISION, ECN, JOINS, RESEND
from inalab.hosts.compiled import compiled
from inalab.hosts.drivers.server import NAP as LONGEST_NAP
from inalab.testbed.simulator.lines import BATCH, HOST, NAP, cross_from_host
from inalab.testbed.simulator.world import (
    EVENTS,
    FULL,
    QUERY,
    RESULT,
    STATUS,
    UP,
    UPDATE,
    WAKE,
    WORLD,
    B,
    R,
    Rows,
    World,
    Z,
    drop,
    new_packet,
    schedule,
)

AGGREGATOR, ATTEMPT = range(2)  # of World.places
NOTHING, ASKING, READY = range(3)
ROWS: Any = numba.types.UniTuple(Rows, 3)  # type: ignore[no-untyped-call]
Numbers = NDArray[np.int64]


@compiled(Z(WORLD, Z, Z, Z), inline=True)
def who(world: World, server: int, packet: int, rack: int) -> int:
    """Bits of the workers of a rack that are in a packet (hosts.atp.tree)."""
    p, all_of_it = world.packets[packet], world.members[server, rack]
    if rack == world.servers[server].local:
        return int(p.seen & all_of_it)
    if not p.seen >> (BITS - 1 - rack) & 1:
        return 0
    return int(p.zero & all_of_it if p.zero else all_of_it)


@compiled(numba.void(WORLD, Z, Z, Z))
def begin(world: World, server: int, row: int, chunk: int) -> None:
    """Begin a chunk in a row that was another one's."""
    its = world.rows[server, row]
    its.chunk, its.complete, its.flags, its.mark = chunk, 0, 0, 0
    world.seen[server, row] = 0


@compiled(Z(WORLD, Z, Z), inline=True)
def row_of(world: World, server: int, chunk: int) -> int:
    """A chunk's row."""
    return int(chunk % (2 * world.jobs[world.servers[server].job].slots))


@compiled(B(WORLD, Z, Z), inline=True)
def add(world: World, server: int, packet: int) -> bool:
    """Add a gradient, every worker once; whether its chunk is complete now."""
    p, racks = world.packets[packet], world.servers[server].racks
    row = row_of(world, server, p.chunk)
    its, seen = world.rows[server, row], world.seen[server, row]
    if p.chunk > its.chunk:
        begin(world, server, row, p.chunk)
    for rack in range(racks):
        if seen[rack] & who(world, server, packet, rack):
            return False
    complete = True
    for rack in range(racks):
        seen[rack] |= who(world, server, packet, rack)
        complete &= seen[rack] == world.members[server, rack]
    its.flags |= p.mark
    its.slot = p.slot
    if complete:
        its.complete = its.done = 1
    return complete


@compiled(numba.void(WORLD, Z, Z), inline=True)
def finish(world: World, server: int, row: int) -> None:
    """Merger._finish: make a result, with the aggregator of the chunk one window later."""
    its, me = world.rows[server, row], world.servers[server]
    places, held = world.places[server], world.held[server, : world.jobs[me.job].aggregators]
    its.mark = its.flags & (ECN | COLLISION) | (RESEND if its.flags & JOINS else 0)
    its.next = its.slot
    if its.flags & COLLISION:
        place = its.chunk % world.jobs[me.job].slots
        held[places[AGGREGATOR, place]] -= 1
        taken, attempt = following(me.job, place, places[ATTEMPT, place] + 1, its.slot, held)
        held[taken] += 1
        places[AGGREGATOR, place], places[ATTEMPT, place] = taken, attempt
        its.next = taken


@compiled(numba.void(WORLD, Z, Z), inline=True)
def name(world: World, server: int, row: int) -> None:
    """Have a result name the two before it: hosts.atp.succession."""
    its, me = world.rows[server, row], world.servers[server]
    its.before = its.before_that = NO_ONE
    if not its.mark & RESEND:
        its.before, its.before_that = me.before, me.before_that
        me.before, me.before_that = its.chunk, me.before


@compiled(Z(WORLD, Z), inline=True)
def nearest_switch(world: World, server: int) -> int:
    """The switch of its rack."""
    node = len(world.workers) + len(world.switches) + server
    return int(world.children[world.trees[world.servers[server].tree, node].first])


@compiled(Z(WORLD, Z, Z, R), inline=True)
def new_from(world: World, server: int, kind: int, now: float) -> int:
    """A packet that leaves the server for the switch of its rack."""
    me, p = world.servers[server], new_packet(world)
    its = world.packets[p]
    me.busy = max(now, me.busy) + world.costs[HOST]
    its.kind, its.job, its.tree, its.node = kind, me.job, me.tree, nearest_switch(world, server)
    return int(p)


@compiled(numba.void(WORLD, Z, Z, B), inline=True)
def leave(world: World, server: int, packet: int, urgent: bool) -> None:
    """It leaves."""
    its = world.packets[packet]
    place = world.trees[its.tree, its.node]
    cross_from_host(world, world.servers[server].busy, packet, place.link, urgent)


@compiled(numba.void(WORLD, Z, Z, Z, R, B))
def send_result(world: World, server: int, row: int, goal: int, now: float, urgent: bool) -> None:
    """A result leaves for a worker, or a switch, which gives it to all below."""
    its, p = world.rows[server, row], new_from(world, server, RESULT, now)
    packet = world.packets[p]
    packet.chunk, packet.slot, packet.mark, packet.next = its.chunk, its.slot, its.mark, its.next
    packet.zero, packet.seen, packet.goal = its.before, its.before_that, goal
    leave(world, server, p, urgent)
    rows, link = np.array([row]), world.links[world.trees[packet.tree, packet.node].link, UP]
    depart(rows, goal, urgent, link.vector, now, world.idle_at[server], world.goals[server], world.leaves[server])


@compiled(Z(WORLD, Z, Z), inline=True)
def near(world: World, server: int, packet: int) -> int:
    """The goal of a result that a query asks for: a worker, or the switch of a rack, or the nearest one for all."""
    found = nearest_switch(world, server)
    racks = workers = 0
    for rack in range(world.servers[server].racks):
        bits = who(world, server, packet, rack)
        if bits:
            racks += 1
            for number in range(BITS):
                if bits >> number & 1:
                    workers += 1
                    found = world.ranks[server, rack, number]
    if workers > 1:
        found = world.nearest[found] if racks == 1 else nearest_switch(world, server)
    return int(found)


@compiled(numba.void(WORLD, Z, Z, Z), inline=True)
def fill_status(world: World, server: int, question: int, status: int) -> None:
    """Write whom a chunk has, and how the one who asks sends again if it is not in."""
    asks, tells, me = world.packets[question], world.packets[status], world.servers[server]
    row = row_of(world, server, asks.chunk)
    known, seen = world.rows[server, row].chunk == asks.chunk, world.seen[server, row]
    zero = one = 0
    for rack in range(me.racks):
        bits = seen[rack] if known else 0
        if rack == me.local:
            one |= bits
        elif bits:
            one |= 1 << (BITS - 1 - rack)
            if world.trees[me.tree, asks.goal].one == 1 << (BITS - 1 - rack):  # the rack of whoever asks
                zero = bits
    tells.chunk, tells.slot, tells.tries, tells.goal = asks.chunk, asks.slot, asks.tries, asks.goal
    tells.zero, tells.seen, tells.mark = zero, one, RESEND if one else ASKED


@compiled(Rows(WORLD, Z, Rows), inline=True)
def wanted(world: World, server: int, questions: Numbers) -> Numbers:
    """What these queries are for: a READY result, a status (ASKING), or nothing. Results that are sent now tell no round trips."""
    found = np.full(len(questions), NOTHING, np.int64)
    for i in range(len(questions)):
        q = world.packets[questions[i]]
        its = world.rows[server, row_of(world, server, q.chunk)]
        if q.chunk < its.chunk or its.done:
            continue  # all have its result
        if q.chunk > its.chunk or not its.complete:
            found[i] = ASKING
        elif q.mark & JOINS:  # else it is on its way, as far as this worker knows
            found[i] = READY
            its.mark |= RESEND
    return found


@compiled(numba.void(WORLD, Z, Rows, Rows, R, B), inline=True)
def repeat(world: World, server: int, rows: Numbers, goals: Numbers, now: float, urgent: bool) -> None:
    """AtpServer._repeat: in order of whom they are for, switches before workers."""
    to_all = nearest_switch(world, server)
    rows, goals = lacking(rows, goals, now, world.goals[server], world.leaves[server], world.nearest, to_all)
    workers, switches = len(world.workers), len(world.switches)
    peers = np.array([goal - workers if goal >= workers else switches + goal for goal in goals], np.int64)
    for i in np.argsort(peers, kind="mergesort"):
        send_result(world, server, rows[i], goals[i], now, urgent)


@compiled(numba.void(WORLD, Z, Rows, Rows, R), inline=True)
def answer(world: World, server: int, questions: Numbers, wants: Numbers, now: float) -> None:
    """Results leave that are asked for, then statuses, in order of whom they are for."""
    statuses, m = np.empty(len(questions), np.int64), 0
    for i in range(len(questions)):
        if wants[i] == ASKING:
            statuses[m] = world.packets[questions[i]].goal << 32 | i
            m += 1
    ready = questions[wants == READY]
    rows = np.array([row_of(world, server, world.packets[q].chunk) for q in ready], np.int64)
    repeat(world, server, rows, np.array([near(world, server, q) for q in ready], np.int64), now, True)
    header = world.links[world.trees[world.servers[server].tree, nearest_switch(world, server)].link, UP].header
    for key in np.sort(statuses[:m]):
        p = new_from(world, server, STATUS, now)
        fill_status(world, server, questions[key & 0xFFFFFFFF], p)
        leave(world, server, p, True)
    occupy(m, True, header, now, world.idle_at[server])


@compiled(Z(WORLD, Z, Z, Rows, Z), inline=True)
def ask_again(world: World, server: int, packet: int, asked: Numbers, m: int) -> int:
    """Note who has sent a packet again after its result, if they were not told to; how many `asked` has now."""
    p = world.packets[packet]
    if p.mark & JOINS != RESEND:
        return m
    for rack in range(world.servers[server].racks):
        bits = who(world, server, packet, rack)
        for number in range(BITS):
            if bits >> number & 1:
                asked[m] = world.ranks[server, rack, number] << 32 | row_of(world, server, p.chunk)
                m += 1
    return m


@compiled(ROWS(WORLD, Z), inline=True)
def take(world: World, server: int) -> tuple[Numbers, Numbers, Numbers]:
    """Merger.take: rows that are complete now, (worker << 32 | row) of who asks for results by sending again, and queries."""
    me = world.servers[server]
    finished, n = np.empty(me.arrived, np.int64), 0
    asked, m = np.empty(me.arrived * world.jobs[me.job].size, np.int64), 0
    questions, k = np.empty(me.arrived, np.int64), 0
    for i in range(me.arrived):
        packet = world.inbox[len(world.workers) + server, i]
        p = world.packets[packet]
        its = world.rows[server, row_of(world, server, p.chunk)]
        if p.kind == QUERY:
            questions[k] = packet
            k += 1
        elif p.kind != UPDATE or p.chunk < its.chunk or (p.chunk > its.chunk and its.done):
            continue
        elif p.chunk == its.chunk and its.complete:
            m = ask_again(world, server, packet, asked, m)
        elif add(world, server, packet):
            finished[n] = row_of(world, server, p.chunk)
            n += 1
    return finished[:n], asked[:m], questions[:k]


@compiled(numba.void(WORLD, Z, R))
def look(world: World, server: int, now: float) -> None:
    """AtpServer._answer: take all that has arrived, and answer."""
    me = world.servers[server]
    now = max(now, me.busy) + world.costs[BATCH] + world.costs[HOST] * me.arrived
    me.busy, me.woken = now, 0
    finished, asked, questions = take(world, server)
    for row in finished:
        finish(world, server, row)
        name(world, server, row)
    wants = wanted(world, server, questions)
    for row in finished:
        if not world.rows[server, row].mark & RESEND:
            send_result(world, server, row, nearest_switch(world, server), now, False)
    asked = np.unique(asked)
    repeat(world, server, asked & 0xFFFFFFFF, asked >> 32, now, False)
    for row in finished:
        if world.rows[server, row].mark & RESEND:
            send_result(world, server, row, nearest_switch(world, server), now, True)
    answer(world, server, questions, wants, now)
    for row in finished:
        world.rows[server, row].done = 0
    for i in range(me.arrived):
        drop(world, world.inbox[len(world.workers) + server, i])
    me.arrived = 0


@compiled(numba.void(WORLD, Z, Z, R))
def arrive(world: World, server: int, packet: int, now: float) -> None:
    """A packet has come to a server, which looks at it at once, or when it wakes."""
    me, host = world.servers[server], len(world.workers) + server
    if me.arrived == world.inbox.shape[1]:
        world.state[FULL] = 1
        return
    world.inbox[host, me.arrived] = packet
    me.arrived += 1
    if world.costs[NAP] == 0.0:
        look(world, server, now)
    elif not me.woken:
        me.woken = 1
        schedule(world, max(now, me.busy) + world.costs[NAP] * LONGEST_NAP, host * EVENTS + WAKE)
