"""What schemes for machines with several GPUs have in common: GPUs follow a strategy, and each machine's memory is a server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from inalab.hosts.machines.inside import Between, Strategy, checked, schedule
from inalab.hosts.plugins import load_object
from inalab.hosts.tcp.schedules import Nodes, Schedule
from inalab.schemes.scheme import Admitted
from inalab.schemes.tcp import ScheduledOverTcp
from inalab.topologies.plan import NetworkPlan

STRATEGIES = {name: f"inalab.hosts.machines.{name.replace('-', '_')}" for name in ("cpu-assisted", "local-ring", "nvlink-reduce")}


def strategy_of(name: str) -> Strategy:
    """A strategy by its name, or the file that defines it as STRATEGY. Raises ValueError."""
    if name not in STRATEGIES and not name.endswith(".py"):
        raise ValueError(f"choose one of {', '.join(STRATEGIES)}, or a file")
    found: Strategy = load_object(STRATEGIES.get(name, name), "STRATEGY", ("shards", "gather", "spread"))
    return found


def _known(name: str) -> str:
    strategy_of(name)
    return name


Strategies = Annotated[str, AfterValidator(_known), Field(description=f"inside a machine: {', '.join(STRATEGIES)}, or a file")]


class OfMachines(ScheduledOverTcp):
    """GPUs are workers, and each machine's memory is a server. Settings have `racks`, which are the machines, and `strategy`."""

    multi_gpu = True
    of_bound = (0.5, 1.02)  # acknowledgments wait behind data, and a step waits for its last block

    @abstractmethod
    def between(self, settings: Any) -> Between | None:
        """What servers move between machines; None where the network sums."""
        raise NotImplementedError

    def servers(self, settings: Any) -> int:
        return int(settings.racks)

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        if not plan.topology.machines:
            raise ValueError(f"scheme {self.name} needs machines: set topology to flat-machines, pcie-machines or nvlink-machines")
        if len(jobs) > 1:
            raise ValueError(f"scheme {self.name} has the machines to itself: leave jobs out")
        (job,) = jobs
        nodes = self.nodes(plan, job.plan.hosts, job.plan.servers, job.settings)
        checked(nodes, strategy_of(job.settings.strategy), self.between(job.settings))

    def elastic(self, settings: Any) -> bool:
        """A strategy is for machines that are alike."""
        return False

    def schedule(self, nodes: Nodes) -> Schedule:
        return schedule(nodes, strategy_of(nodes.settings.strategy), self.between(nodes.settings))
