"""What a step must take whose communication overlaps with compute: the critical path.

The sums of a step share one channel, which carries one at a time, each for as long as it takes alone. A step's last forward pass
needs all sums of the step before, so no two steps share the channel. With `urgent` the layer nearest to the front that waits has
it, at once. That is the optimum for a step, since the nearer to the front, the more is left to compute: Jackson's rule with
preemption minimizes the latest end where jobs have heads and tails. Otherwise they have it in the order in which they come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from inalab.hosts.training.layers import outline
from inalab.hosts.training.pipeline import LAYERED, UNBOUNDED, Pass, ready, scheduled
from inalab.hosts.training.workloads import find
from inalab.testbed.plan.settings import TrialSettings

STEPS = 20  # after which a step takes what all later ones take


def carried(released: Sequence[float], takes: Sequence[float], urgent: bool) -> list[float]:
    """When each layer's sum is over that is released then and takes so long."""
    if any(map(math.isnan, (*released, *takes))):
        return [math.nan] * len(takes)
    left, ends, now = list(takes), [0.0] * len(takes), min(released)
    waiting = set(range(len(takes)))
    while waiting:
        here = [layer for layer in waiting if released[layer] <= now]
        if not here:
            now = min(released[layer] for layer in waiting)
            continue
        chosen = min(here) if urgent else min(here, key=lambda layer: (released[layer], -layer))
        later = [released[layer] for layer in waiting if released[layer] > now]
        until = min([now + left[chosen], *(later if urgent else [])])
        left[chosen] -= until - now
        now = until
        if left[chosen] <= 1e-12:
            ends[chosen] = now
            waiting.remove(chosen)
    return ends


def steps(
    pipeline: str, forward: Sequence[float], backward: Sequence[float], takes: Sequence[float], urgent: bool
) -> list[tuple[Pass, list[float]]]:
    """Successive steps, and when each layer's sum is over in them. All times are in seconds, front layer first."""
    free, due = 0.0, [0.0] * len(forward)
    found = []
    for _ in range(STEPS):
        plan = scheduled(free, due, forward, backward)
        summed = carried(plan.backward, takes, urgent)
        found.append((plan, summed))
        free, due = plan.ended, ready(pipeline, summed)
    return found


def period(
    pipeline: str, forward: Sequence[float], backward: Sequence[float], takes: Sequence[float], urgent: bool = True
) -> float:
    """Seconds from the beginning of a step to that of the next."""
    begun = [plan.begun for plan, _ in steps(pipeline, forward, backward, takes, urgent)]
    return [after - before for before, after in pairwise(begun)][-1]


def of_settings(settings: TrialSettings) -> tuple[list[float], list[float], list[float]]:
    """Seconds that each layer of a trial's workload computes forward and backward, and that its sum takes at least."""
    layers = outline(find(settings.workload), settings.pipeline in LAYERED)
    compute, share, plan = settings.compute_ms / 1000, settings.forward_share, settings.changed(background=0.0).plan()
    scheme, own = settings.of_scheme(), settings.scheme_settings()
    takes = scheme.bounds_of_step(plan, own, [elements for elements, _ in reversed(layers)])  # in the order of their sums
    return [share * compute * part for _, part in layers], [(1 - share) * compute * part for _, part in layers], takes[::-1]


def bound(settings: TrialSettings) -> float:
    """The least seconds of a step, without a straggler; NaN where it has none (testbed.theory.bounds)."""
    if settings.pipeline in UNBOUNDED:
        return math.nan
    return period(settings.pipeline, *of_settings(settings))


def least_exchange(settings: TrialSettings) -> float:
    """The least seconds from when a step's first gradient is there until all sums are over."""
    forward, backward, takes = of_settings(settings)
    plan = scheduled(0.0, [0.0] * len(forward), forward, backward)
    return max(carried(plan.backward, takes, True)) - plan.first_release
