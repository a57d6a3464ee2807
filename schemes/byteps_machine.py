"""BytePS with machines of several GPUs (OSDI '20, section 4): aggregation inside a machine, Summation Services between machines."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from inalab.hosts.machines.inside import BETWEEN, Between
from inalab.schemes.of_machines import OfMachines, Strategies
from inalab.schemes.scheme import Look, one_of
from inalab.schemes.tcp import OverConnections, TransportSettings


class Settings(TransportSettings):
    """What happens inside a machine, and between machines."""

    racks: int = Field(2, description="machines")
    strategy: Strategies = "cpu-assisted"
    between: Annotated[str, one_of(*BETWEEN)] = Field(
        "services",
        description="between machines: a Summation Service in each (services), a ring, or one parameter server (server)",
    )


class BytePSMachine(OverConnections, OfMachines):
    """Memories add, and have the network's connections."""

    name = "byteps-machine"
    look = Look("BytePS, several GPUs", "#5e3c58", "8")
    Settings = Settings

    def between(self, settings: Any) -> Between:
        return BETWEEN[settings.between]


SCHEME = BytePSMachine()
