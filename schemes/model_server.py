"""Schemes in which one host holds the model, and workers train asynchronously (hosts.updates)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from inalab.hosts.collective import Collective
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.hosts.tcp.schedules import Move, Schedule
from inalab.hosts.updates.server import ModelServer
from inalab.hosts.updates.worker import ModelWorker
from inalab.schemes import oracle
from inalab.schemes.scheme import Scheme, SchemeSettings
from inalab.schemes.tcp import SEGMENT, TCP_FRAME, TCP_OVERHEAD
from inalab.topologies.plan import NetworkPlan


class ModelServerSettings(SchemeSettings):
    """What becomes of late updates."""

    corrected: bool = Field(False, description="with n workers, scale a late update by n / (1 + delay) where that is less than 1")


class OneModelServer(Scheme):
    """Updates to one host, and the model from it, over TCP."""

    Settings: type[Any] = ModelServerSettings
    keeps_weights, sums, outlives_workers, driven = True, False, True, True

    def servers(self, settings: Any) -> int:
        return 1

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        return ModelWorker(place.group(epoch, pulse))

    def serve(self, place: Place, over: Over) -> Serving | None:
        s = place.settings
        return ModelServer.of_next_group(place.group(), over, self.staleness(s), s.corrected)

    # --- theory

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """For the sums before and after training; updates have no bound."""
        return TCP_OVERHEAD * oracle.seconds(_sum(len(plan.hosts)), plan, 4 * elements)

    def framing(self, settings: Any, elements: int) -> float:
        return TCP_FRAME / SEGMENT

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        steps = oracle.load(_sum(len(plan.hosts)), plan, 1.0)
        return self.framing(settings, elements) * max(sum(step[number, True] for step in steps) for number in plan.uplinks)


def _sum(workers: int) -> Schedule:
    """All give to the server, and then it gives to all."""
    return [[Move(w, workers, 0, True) for w in range(workers)], [Move(workers, w, 0, False) for w in range(workers)]]
