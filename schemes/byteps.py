"""BytePS (OSDI '20): Summation Services on the workers' hosts and on k spare ones, which share the bytes among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from inalab.hosts.byteps.admission import ORDERS, PRIORITY
from inalab.hosts.byteps.assignment import ASSIGNMENTS, BY_BYTES, Assignment, ByBytes, ByHash, shares
from inalab.hosts.byteps.processor import Speeds
from inalab.hosts.byteps.service import Service
from inalab.hosts.byteps.worker import BytePS
from inalab.hosts.collective import Collective
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.schemes.scheme import Admitted, Look, Simulation, Transfers, one_of
from inalab.schemes.tcp import OverConnections, TransportSettings
from inalab.topologies.plan import Hop, NetworkPlan

WORKERS, SERVER = "worker", "server"
UPDATES = (WORKERS, SERVER)
KILO = 1000
DUST = 1e-9  # a share that is nothing but rounding
MOST_TURNS = 16  # of the partitions of a service's share that are told apart where messages are counted


class Settings(TransportSettings):
    """Spare hosts, and how tensors are cut, dealt out and sent."""

    servers: int = Field(0, ge=0, description="spare hosts with a Summation Service, from none to as many as there are workers")
    partition: float = Field(4.0, ge=1, le=100_000, description="kB that a tensor is cut into")
    credit: float = Field(64.0, ge=1, le=1_000_000, description="kB of a worker's partitions under way, pushed and not yet pulled")
    order: Annotated[str, one_of(*ORDERS)] = Field(
        PRIORITY, description="which partition goes next: of the layer next to the front (priority), or fifo"
    )
    assignment: Annotated[str, one_of(*ASSIGNMENTS)] = Field(
        BY_BYTES, description="which service adds a partition: by bytes, or by the public code's hash"
    )
    update: Annotated[str, one_of(*UPDATES)] = Field(
        WORKERS, description="whose optimizer takes time: none at the services (worker), or theirs, as update_rate says (server)"
    )
    sum_rate: float | None = Field(
        None, ge=0.001, le=1e9, description="Mbit/s of workers' parts that a service's processor adds; unless set, it takes no time"
    )
    update_rate: float | None = Field(
        None, ge=0.001, le=1e9, description="Mbit/s of tensors that a service's optimizer takes, with update=server"
    )

    @model_validator(mode="after")
    def _of_a_server(self) -> Settings:
        if (self.update == SERVER) != (self.update_rate is not None):
            raise ValueError("byteps.update=server and byteps.update_rate belong together: set both, or none")
        return self

    @property
    def speeds(self) -> Speeds:
        """Of a service's processor."""
        return Speeds(*(math.inf if rate is None else rate * 1e6 / 8 for rate in (self.sum_rate, self.update_rate)))


class BytePSScheme(OverConnections):
    """Partitions are pushed to a service and pulled from it, most urgent first."""

    name = "byteps"
    all_to_all, simulation = True, Simulation.MESSAGES
    look = Look("BytePS", "#8a5a44", "*")
    Settings = Settings
    serves_on_workers = keeps_weights = driven = by_priority = True
    unsimulated = (*OverConnections.unsimulated, "credit", "order", "assignment", "update", "sum_rate", "update_rate")
    of_bound = (0.85, 1.02)

    def servers(self, settings: Any) -> int:
        return int(settings.servers)

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        for job in jobs:
            if job.settings.servers > job.plan.size:
                raise ValueError(f"byteps.servers is {job.settings.servers}: more than {job.plan.size} workers cannot use them")

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        s, m = place.settings, place.membership
        size = int(KILO * s.partition) // 4 * 4
        assignment: Assignment = ByBytes(shares(m.size, _rates(place.rates)), size)
        if s.assignment != BY_BYTES:
            assignment = ByHash(m.size, len(place.peers) - m.size, size)
        return BytePS(self.group(place, epoch, pulse), assignment, s.order, int(KILO * s.credit))

    def serve(self, place: Place, over: Over) -> Serving | None:
        return Service.of_next_group(self.group(place), over, place.settings.speeds)

    # --- theory

    def transfers(self, plan: NetworkPlan, settings: Any, elements: int) -> Transfers:
        """Each service's share in turns: pieces are pushed, one after another, while the sums of those before are pulled."""
        n, size = len(plan.hosts), 4.0 * elements
        parts = np.array(shares(n, _rates(plan.rates(plan.everyone))))
        turns = max(1, min(MOST_TURNS, round(float(parts.max()) * size / (KILO * settings.partition))))
        worker, service = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(len(parts)), indexing="ij"))
        over = (worker != service) & (parts[service] > DUST)
        worker, service = worker[over], service[over]
        pushed = parts[service] * size / turns
        found = [(worker, service, turn) for turn in range(turns)] + [(service, worker, turn + 1) for turn in range(turns)]
        found.sort(key=lambda each: each[2])
        return Transfers(
            np.concatenate([sources for sources, _, _ in found]), np.concatenate([to for _, to, _ in found]),
            np.repeat([step for _, _, step in found], len(worker)), np.tile(pushed, 2 * turns),
            np.tile(pushed, 2 * turns) / pushed.max(initial=1.0),
        )  # fmt: skip

    def load(self, plan: NetworkPlan) -> dict[Hop, float]:
        """What each link carries in each direction for one sum, in sizes of the tensor, headers left out."""
        carried: dict[Hop, float] = {}
        parts = shares(len(plan.hosts), _rates(plan.rates(plan.everyone)))
        for service, share in zip(plan.everyone, parts, strict=True):
            for worker in plan.hosts:
                for source, destination in ((worker, service), (service, worker)) if worker is not service else ():
                    for hop in plan.path(source, destination):
                        carried[hop] = carried.get(hop, 0.0) + share
        return carried

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """2n(n-1)M / (D rate) where all links are alike (hosts.byteps.assignment); else when the last link ends, or processor."""
        rates = {link.number: link.rate for link in plan.links}
        busiest = max((load / rate for (link, _), load in self.load(plan).items() if (rate := rates[link])), default=0.0)
        largest = max(shares(len(plan.hosts), _rates(plan.rates(plan.everyone))))
        processor = largest * 4 * elements * (len(plan.hosts) / settings.speeds.adding + 1 / settings.speeds.updating)
        return max(self.overhead(settings) * busiest * 32e-6 * elements, float(processor))

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        load = self.load(plan)
        return self.framing(settings, elements) * max(load.get((number, True), 0.0) for number in plan.uplinks)


def _rates(rates: Sequence[float]) -> list[float]:
    """Links whose rate is not limited count as alike, and as the fastest."""
    return [rate or max(*rates, 1.0) for rate in rates]


SCHEME = BytePSScheme()
