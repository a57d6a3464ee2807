"""What an all-reduce must take: a schedule's messages over the links they cross, divided by the links' capacity.

The closed forms of the field follow from it, for one rack and for racks under an oversubscribed root, and tests hold it to
them. Latency and headers are not counted: it is a bound from below.
"""

from __future__ import annotations

from collections import Counter

from inalab.hosts.tcp.schedules import Schedule, blocks
from inalab.topologies.plan import Hop, NetworkPlan


def load(schedule: Schedule, plan: NetworkPlan, size: float) -> list[Counter[Hop]]:
    """Bytes over each link in each step, for a tensor of `size` bytes."""
    block = size / blocks(schedule)
    steps = []
    for step in schedule:
        crossed: Counter[Hop] = Counter()
        for move in step:
            for hop in plan.path(plan.everyone[move.source], plan.everyone[move.destination]):
                crossed[hop] += block  # type: ignore[assignment]
        steps.append(crossed)
    return steps


def seconds(schedule: Schedule, plan: NetworkPlan, size: float) -> float:
    """The least time."""
    return sum(of_steps(schedule, plan, size))


def of_steps(schedule: Schedule, plan: NetworkPlan, size: float) -> list[float]:
    """Likewise, of each step: the busiest link decides. Links without a rate take no time."""
    rates = {link.number: link.rate for link in plan.links}
    return [
        max((8 * size_ / (rate * 1e6) for (link, _), size_ in step.items() if (rate := rates[link])), default=0.0)
        for step in load(schedule, plan, size)
    ]
