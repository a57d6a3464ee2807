"""A worker's congestion window: hosts.atp.congestion.CongestionWindow for compiled loops, by its names."""

from __future__ import annotations

import numba

from inalab.hosts.atp.congestion import CONTROLS, NONE, PAPER, SMALLEST
from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.world import WORLD, B, World, Z

ON_LOSSES, NEVER = CONTROLS.index(PAPER), CONTROLS.index(NONE)  # of World.jobs


@compiled(B(WORLD, Z, Z), inline=True)
def halve(world: World, w: int, number: int) -> bool:
    """CongestionWindow._halve: not if the packet of this number was sent before the last cut."""
    me = world.workers[w]
    if number < me.recover:
        return False
    me.window = max(me.window / 2, min(SMALLEST, float(world.jobs[me.job].slots)))
    me.recover = me.sent
    return True


@compiled(numba.void(WORLD, Z, Z))
def congested(world: World, w: int, number: int) -> None:
    """CongestionWindow.congested: a result is marked."""
    if world.jobs[world.workers[w].job].control != NEVER:
        halve(world, w, number)


@compiled(numba.void(WORLD, Z, Z, Z))
def lost_one(world: World, w: int, chunk: int, number: int) -> None:
    """CongestionWindow.lost: a chunk, whose packet has this number, seems to be lost."""
    me = world.workers[w]
    before = me.window
    if world.jobs[me.job].control == ON_LOSSES and halve(world, w, number):
        me.suspect, me.restored = chunk, before


@compiled(numba.void(WORLD, Z, Z))
def collided(world: World, w: int, chunk: int) -> None:
    """CongestionWindow.collided: it was not lost, a part of it had found its aggregator taken."""
    me = world.workers[w]
    if me.suspect == chunk:
        me.window = max(me.window, me.restored)
        me.suspect = -1


@compiled(numba.void(WORLD, Z, Z))
def settled_some(world: World, w: int, results: int) -> None:
    """CongestionWindow.settled: so many results have come."""
    me = world.workers[w]
    me.window = min(me.window + results / me.window, float(world.jobs[me.job].slots))
