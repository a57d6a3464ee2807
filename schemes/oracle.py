"""What an all-reduce must take: a schedule's messages over the links they cross, divided by the links' capacity.

The closed forms of the field follow from it, for one rack and for racks under an oversubscribed root, and tests hold it to
them. Latency and headers are not counted: it is a bound from below.
"""

from __future__ import annotations

from collections import Counter

from hosts.tcp.schedules import Move, Schedule, blocks
from topologies.racks import NetworkPlan, Racks

Hop = tuple[int, str]  # number of a link in the plan, "up" or "down"


def path(plan: NetworkPlan, move: Move) -> list[Hop]:
    """The links that a message crosses, with their directions: up to where both racks meet, and down."""
    links = {link.lower: link.number for link in plan.links}
    source, destination = plan.everyone[move.source], plan.everyone[move.destination]
    hops = [(links[source.name], "up"), (links[destination.name], "down")]
    if source.rack != destination.rack:
        hops += [(links[f"tor{source.rack}"], "up"), (links[f"tor{destination.rack}"], "down")]
    return hops


def load(schedule: Schedule, racks: Racks, size: float) -> list[Counter[Hop]]:
    """Bytes over each link in each step, for a tensor of `size` bytes."""
    plan = NetworkPlan(racks)
    block = size / blocks(schedule)
    steps = []
    for step in schedule:
        crossed: Counter[Hop] = Counter()
        for move in step:
            for hop in path(plan, move):
                crossed[hop] += block  # type: ignore[assignment]
        steps.append(crossed)
    return steps


def seconds(schedule: Schedule, racks: Racks, size: float) -> float:
    """The least time: in each step the busiest link decides. Links without a rate take no time."""
    rates = {link.number: link.rate for link in NetworkPlan(racks).links}
    return sum(
        max((8 * size_ / (rate * 1e6) for (link, _), size_ in step.items() if (rate := rates[link])), default=0.0)
        for step in load(schedule, racks, size)
    )
