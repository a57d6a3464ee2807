"""MLfabric (SoCC '20), our reading of it: a scheduler orders, drops and aggregates asynchronous updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from hosts.collective import Collective
from hosts.mlfabric.fabric import Fabric
from hosts.mlfabric.schedule import Schedule
from hosts.mlfabric.scheduler import Scheduler, rank_of
from hosts.mlfabric.server import OrderedServer
from hosts.mlfabric.worker import MLfabric
from hosts.place import Over, Place, Pulse, Serving
from schemes.model_server import OneModelServer
from schemes.scheme import Look, SchemeSettings
from schemes.tcp import TCP_OVERHEAD

BYTES = 1e6 / 8  # per second in a Mbit/s


class Settings(SchemeSettings):
    """What the scheduler does."""

    delay: int | None = Field(
        None, ge=0, le=1_000_000, description="largest delay, in updates of others; an update that would exceed it is dropped"
    )
    order: bool = Field(True, description="updates go one after another, the shortest first, and do not share links")
    aggregate: bool = Field(True, description="workers that wait for their turn add others' updates to theirs")
    distribute: bool = Field(True, description="workers that have fetched the model pass it on to others that wait for it")


class MLfabricScheme(OneModelServer):
    """Workers ask a scheduler when and where to send their updates."""

    name = "mlfabric"
    look = Look("MLfabric", "#d9588a", ">")
    Settings = Settings
    managed = True

    def delay_bound(self, settings: Any) -> int | None:
        return settings.delay  # type: ignore[no-any-return]

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        return MLfabric(place.membership, epoch, place.peers, _control(place), TCP_OVERHEAD, place.settings.patience, pulse)

    def serve(self, place: Place, over: Over) -> Serving | None:
        patience = place.settings.patience
        return OrderedServer.of_next_scheduled_group(place.membership, place.peers, _control(place), patience, over)

    def manage(self, place: Place, over: Over) -> Serving | None:
        s, m = place.settings, place.membership
        fabric = Fabric(place.racks, _rates(place.rates), _rates(place.uplinks))
        schedule = Schedule(fabric, m.size, s.delay, s.order, s.aggregate, s.distribute)
        return Scheduler.of_next_group(replace(m, rank=rank_of(m.size)), _control(place), s.patience, over, schedule)


def _control(place: Place) -> list[str]:
    """Addresses on the management network. The scheduler is on the server's host."""
    return [*place.control, place.control[place.membership.size]]


def _rates(rates: list[float]) -> list[float]:
    return [BYTES * rate for rate in rates]


SCHEME = MLfabricScheme()
