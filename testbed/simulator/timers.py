"""The workers' retransmission timers: hosts.stream.retransmission.RetransmissionTimer for compiled loops."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.hosts.stream.recovery import MOST_URGENT_GROWTH, SHORTEST_URGENT
from inalab.hosts.stream.retransmission import MOST_BACKOFF, MOST_GROWTH, REMEMBERED, median_distance, upper_median
from inalab.testbed.simulator.world import WORLD, R, World, Z

BY_STATUS, BY_RESULT, STREAM = range(3)  # of World.timers: of urgent queries, and the stream's, by path from there on
URGENT = STREAM  # of World.urgent_backoffs, beside those of the first two: what is waited for
INITIAL, LONGEST = 0.1, 1.0  # seconds, RetransmissionTimer's defaults
SHORTEST = (SHORTEST_URGENT, SHORTEST_URGENT, 0.01)  # likewise, by kind of timer
GROWTH = (float(MOST_URGENT_GROWTH), float(MOST_URGENT_GROWTH), float(MOST_GROWTH))


@compiled(numba.void(WORLD, Z, Z))
def set_timeouts(world: World, worker: int, timer: int) -> None:
    """RetransmissionTimer._set, and Asking._urgent_timeouts."""
    e = world.timers[worker, timer]
    margin = max(4 * e.variation, (world.workers[worker].margin if timer >= STREAM else 1.0) * e.srtt)
    estimate = INITIAL if e.srtt == 0.0 else max(e.srtt + margin, SHORTEST[min(timer, STREAM)])
    once = min(estimate * 2**e.doublings, LONGEST)
    for tries in range(MOST_BACKOFF + 1):
        found = min(once * 2**tries, LONGEST)
        if timer >= STREAM:
            world.backoffs[worker, timer - STREAM, tries] = found
        else:
            world.urgent_backoffs[worker, timer, tries] = found
            longest = 0.0
            for kind in range(STREAM):
                if world.timers[worker, kind].srtt > 0.0:
                    longest = max(longest, world.urgent_backoffs[worker, kind, tries])
            world.urgent_backoffs[worker, URGENT, tries] = longest if longest > 0.0 else np.inf  # recovery.NEVER


@compiled(numba.void(WORLD, Z, Z, R[::1]))
def sample(world: World, worker: int, timer: int, round_trips: NDArray[np.float64]) -> None:
    """RetransmissionTimer.sample."""
    n = len(round_trips)
    if n == 0:
        return
    e = world.timers[worker, timer]
    e.doublings = 0.0
    median = upper_median(round_trips) if n > 1 else round_trips[0]
    recent = world.recent[worker, timer]
    recent[e.samples % REMEMBERED] = median
    e.samples += 1
    believable = GROWTH[min(timer, STREAM)] * recent[: min(e.samples, REMEMBERED)].min()
    r = min(median, believable)
    if e.srtt == 0.0:
        e.srtt, e.variation = r, r / 2
    elif r < e.srtt:
        weight = 1 - (1 - 1 / 4) ** float(n)
        e.variation += (min(e.srtt - r, e.variation, r) - e.variation) * weight
        e.srtt += (r - e.srtt) * weight
    else:
        distance = median_distance(round_trips, believable, e.srtt) if n > 1 else r - e.srtt
        e.variation += (distance - e.variation) * (1 - (1 - 1 / 16) ** float(n))
        e.srtt += (r - e.srtt) * (1 - (1 - 1 / 32) ** float(n))
    set_timeouts(world, worker, timer)


@compiled(numba.void(WORLD, Z, Z, R))
def needless(world: World, worker: int, timer: int, now: float) -> None:
    """RetransmissionTimer.needless."""
    e = world.timers[worker, timer]
    timeout = world.backoffs[worker, timer - STREAM, 0] if timer >= STREAM else world.urgent_backoffs[worker, timer, 0]
    if now - e.doubled_at >= timeout:
        e.doublings = min(e.doublings + 1, float(MOST_BACKOFF))
        e.doubled_at = now
        set_timeouts(world, worker, timer)
