"""MLfabric (SoCC '20), our reading of it: a scheduler orders, drops, aggregates and replicates asynchronous updates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from inalab.hosts.collective import Collective
from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.group import Ranks
from inalab.hosts.mlfabric.replica import Replica
from inalab.hosts.mlfabric.replication import Replication
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.scheduler import Scheduler
from inalab.hosts.mlfabric.server import OrderedServer
from inalab.hosts.mlfabric.shared import SharedScheduler, port_of
from inalab.hosts.mlfabric.worker import MLfabric
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.hosts.tcp.group import Group
from inalab.schemes.model_server import OneModelServer
from inalab.schemes.scheme import Admitted, Look, SchemeSettings, Simulation, one_of
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.topologies.plan import NetworkPlan

BYTES = 1e6 / 8  # per second in a Mbit/s
PLANNED, RANDOM = "planned", "random"


class Settings(SchemeSettings):
    """What the scheduler does."""

    delay: int | None = Field(
        None, ge=0, le=1_000_000, description="largest delay, in updates of others; an update that would exceed it is dropped"
    )
    order: bool = Field(True, description="updates go one after another, the shortest first, and do not share links")
    aggregate: bool = Field(True, description="workers that wait for their turn add others' updates to theirs")
    aggregator: Annotated[str, one_of(PLANNED, RANDOM)] = Field(
        PLANNED, description="which of them adds an update: planned (the first that has it in time), or random (any that waits)"
    )
    distribute: bool = Field(True, description="workers that have fetched the model pass it on to others that wait for it")
    learn: bool = Field(
        True, description="the scheduler learns the links' rates from transfers; else they stay as they were at first"
    )
    shared: bool = Field(False, description="one scheduler plans all jobs' transfers, so that they take turns on racks' uplinks")
    distance: float | None = Field(
        None, ge=0, description="a second host has a replica; the norms of the updates that it lacks add up to at most this"
    )
    chain: bool = Field(False, description="likewise, by chain replication: the server forwards every update before it applies it")

    @property
    def replicated(self) -> bool:
        return self.chain or self.distance is not None


class MLfabricScheme(OneModelServer):
    """Workers ask a scheduler when and where to send their updates."""

    name = "mlfabric"
    look = Look("MLfabric", "#d9588a", ">")
    simulation = Simulation.UPDATES
    Settings = Settings
    managed = True
    unsimulated = ("distance", "chain", "learn")

    def servers(self, settings: Any) -> int:
        return 1 + int(settings.replicated)

    def spare_servers(self, settings: Any) -> int:
        return int(settings.replicated)

    def delay_bound(self, settings: Any) -> int | None:
        return settings.delay  # type: ignore[no-any-return]

    def distance_bound(self, settings: Any) -> float | None:
        return 0.0 if settings.chain else settings.distance

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        if plan.pods:
            raise ValueError("scheme mlfabric reserves links of hosts and racks alone: choose a topology without pods")
        if any(job.settings.chain and job.settings.distance is not None for job in jobs):
            raise ValueError("chain replication leaves no distance: set mlfabric.chain or mlfabric.distance, not both")

        if any(job.settings.shared for job in jobs):
            if jobs[0].plan.number or not all(job.settings.shared for job in jobs):
                raise ValueError(
                    "one scheduler is for all jobs: set mlfabric.shared for each, and scheme mlfabric for the first job"
                )
            if any(job.settings.replicated for job in jobs):
                raise ValueError(
                    "jobs with one scheduler have no replicas of their servers: leave out mlfabric.shared, or the replicas"
                )

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        keeps = place.settings.distance is not None
        return MLfabric(place.group(epoch, pulse), _control(place), TCP_OVERHEAD, _ranks(place), keeps)

    def serve(self, place: Place, over: Over) -> Serving | None:
        s, ranks = place.settings, _ranks(place)
        kind = Replica if place.membership.rank == ranks.replica else OrderedServer
        return kind.of_next_scheduled_group(place.group(), over, _control(place), ranks, s.distance or 0.0, TCP_OVERHEAD)

    def manages(self, job: Admitted) -> bool:
        return not job.settings.shared or job.plan.number == 0

    def manage(self, place: Place, over: Over) -> Serving | None:
        jobs = [(_managed(place, job), self.update_schedule(job)) for job in _jobs(place)]
        if place.settings.shared:
            return SharedScheduler.of_next_groups(jobs, over)
        group, schedule = jobs[0]
        return Scheduler.of_next_group(group, over, schedule)

    def update_schedule(self, place: Place) -> Schedule:
        """The scheduler's state before the first update."""
        s, ranks, replication = place.settings, _ranks(place), None
        if ranks.replica is not None:
            replication = Replication(ranks.server, ranks.replica, s.distance or 0.0, s.chain)
        fabric = Fabric(place.racks, _rates(place.rates), _rates(place.uplinks), s.learn)
        draw = random.Random(place.seed) if s.aggregator == RANDOM else None
        return Schedule(fabric, place.membership.size, s.delay, s.order, s.aggregate, s.distribute, replication, draw)


def _jobs(place: Place) -> Sequence[Place]:
    """Places in all jobs that have the same scheduler."""
    return (place.settings.shared and place.together) or [place]


def _ranks(place: Place) -> Ranks:
    number = [job.membership.job for job in _jobs(place)].index(place.membership.job)
    return Ranks(place.membership.size, place.settings.replicated, port_of(number))


def _control(place: Place) -> list[str]:
    """Addresses on the management network. The scheduler is on the first server's host, that of the first job if it has several."""
    first = _jobs(place)[0]
    return [*place.control, first.control[first.membership.size]]


def _managed(place: Place, job: Place) -> Group:
    """The scheduler's group of a job; `place` is the scheduler's own."""
    scheduler = Ranks(job.membership.size, job.settings.replicated).scheduler
    peers = [*job.control, _control(place)[-1]]
    return replace(place.group(), membership=replace(job.membership, rank=scheduler), peers=peers)


def _rates(rates: list[float]) -> list[float]:
    return [BYTES * rate for rate in rates]


SCHEME = MLfabricScheme()
