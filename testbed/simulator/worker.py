"""A worker, whatever its scheme: it sends its sums, takes what arrives, and minds its timer."""

from __future__ import annotations

import numba
import numpy as np

from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.atp.worker import receive as receive_atp
from inalab.testbed.simulator.atp.worker import release as release_atp
from inalab.testbed.simulator.lines import BATCH, HOST, NAP
from inalab.testbed.simulator.recovery import asking_expired, latest, resending_expired, rows_of
from inalab.testbed.simulator.stream import nap, set_timer
from inalab.testbed.simulator.switchml.worker import receive as receive_switchml
from inalab.testbed.simulator.switchml.worker import release as release_switchml
from inalab.testbed.simulator.world import CHUNK, DEADLINE, EVENTS, FULL, SWITCHML, WAKE, WORLD, R, World, Z, drop, schedule


@compiled(numba.void(WORLD, Z, R))
def begin(world: World, w: int, now: float) -> None:
    """A worker comes to its next sum."""
    me = world.workers[w]
    now = max(now, me.busy)
    world.sums[w, me.sum].begun = now
    me.remaining = world.jobs[me.job].chunks
    me.position += me.remaining
    if world.jobs[me.job].scheme == SWITCHML:
        release_switchml(world, w, np.flatnonzero(world.slots[w, CHUNK, : rows_of(world, w)] < 0), now)
    else:
        release_atp(world, w, now)
    set_timer(world, w, now)


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
    if world.jobs[me.job].scheme == SWITCHML:
        receive_switchml(world, w, now)
    else:
        receive_atp(world, w, now)
    for i in range(me.arrived):
        drop(world, world.inbox[w, i])
    me.arrived = 0
    set_timer(world, w, now)


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
