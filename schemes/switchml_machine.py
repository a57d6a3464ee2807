"""SwitchML between machines with several GPUs: each machine's memory is one of its workers, after aggregation inside (BytePS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from inalab.hosts.collective import Membership
from inalab.hosts.machines.inside import PIECES, summed
from inalab.hosts.machines.leader import Leader
from inalab.hosts.place import Over, Place, Serving
from inalab.schemes import oracle, switchml
from inalab.schemes.of_machines import OfMachines, Strategies, strategy_of
from inalab.schemes.scheme import Admitted, Cells, Conditions, Look, Simulation
from inalab.switches.commands import Commands
from inalab.switches.control import Control
from inalab.switches.switchml import pass_by, rejected
from inalab.topologies.between import between_machines
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan

BETWEEN = switchml.SCHEME


class Settings(switchml.Settings):
    """What happens inside a machine; and SwitchML's own."""

    racks: int = Field(2, description="machines")
    strategy: Strategies = "cpu-assisted"


class SwitchMLMachine(OfMachines):
    """The switch that joins the machines adds. Those inside them only forward."""

    name = "switchml-machine"
    look = Look("SwitchML, several GPUs", "#2b4c7e", "H")
    Settings = Settings
    program = BETWEEN.program

    def between(self, settings: Any) -> None:
        """The network sums."""

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        super().check(jobs, plan)
        if not plan.roots:
            raise ValueError(f"scheme {self.name} adds between machines: set racks to 2 or more")
        BETWEEN.check(_memories(jobs, seen := between_machines(plan)), seen)

    def serve(self, place: Place, over: Over) -> Serving | None:
        group, schedule, m = self.group(place), self._of(place), place.membership
        if (meeting := Leader.met(group, schedule, over)) is None:
            return None
        memories = place.peers[m.size :]
        among = Membership(m.job, m.rank - m.size, len(memories), [list(range(len(memories)))])
        its = replace(place, membership=among, peers=memories, server_racks=[], switches=[place.root], root="")
        by_network = summed(self.nodes_around(place), strategy_of(place.settings.strategy))
        try:
            return Leader(group, schedule, meeting, BETWEEN.join(its, meeting.epoch), by_network)
        except BaseException:
            meeting.close()
            raise

    # --- switches

    def bits_on_wire(self, k: int) -> int:
        return BETWEEN.bits_on_wire(k)

    def queue(self, job: Admitted) -> int:
        return BETWEEN.queue(job)

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        """The job's at the switch that joins the machines. Others let it pass."""
        seen = between_machines(plan)
        if name in seen.switches:
            BETWEEN.commands(commands, seen, name, _memories(jobs, seen), conditions)
            return
        for job in jobs:
            pass_by(commands, job.plan.number)

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        seen = between_machines(plan)
        if name in seen.switches:
            return BETWEEN.counted(control, seen, name, _memories(jobs, seen))
        return {"rejected": rejected(control), "copies_missing": 0}

    def memory(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> list[Cells]:
        seen = between_machines(plan)
        return BETWEEN.memory(control, seen, name, _memories(jobs, seen)) if name in seen.switches else []

    # --- theory

    def simulated(self) -> Simulation:
        """Not at all: the simulator does not combine messages of a schedule with sums in switches."""
        return Simulation.NONE

    def sum_error(self, settings: Any, workers: int, largest: float, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        """What floats lose inside machines, and then SwitchML's of the machines' sums."""
        inside = OfMachines.sum_error(self, settings, workers, largest, magnitudes)
        return inside + BETWEEN.sum_error(settings, settings.racks, largest * workers / settings.racks, magnitudes)

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """The schedule's. In steps in which the network sums a piece it is that sum's, where this takes longer."""
        nodes = self.nodes(plan, plan.hosts, plan.servers, settings)
        moved = oracle.of_steps(self.schedule(nodes), plan, 4 * elements)
        piece = BETWEEN.bound(between_machines(plan), settings, -(-elements // PIECES))
        sums = summed(nodes, strategy_of(settings.strategy))
        steps = (max(self.overhead(settings) * seconds, piece * (step in sums)) for step, seconds in enumerate(moved))
        return float(sum(steps))

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        return max(super().uplink_tensors(plan, settings, elements), BETWEEN.framing(settings, elements))


def _memories(jobs: Sequence[Admitted], seen: NetworkPlan) -> list[Admitted]:
    """The jobs of machines, whose workers are the machines' memories, on the network between them."""
    return [Admitted(JobPlan(job.plan.number, tuple(seen.hosts)), BETWEEN, job.settings) for job in jobs]


SCHEME = SwitchMLMachine()
