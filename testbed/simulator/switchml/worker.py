"""A SwitchML worker: hosts.switchml.worker.SwitchML for compiled loops, by its names."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.recovery import (
    answered,
    results_needless,
    rows_of,
    settled,
    transmit,
)
from inalab.testbed.simulator.stream import finish
from inalab.testbed.simulator.world import (
    AHEAD,
    ANNOUNCED,
    CHUNK,
    DEADLINE,
    NEXT,
    ROUND,
    STATUS,
    TRIES,
    WORLD,
    R,
    Rows,
    World,
    Z,
)

TAKEN = -np.inf  # in place of the deadline of a slot whose result is in the batch that is looked at


@compiled(numba.void(WORLD, Z, Rows, R), inline=True)
def release(world: World, w: int, rows: NDArray[np.int64], now: float) -> None:
    """SwitchML._release: send the next packets of these slots, as far as there are chunks for them."""
    me, own = world.workers[w], world.slots[w]
    job = world.jobs[me.job]
    start = me.position - job.chunks
    ready, n = np.empty(len(rows), np.int64), 0
    for row in rows:
        if own[NEXT, row] >= me.position:
            continue
        ready[n] = row
        n += 1
        own[CHUNK, row] = own[ROUND, row] * job.slots + row
        own[TRIES, row] = 0
        j = own[NEXT, row] - start
        own[AHEAD, row] = not own[ANNOUNCED, row] and (j == 0 or (job.exponents and j < job.slots))
    if n:
        transmit(world, w, ready[:n], now, False)


@compiled(numba.void(WORLD, Z, R))
def take_statuses(world: World, w: int, now: float) -> None:
    """SwitchML._take_statuses: learn whom the switches lack, of the slots that the inbox's statuses are about."""
    me, own = world.workers[w], world.slots[w]
    rows, lacking, n = np.empty(me.arrived, np.int64), np.empty(me.arrived, np.bool_), 0
    had = np.zeros(own.shape[1], np.bool_)
    for i in range(me.arrived):
        p = world.packets[world.inbox[w, i]]
        if p.kind != STATUS or own[CHUNK, p.slot] != p.chunk or world.slot_times[w, DEADLINE, p.slot] == TAKEN:
            continue
        lacks = p.mark == 0 and p.seen >> world.trees[me.job, w].child & 1 == 0
        if had[p.slot] or (lacks and p.tries != own[TRIES, p.slot] & 0xFF):
            continue
        had[p.slot] = True
        rows[n], lacking[n] = p.slot, lacks
        n += 1
    if n and world.jobs[me.job].asks:
        answered(world, w, rows[:n], lacking[:n], now)


@compiled(numba.void(WORLD, Z, R), inline=True)
def receive(world: World, w: int, now: float) -> None:
    """SwitchML._receive: take all that is in the inbox, and send what it releases."""
    me, own, deadline = world.workers[w], world.slots[w], world.slot_times[w, DEADLINE]
    rows, once, n = np.empty(me.arrived, np.int64), np.empty(me.arrived, np.bool_), 0
    statuses = again = 0
    for i in range(me.arrived):
        p = world.packets[world.inbox[w, i]]
        if p.kind == STATUS:
            statuses += 1
        elif own[CHUNK, p.slot] != p.chunk or deadline[p.slot] == TAKEN:
            again += 1
        else:
            deadline[p.slot] = TAKEN
            rows[n], once[n] = p.slot, p.mark == 0
            n += 1
    if statuses:
        take_statuses(world, w, now)
    if again:
        me.duplicates += again
        results_needless(world, w, 0, now)
    if n == 0:
        return
    settled(world, w, rows[:n], once[:n], now)
    for row in rows[:n]:
        ahead = own[AHEAD, row]
        own[ROUND, row] += 1
        own[ANNOUNCED, row] = ahead
        if not ahead:
            own[NEXT, row] += rows_of(world, w)
            me.remaining -= 1
    if me.remaining == 0:
        finish(world, w, now)
    release(world, w, rows[:n], now)
