"""Stale synchronous parallel (Ho et al., NIPS '13): asynchronous SGD whose fast workers wait for the slowest."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from inalab.schemes.model_server import ModelServerSettings, OneModelServer
from inalab.schemes.scheme import Look, Simulation


class Settings(ModelServerSettings):
    """How far workers may be apart."""

    staleness: int = Field(3, ge=0, le=100_000, description="updates that a worker may be ahead of the slowest; 0 is synchronous")


class SSP(OneModelServer):
    """A worker that is too far ahead gets the model once the slowest has caught up."""

    name = "ssp"
    look = Look("SSP", "#506d2f", "<")
    simulation = Simulation.UPDATES
    Settings = Settings

    def staleness(self, settings: Any) -> int | None:
        return int(settings.staleness)


SCHEME = SSP()
