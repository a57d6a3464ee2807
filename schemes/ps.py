"""Dedicated parameter servers over TCP: n/S of the tensor over the link of each of S servers (Li et al., OSDI '14)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from inalab.hosts.tcp.schedules import Nodes, Schedule, dedicated_servers
from inalab.schemes.scheme import Look
from inalab.schemes.tcp import Scheduled, TransportSettings


class Settings(TransportSettings):
    """How many servers share the tensor."""

    servers: int = Field(1, ge=1, description="dedicated servers, on hosts of their own")


class ParameterServer(Scheduled):
    """Each server sums an equal share, and sends sums down while the next piece comes up."""

    name = "ps"
    look = Look("parameter server", "#b0413e", "^")
    Settings = Settings
    of_bound = (0.75, 1.02)  # acknowledgments wait behind data

    def servers(self, settings: Any) -> int:
        return int(settings.servers)

    def schedule(self, nodes: Nodes) -> Schedule:
        return dedicated_servers(nodes.workers, nodes.servers)


SCHEME = ParameterServer()
