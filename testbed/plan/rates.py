"""Links whose rates change while a trial runs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inalab.hosts.plugins import load_object
from inalab.topologies.plan import LinkPlan, NetworkPlan

FIXED, MARKOV = KINDS = "no", "markov"
STREAM = 43  # of random numbers that are no other's
SLOWEST = 0.1  # Mbit/s
SOONEST = 0.001  # seconds between two changes of a link
SOUND = f"a link has a rate, times are in order and {SOONEST:g} s apart for a link, and no rate is below {SLOWEST:g} Mbit/s"
Change = tuple[float, str, float]  # seconds since the trial's start, a link's name, and its rate from then on in Mbit/s


class Rates(Protocol):
    """A schedule. A file of one's own defines one as RATES."""

    def changes(self, plan: NetworkPlan, seed: int) -> Iterable[Change]:
        """In the order of their times; they may have no end."""
        ...


@dataclass(frozen=True)
class Markov:
    """A share of the workers' links, or of machines' network interfaces, have two states. They stay in each for a time that is
    drawn from an exponential distribution.

    In one a link has its rate, in the other `factor` of it. The seed says which links these are, and when they change.
    """

    share: float
    factor: float
    mean: float  # seconds in a state

    def check(self, plan: NetworkPlan) -> None:
        """Raise ValueError where a link would be too slow."""
        if any(link.rate * self.factor < SLOWEST for link in _changing(plan) if link.rate is not None):
            raise ValueError(f"changing_factor is {self.factor:g}: a link would have less than {SLOWEST:g} Mbit/s")

    def changes(self, plan: NetworkPlan, seed: int) -> Iterator[Change]:
        draw = np.random.default_rng([seed, STREAM])
        links = [link for link in _changing(plan) if link.rate is not None]
        chosen: Iterable[int] = (
            draw.choice(len(links), math.ceil(round(self.share * len(links), 9)), replace=False) if links else []
        )
        due = [(self._stay(draw), int(number), True) for number in sorted(chosen)]
        heapq.heapify(due)
        while due:
            at, number, slow = heapq.heappop(due)
            link = links[number]
            assert link.rate is not None
            yield at, link.name, link.rate * self.factor if slow else link.rate
            heapq.heappush(due, (at + self._stay(draw), number, not slow))

    def _stay(self, draw: np.random.Generator) -> float:
        return SOONEST + float(draw.exponential(self.mean))


def _changing(plan: NetworkPlan) -> list[LinkPlan]:
    """Links of which a share changes."""
    machines = [link for link in plan.links if plan.loses(link.number)]
    return machines if plan.topology.machines else plan.links_above(host.name for host in plan.hosts)


def due(schedule: Rates | None, plan: NetworkPlan, seed: int) -> Iterator[Change]:
    """The changes of a schedule, which is asked for them when the first is due."""
    if schedule is not None:
        yield from schedule.changes(plan, seed)


def of_file(source: str) -> Rates:
    """What a file defines as RATES. Raises ValueError."""
    found: Rates = load_object(source, "RATES", ("changes",))
    return found


def checked(changes: Iterable[Change], links: Sequence[LinkPlan]) -> Iterator[tuple[float, LinkPlan, float]]:
    """The changes, as they come due. Raises ValueError for one that cannot be."""
    by_name = {link.name: link for link in links if link.rate is not None}
    last, of_link = 0.0, dict.fromkeys(by_name, -math.inf)
    for change in changes:
        try:
            at, name, rate = change
            sound = name in by_name and max(last, of_link[name] + SOONEST) <= at < math.inf and SLOWEST <= rate < math.inf
        except (TypeError, ValueError):
            raise ValueError(f"the schedule of rates has {change!r}: give (seconds, link, Mbit/s)") from None
        if not sound:
            raise ValueError(f"the schedule of rates has {change!r}: {SOUND}")
        last = of_link[name] = at
        yield at, by_name[name], rate
