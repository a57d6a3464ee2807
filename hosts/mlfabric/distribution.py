"""Who sends a worker the model: the server, or another worker that has it (distribute; ours, for we know of nothing in the paper).

The server sends the model to one worker at a time. A worker that has it passes it on to others that wait for it, while the links
between them are idle. So after k transfers' time 2^k - 1 workers can have it; from the server alone k have it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.planner import Link, seconds
from inalab.hosts.mlfabric.transfers import Job, What


@dataclass(frozen=True)
class Ahead:
    """What is expected, as long as no transfer begins that is not planned."""

    ends: dict[Job, float]
    reserved: dict[Link, float]  # by link: when the first planned update that uses it begins
    idle: list[int]  # workers that have a model and send nothing


@dataclass
class Distribution:
    """Of one group. A worker whose model is more than `bound` updates old does not pass it on; None means no bound."""

    fabric: Fabric
    bound: int | None
    models: dict[int, int] = field(default_factory=dict)  # versions, by worker that has fetched one
    apart: set[frozenset[int]] = field(default_factory=set)  # pairs of workers that cannot reach each other

    def ahead(self, begins: Mapping[Job, float], busy: Container[Link]) -> Ahead:
        """By when each transfer is expected to begin, and the links that are used now."""
        reserved: dict[Link, float] = {}
        for job, begin in begins.items():
            if job.begun is None and job.what is not What.MODEL:
                reserved |= {link: min(begin, reserved.get(link, math.inf)) for link in job.path}
        idle = [worker for worker in self.models if (worker, "up") not in busy]
        return Ahead({job: begin + job.takes for job, begin in begins.items()}, reserved, idle)

    def source(self, job: Job, version: int, busy: set[Link], ahead: Ahead, now: float) -> int | None:
        """The worker that can send the model soonest, if it comes sooner by that than from the server, and no planned update waits
        for it. `version` is what the server's model will have once all that is planned has been applied."""
        sooner: list[tuple[float, int, int]] = []
        for worker in ahead.idle:
            had = self.models[worker]
            late = self.bound is not None and version - had > self.bound  # what is computed on it would be dropped
            if worker == job.destination or had < job.least or late or frozenset((worker, job.destination)) in self.apart:
                continue
            path = self.fabric.path(worker, job.destination)
            end = now + seconds(self.fabric.rates, job.size, path)
            planned = min(ahead.reserved.get(link, math.inf) for link in path)
            if busy.isdisjoint(path) and end < ahead.ends[job] and end <= planned:
                sooner.append((end, -had, worker))
        return min(sooner)[2] if sooner else None
