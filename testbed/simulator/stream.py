"""What the workers of all schemes do alike: hosts.stream.stream for compiled loops."""

from __future__ import annotations

import numba

from inalab.hosts.compiled import compiled
from inalab.hosts.stream import compiled_rows
from inalab.hosts.stream.stream import LONGEST_NAP, SHORTEST_NAP
from inalab.testbed.simulator.lines import NAP
from inalab.testbed.simulator.recovery import outstanding, paths_of, rows_of
from inalab.testbed.simulator.timers import STREAM
from inalab.testbed.simulator.world import CHUNK, DEADLINE, EVENTS, START, TIMER, WORLD, R, World, Z, schedule


@compiled(numba.void(WORLD, Z, R), inline=True)
def set_timer(world: World, w: int, now: float) -> None:
    """Let the worker's timer ring at its first deadline, if it does not ring before."""
    me, s = world.workers[w], rows_of(world, w)
    if not me.earlier:
        return
    me.earlier = 0
    first, _, _ = compiled_rows.watch(world.slots[w, CHUNK, :s], world.slot_times[w, DEADLINE, :s])
    if first < me.timer_at:
        me.timer_at = first
        schedule(world, max(first, now), w * EVENTS + TIMER)


@compiled(numba.void(WORLD, Z, R))
def finish(world: World, w: int, now: float) -> None:
    """A worker has its sum, and computes before the next one."""
    me = world.workers[w]
    its = world.sums[w, me.sum]
    its.ended, its.waited, its.results, its.retransmissions = now, me.waited, me.results, me.retransmissions
    me.sum += 1
    if me.sum < world.jobs[me.job].sums:
        schedule(world, now + world.sums[w, me.sum].compute, w * EVENTS + START)


@compiled(R(WORLD, Z))
def nap(world: World, w: int) -> float:
    """Stream.nap: how long a worker lets more results come before it looks at them."""
    round_trip = world.timers[w, STREAM].srtt
    for path in range(1, paths_of(world, w)):
        round_trip = min(round_trip, world.timers[w, STREAM + path].srtt)
    share = len(outstanding(world, w)) / rows_of(world, w)
    return float(world.costs[NAP] * min(max(share * round_trip / 4, min(SHORTEST_NAP, round_trip / 4)), LONGEST_NAP))
