"""BytePS with machines of several GPUs (OSDI '20, section 4): aggregation inside a machine, Summation Services between machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator

from inalab.hosts.machines.inside import BETWEEN, Strategy, checked, schedule
from inalab.hosts.plugins import PluginError, load
from inalab.hosts.tcp.schedules import Nodes, Schedule
from inalab.schemes.scheme import Admitted, Look, one_of
from inalab.schemes.tcp import Scheduled, TransportSettings
from inalab.topologies.plan import NetworkPlan

STRATEGIES = {name: f"inalab.hosts.machines.{name.replace('-', '_')}" for name in ("cpu-assisted", "local-ring", "nvlink-reduce")}


def strategy_of(name: str) -> Strategy:
    """A strategy by its name, or the file that defines it as STRATEGY. Raises ValueError."""
    if name not in STRATEGIES and not name.endswith(".py"):
        raise ValueError(f"choose one of {', '.join(STRATEGIES)}, or a file")
    try:
        found: Strategy = load(STRATEGIES.get(name, name), "STRATEGY")
    except PluginError as error:
        raise ValueError(str(error)) from None
    if isinstance(found, type):
        raise ValueError(f"STRATEGY of {name} is a class: make it an instance")
    if lacks := [method for method in ("shards", "gather", "spread") if not callable(getattr(found, method, None))]:
        raise ValueError(f"STRATEGY of {name} lacks {', '.join(lacks)}")
    return found


class Settings(TransportSettings):
    """What happens inside a machine, and between machines."""

    racks: int = Field(2, description="machines")
    strategy: str = Field("cpu-assisted", description=f"inside a machine: {', '.join(STRATEGIES)}, or a file")
    between: Annotated[str, one_of(*BETWEEN)] = Field(
        "services",
        description="between machines: a Summation Service in each (services), a ring, or one parameter server (server)",
    )

    @field_validator("strategy")
    @classmethod
    def _known(cls, strategy: str) -> str:
        strategy_of(strategy)
        return strategy


class BytePSMachine(Scheduled):
    """GPUs are workers, and each machine's memory is a server, which adds and has the network's connections."""

    name = "byteps-machine"
    look = Look("BytePS, several GPUs", "#5e3c58", "8")
    Settings = Settings
    of_bound = (0.5, 1.02)  # acknowledgments wait behind data, and a step waits for its last block

    def servers(self, settings: Any) -> int:
        return int(settings.racks)

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        if not plan.topology.machines:
            raise ValueError(f"scheme {self.name} needs machines: set topology to flat-machines, pcie-machines or nvlink-machines")
        if len(jobs) > 1:
            raise ValueError(f"scheme {self.name} has the machines to itself: leave jobs out")
        (job,) = jobs
        strategy, between = strategy_of(job.settings.strategy), BETWEEN[job.settings.between]
        checked(self.nodes(plan, job.plan.hosts, job.plan.servers, job.settings), strategy, between)

    def elastic(self, settings: Any) -> bool:
        """A strategy is for machines that are alike."""
        return False

    def schedule(self, nodes: Nodes) -> Schedule:
        return schedule(nodes, strategy_of(nodes.settings.strategy), BETWEEN[nodes.settings.between])


SCHEME = BytePSMachine()
