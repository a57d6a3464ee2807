"""An ATP worker: hosts.atp.worker.AtpWorker for compiled loops, by its names. It has no values: integers are taken to hold them."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import compiled_places
from inalab.hosts.atp.wire import COLLISION, ECN, JOINS, RESEND
from inalab.hosts.atp.wire import TRIES as TRIES_ON_WIRE
from inalab.hosts.atp.worker import MOST_WAITS
from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.atp.congestion import collided, congested, settled_some
from inalab.testbed.simulator.recovery import answered, overdue, results_needless, settled, transmit
from inalab.testbed.simulator.stream import finish
from inalab.testbed.simulator.world import (
    ASKED,
    CHUNK,
    INDEX,
    MARK,
    MISSED,
    NEXT,
    PATH,
    RESULT,
    SENDING,
    STATUS,
    TRIES,
    WORLD,
    B,
    Flags,
    R,
    Rows,
    World,
    Z,
)

NAMED = 2  # in place of MISSED: by the batch that is looked at
Numbers = NDArray[np.int64]


@compiled(numba.void(WORLD, Z, R))
def release(world: World, w: int, now: float) -> None:
    """AtpWorker._release: send what the window has room for."""
    me, job, own = world.workers[w], world.jobs[world.workers[w].job], world.slots[w]
    s = job.slots
    rows = compiled_places.released(own[CHUNK, :s], own[NEXT, :s], me.position, int(me.window))
    if len(rows) == 0:
        return
    for row in rows:
        own[MISSED, row] = own[TRIES, row] = 0
        own[CHUNK, row], own[PATH, row], own[MARK, row] = own[NEXT, row], own[NEXT, row] % job.paths, RESEND
        own[NEXT, row] += s
    transmit(world, w, rows, now, False)


@compiled(B(WORLD, Z, Z), inline=True)
def lacks(world: World, w: int, packet: int) -> bool:
    """Whether a status says that this worker is not in."""
    p = world.packets[packet]
    place = world.trees[p.tree, w]
    inside = place.zero == 0 or p.zero == 0 or p.zero & place.zero > 0
    return not (p.seen & place.one > 0 and inside)


@compiled(numba.void(WORLD, Z, R))
def take_statuses(world: World, w: int, now: float) -> None:
    """AtpWorker._take_statuses: learn what a switch or a server lacks in the chunks that are still asked about."""
    me, own = world.workers[w], world.slots[w]
    rows, lacking, marks, n = np.empty(me.arrived, np.int64), np.empty(me.arrived, np.bool_), np.empty(me.arrived, np.int64), 0
    had = np.zeros(own.shape[1], np.bool_)
    for i in range(me.arrived):
        packet = world.inbox[w, i]
        p = world.packets[packet]
        place = p.chunk % world.jobs[me.job].slots
        if p.kind != STATUS or own[CHUNK, place] != p.chunk or p.tries != own[TRIES, place] % TRIES_ON_WIRE or had[place]:
            continue
        had[place] = True
        rows[n], lacking[n], marks[n] = place, lacks(world, w, packet), p.mark & JOINS
        n += 1
    if n == 0 or not world.jobs[me.job].asks:
        return
    for i in range(n):
        stuck = not lacking[i] and own[ASKED, rows[i]] >= MOST_WAITS
        own[MARK, rows[i]] = RESEND if stuck else marks[i]
        lacking[i] |= stuck
    answered(world, w, rows[:n], lacking[:n], now)


@compiled(numba.void(WORLD, Z, Z))
def note_named(world: World, w: int, packet: int) -> None:
    """Mark the places that wait for results which this one names (hosts.atp.succession) with NAMED."""
    p, own, s = world.packets[packet], world.slots[w], world.jobs[world.workers[w].job].slots
    if p.mark & RESEND:
        return
    for chunk in (p.zero, p.seen):
        if chunk >= 0 and own[CHUNK, chunk % s] == chunk and own[MISSED, chunk % s] == 0:
            own[MISSED, chunk % s] = NAMED


@compiled(numba.void(WORLD, Z, R))
def miss(world: World, w: int, now: float) -> None:
    """AtpWorker._miss: ask for the results that are named, and have not come."""
    own, s = world.slots[w], world.jobs[world.workers[w].job].slots
    rows = np.flatnonzero(own[MISSED, :s] == NAMED)
    for row in rows:
        own[MISSED, row] = 1
    if len(rows) and world.jobs[world.workers[w].job].asks:
        overdue(world, w, rows, now)


@compiled(numba.void(WORLD, Z, Rows, Flags, Rows, R))
def settle(world: World, w: int, rows: Numbers, once: NDArray[np.bool_], which: Numbers, now: float) -> None:
    """AtpWorker._settle: keep these sums, of the packets `which`, and send what they make room for."""
    me, own = world.workers[w], world.slots[w]
    marked = -1
    for i in range(len(rows)):
        p = world.packets[which[i]]
        if p.mark & ECN:
            marked = max(marked, own[SENDING, rows[i]])
        own[INDEX, rows[i]] = p.next
    if marked >= 0:
        congested(world, w, marked)
    for i in range(len(rows)):
        if world.packets[which[i]].mark & COLLISION and own[TRIES, rows[i]] > 0:
            collided(world, w, own[CHUNK, rows[i]])
    settled_some(world, w, len(rows))
    settled(world, w, rows, once, now)
    me.remaining -= len(rows)
    if me.remaining == 0:
        finish(world, w, now)
    release(world, w, now)


@compiled(numba.void(WORLD, Z, R))
def receive(world: World, w: int, now: float) -> None:
    """AtpWorker._receive: take all that is in the inbox, and send what it makes room for."""
    me, own, job = world.workers[w], world.slots[w], world.jobs[world.workers[w].job]
    s = job.slots
    rows, once, n = np.empty(me.arrived, np.int64), np.empty(me.arrived, np.bool_), 0
    which, had = np.empty(me.arrived, np.int64), np.zeros(s, np.bool_)
    needless_paths = np.zeros(job.paths, np.bool_)
    others = 0
    for i in range(me.arrived):
        packet = world.inbox[w, i]
        p = world.packets[packet]
        if p.kind != RESULT:
            others += 1
            continue
        note_named(world, w, packet)
        place = p.chunk % s
        if own[CHUNK, place] != p.chunk or had[place]:
            me.duplicates += 1
            needless_paths[p.chunk % job.paths] = True
            continue
        had[place] = True
        rows[n], once[n], which[n] = place, p.mark & RESEND == 0, packet
        n += 1
    for row in rows[:n]:
        if own[MISSED, row] == NAMED:
            own[MISSED, row] = 0
    miss(world, w, now)
    if n:
        settle(world, w, rows[:n], once[:n], which[:n], now)
    for path in range(job.paths):
        if needless_paths[path]:
            results_needless(world, w, path, now)
    if others:
        take_statuses(world, w, now)
