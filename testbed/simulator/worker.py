"""A SwitchML worker: hosts.switchml.worker and the loop of hosts.stream.stream for compiled loops, by their names."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from hosts.compiled import compiled
from hosts.stream import rows as loops
from hosts.stream.stream import LONGEST_NAP, SHORTEST_NAP
from testbed.simulator.lines import BATCH, HOST, NAP
from testbed.simulator.recovery import (
    answered,
    asking_expired,
    latest,
    outstanding,
    resending_expired,
    results_needless,
    rows_of,
    settled,
    transmit,
)
from testbed.simulator.timers import STREAM
from testbed.simulator.world import (
    AHEAD,
    ANNOUNCED,
    CHUNK,
    DEADLINE,
    EVENTS,
    FULL,
    NEXT,
    ROUND,
    START,
    STATUS,
    TIMER,
    TRIES,
    WAKE,
    WORLD,
    R,
    Rows,
    World,
    Z,
    drop,
    schedule,
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


@compiled(numba.void(WORLD, Z, R), inline=True)
def set_timer(world: World, w: int, now: float) -> None:
    """Let the worker's timer ring at its first deadline, if it does not ring before."""
    me, s = world.workers[w], rows_of(world, w)
    if not me.earlier:
        return
    me.earlier = 0
    first, _ = loops.watch(world.slots[w, CHUNK, :s], world.slot_times[w, DEADLINE, :s])
    if first < me.timer_at:
        me.timer_at = first
        schedule(world, max(first, now), w * EVENTS + TIMER)


@compiled(numba.void(WORLD, Z, R))
def begin(world: World, w: int, now: float) -> None:
    """A worker comes to its next sum."""
    me = world.workers[w]
    now = max(now, me.busy)
    world.sums[w, me.sum].begun = now
    me.remaining = world.jobs[me.job].chunks
    me.position += me.remaining
    release(world, w, np.flatnonzero(world.slots[w, CHUNK, : rows_of(world, w)] < 0), now)
    set_timer(world, w, now)


@compiled(numba.void(WORLD, Z, R))
def finish(world: World, w: int, now: float) -> None:
    """A worker has its sum, and computes before the next one."""
    me = world.workers[w]
    its = world.sums[w, me.sum]
    its.ended, its.waited, its.results, its.retransmissions = now, me.waited, me.results, me.retransmissions
    me.sum += 1
    if me.sum < world.jobs[me.job].sums:
        schedule(world, now + world.sums[w, me.sum].compute, w * EVENTS + START)


@compiled(numba.void(WORLD, Z, R))
def take_statuses(world: World, w: int, now: float) -> None:
    """SwitchML._take_statuses: learn whom the switches lack, of the slots that the inbox's statuses are about."""
    me, own = world.workers[w], world.slots[w]
    rows, lacking, n = np.empty(me.arrived, np.int64), np.empty(me.arrived, np.bool_), 0
    had = np.zeros(own.shape[1], np.bool_)
    for i in range(me.arrived):
        p = world.packets[world.inbox[w, i]]
        if p.kind != STATUS or own[CHUNK, p.slot] != p.chunk:
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
        results_needless(world, w, now)
    for i in range(me.arrived):
        drop(world, world.inbox[w, i])
    me.arrived = 0
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


@compiled(numba.void(WORLD, Z, R))
def ring(world: World, w: int, now: float) -> None:
    """The worker's timer rings. Another one may have been set since, for earlier; or it sleeps, and looks when it wakes."""
    me = world.workers[w]
    if now < me.timer_at:
        return
    me.timer_at, me.earlier = np.inf, 1
    if me.woken:
        return
    rows = np.flatnonzero(world.slot_times[w, DEADLINE, : rows_of(world, w)] <= now)
    if len(rows):
        if world.jobs[me.job].asks:
            asking_expired(world, w, rows, now)
        else:
            resending_expired(world, w, rows, now)
        latest(world, w)
    set_timer(world, w, now)


@compiled(numba.void(WORLD, Z, R), inline=True)
def look(world: World, w: int, now: float) -> None:
    """A worker takes all that has arrived."""
    me = world.workers[w]
    now = max(now, me.busy) + world.costs[BATCH] + world.costs[HOST] * me.arrived
    me.busy = now
    me.woken = 0
    receive(world, w, now)
    set_timer(world, w, now)


@compiled(R(WORLD, Z))
def nap(world: World, w: int) -> float:
    """Stream._nap: how long a worker lets more results come before it looks at them."""
    round_trip = world.timers[w, STREAM].srtt
    share = len(outstanding(world, w)) / rows_of(world, w)
    return float(world.costs[NAP] * min(max(share * round_trip / 4, min(SHORTEST_NAP, round_trip / 4)), LONGEST_NAP))


@compiled(numba.void(WORLD, Z, Z, R), inline=True)
def arrive(world: World, w: int, packet: int, now: float) -> None:
    """A packet has come to a worker, which looks at it at once, or when it wakes."""
    me = world.workers[w]
    if me.arrived == world.inbox.shape[1]:
        world.state[FULL] = 1
        return
    world.inbox[w, me.arrived] = packet
    me.arrived += 1
    if world.costs[NAP] == 0.0:
        look(world, w, now)
    elif not me.woken:
        me.woken = 1
        schedule(world, max(now, me.busy) + nap(world, w), w * EVENTS + WAKE)
