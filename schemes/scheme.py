"""What a scheme is: one object that says how it is drawn, what it can be set to, how nodes take part, what switches do for it,
and how fast it can be at best."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from inalab.hosts.collective import Collective, Membership, Operation
from inalab.hosts.place import Over, Place, Pulse, Serving
from inalab.switches.commands import Commands
from inalab.switches.control import Control
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan

if TYPE_CHECKING:
    from inalab.hosts.mlfabric.schedule import Schedule


@dataclass(frozen=True)
class Look:
    """How something looks in every plot."""

    label: str
    colour: str
    marker: str = "o"
    line: str = "-"


def one_of(*words: str) -> AfterValidator:
    """A setting has to be one of these words: `Annotated[str, one_of(...)]`."""

    def check(word: str) -> str:
        if word not in words:
            raise ValueError(f"choose one of {', '.join(words)}")
        return word

    return AfterValidator(check)


class SchemeSettings(BaseModel):
    """What a scheme leaves open; the same on all nodes of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    patience: float = Field(30.0, gt=0, le=86_400, description="seconds without progress before a worker gives up")


@dataclass(frozen=True)
class Admitted:
    """A job on a network: its hosts, its scheme, and what that is set to."""

    plan: JobPlan
    scheme: Scheme
    settings: Any  # of scheme.Settings


@dataclass(frozen=True)
class Conditions:
    """What else a switch's configuration depends on."""

    queue: int | None = None  # the depth of its queues in packets, where it is set
    background: bool = False  # datagrams that belong to no job use the network
    mixed: bool = False  # so do jobs of schemes that need no program: their packets are of all sizes
    streams: int = 1  # jobs whose packets switches add


@dataclass(frozen=True)
class Transfers:
    """What hosts send each other for a sum: ranks (workers, then servers), the step, bytes of data; and weights.

    A host's step begins when all that it receives in the step before has come. What shares a link has shares of it as the weights.
    """

    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    steps: NDArray[np.int64]
    bytes: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """A job's part of a switch's memory: for each slot or aggregator that is not free, who is in and who is missing, by name."""

    title: str
    size: int
    taken: dict[int, tuple[list[str], list[str]]]


class Simulation(Enum):
    """How the simulator computes a scheme.

    NONE         not at all
    POOL         packet by packet, with SwitchML's cores, and switches that have a pool of slots
    QUEUE_PAIRS  likewise, over RoCE, in messages of several packets
    AGGREGATORS  packet by packet, with ATP's cores, and switches that have aggregators
    MESSAGES     by the messages of `transfers`
    UPDATES      update by update
    """

    NONE, POOL, QUEUE_PAIRS, AGGREGATORS, MESSAGES, UPDATES = range(6)

    @property
    def of_packets(self) -> bool:
        """Whether it is packet by packet."""
        return self in (Simulation.POOL, Simulation.QUEUE_PAIRS, Simulation.AGGREGATORS)


class Scheme:
    """A way to sum the gradients of a job's workers. A file defines one, as SCHEME.

    What is declared without a value has to be given. Sizes are in float32 or int32 elements, times in seconds.
    """

    name: str
    look: Look
    source: str  # the module or file that defines it; the registry fills it in
    Settings: type[Any] = SchemeSettings
    of_bound: tuple[float, float] = (0.8, 1.02)  # ATE/s over the bound's that an experiment is to find
    operations: tuple[Operation, ...] = (Operation.SUM,)  # of its group; Gloo carries what a script calls beside them
    native = False  # PyTorch's own group sums, over Gloo
    keeps_weights = False  # its group has the operations KEEP, CHANGE and FETCH (hosts.collective), for pipeline asynchronous
    multi_gpu = False  # it sums inside machines with several GPUs, and then between machines
    sums = True  # gradients, for all other pipelines and for scripts
    serves_on_workers = False  # a server runs on every worker's host, too
    outlives_workers = False  # those that are left go on when one dies
    managed = False  # a process on the management network manages its jobs, on the host of each one's first server
    driven = False  # its nodes use nothing but their place's driver, and so can run in virtual time
    timeline = False  # its workers note when packets (hosts.stream.timeline) or steps of a schedule (hosts.tcp.pairwise) are
    by_priority = False  # a sum that is more urgent overtakes those that began before it
    resends_without_loss = False  # a packet may be sent again although none was lost

    # --- nodes

    def servers(self, settings: Any) -> int:
        """Hosts besides the workers' that a job needs."""
        return 0

    def delay_bound(self, settings: Any) -> int | None:
        """The largest delay of an update (hosts.collective.Update) that the scheme allows; None means no bound."""
        return None

    def distance_bound(self, settings: Any) -> float | None:
        """How far the model of a replica may be from the server's (hosts.collective.Update); None if there is no replica."""
        return None

    def sum_error(self, settings: Any, workers: int, largest: float, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far elements of a sum may be from the sum in float64 by the scheme's arithmetic; infinite where it states nothing.

        `largest` is the largest magnitude in any worker's tensor, `magnitudes` has for each element the sum of the workers'.
        By default twice the bound of float32 additions in any order, (n - 1) u times the sum of the magnitudes (Higham,
        Accuracy and Stability of Numerical Algorithms, section 4.2), and half a denormal for each.
        """
        return 2 * workers * 2.0**-24 * magnitudes + workers * 2.0**-150

    def spare_servers(self, settings: Any) -> int:
        """How many of a job's servers may die without ending it."""
        return 0

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        """Raise ValueError for jobs of this scheme that cannot run on the network: a sentence that says what to change."""

    def operations_in(self, membership: Membership) -> tuple[Operation, ...]:
        """Those of `operations` that a job with these workers has."""
        return self.operations

    @abstractmethod
    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        """Take part as a worker of the group with this epoch (hosts.epoch), the same on all of them.

        `pulse` may tell a reason to give up; see hosts.drivers.stream.
        """
        raise NotImplementedError

    def serve(self, place: Place, over: Over) -> Serving | None:
        """The server of the next group of workers; None where it is `over` before one has come.

        On a worker's host the place is that worker's.
        """
        raise NotImplementedError

    def manage(self, place: Place, over: Over) -> Serving | None:
        """What manages the next group of workers; None where it is `over` before one has come. The place is a server's."""
        raise NotImplementedError

    def of_machine(self, settings: Any) -> bool:
        """Whether its workers need the network namespace of the machine (hosts.drivers.verbs)."""
        return False

    # --- switches

    program: Path | None = None  # P4, that the switches have to run; without one they forward by any program

    def bits_on_wire(self, k: int) -> int:
        """Bits that a chunk of k integers takes on an Ethernet link, preamble, FCS and gap included."""
        raise NotImplementedError

    header = 0  # bytes of a packet that has no integers
    protocol = ""  # what the program calls its header, where that is not the scheme's name

    def queue(self, job: Admitted) -> int:
        """Packets of a job that can wait at one port of a switch."""
        return 0

    def marks_from(self, jobs: Sequence[Admitted], conditions: Conditions) -> int:
        """From how many packets on a queue of a switch marks them; 0: never."""
        return 0

    def pace(self, rate: float, jobs: Sequence[Admitted], conditions: Conditions) -> int:
        """Packets a second that a switch sends into a link of so many Mbit/s; 0: as many as it carries."""
        return 0

    def configure(
        self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions
    ) -> None:  # fmt: skip
        """Add what configures the switch `name` for this scheme, whichever of these jobs are admitted."""

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        """Add what configures the switch `name` for this scheme's jobs, which it admits at once."""

    def elastic(self, settings: Any) -> bool:
        """Whether the members of its jobs may change: its servers keep nothing from one sum to the next, and if it needs switches,
        they admit jobs while packets flow."""
        admits = self.program is None or type(self).admit is not Scheme.admit
        return self.sums and self.driven and not self.native and not self.managed and admits

    def most_jobs(self, settings: Any) -> int:
        """How many jobs with these settings the switches hold at once, where they admit jobs while packets flow; 0 where not."""
        return 0

    def admit(self, commands: Commands, plan: NetworkPlan, name: str, job: Admitted) -> None:
        """Add what admits one of so many jobs at the switch `name`."""
        raise NotImplementedError

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """What the program on the switch `name` has counted of this scheme's jobs."""
        return {}

    def memory(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> list[Cells]:
        """What the memory of the switch `name` holds now, for those who watch; nothing where there is nothing to see."""
        return []

    def metrics(self, counted: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Metrics of a trial that follow from what all switches have counted."""
        return {}

    # --- theory

    simulation = Simulation.NONE
    all_to_all = False  # messages grow with the square of the number of workers
    events: tuple[str, ...] = ()  # of a job's packets, that its switches count and the simulator computes
    unsimulated: tuple[str, ...] = ()  # settings of its own that the simulator does not follow

    def simulated(self) -> Simulation:
        """How it is simulated. What the simulator restates, packets and updates, a class derived from another one does not inherit:
        its protocol may differ. Messages it has if it defines `transfers`."""
        if self.simulation is Simulation.NONE and type(self).transfers is not Scheme.transfers:
            return Simulation.MESSAGES
        restated = self.simulation.of_packets or self.simulation is Simulation.UPDATES
        return Simulation.NONE if restated and "simulation" not in vars(type(self)) else self.simulation

    def staleness(self, settings: Any) -> int | None:
        """How many updates a worker may be ahead of the slowest; None means no bound."""
        return None

    def manages(self, job: Admitted) -> bool:
        """Whether a job that is managed has a process of its own for it."""
        return True

    def update_schedule(self, place: Place) -> Schedule | None:
        """What decides when workers send their updates, and where to, before the first one; None where each sends at once."""
        return None

    def part_of_memory(self, cells: int, jobs: int, window: int) -> dict[str, int]:
        """Settings with which each of so many jobs has its part of a switch's cells, and at most `window` chunks under way."""
        raise NotImplementedError(f"scheme {self.name} takes no memory of switches: leave it out of schemes")

    def transfers(self, plan: NetworkPlan, settings: Any, elements: int) -> Transfers | None:
        """What the hosts of a network send each other for a sum, for the simulator; None where it is not simulated as messages."""
        return None

    @abstractmethod
    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """The least time of an all-reduce over all workers of the network, headers on the wire included, latency left out."""
        raise NotImplementedError

    def bounds_of_step(self, plan: NetworkPlan, settings: Any, tensors: Sequence[int]) -> list[float]:
        """Likewise, of each of several tensors of so many elements, which are summed one after the other without a pause."""
        bounds = {elements: self.bound(plan, settings, elements) for elements in set(tensors)}
        return [bounds[elements] for elements in tensors]

    @abstractmethod
    def framing(self, settings: Any, elements: int) -> float:
        """Bytes in frames, without preamble and gap, over those of the tensor."""
        raise NotImplementedError

    @abstractmethod
    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """Up the busiest rack's uplink for one sum, in sizes of the tensor, framing included."""
        raise NotImplementedError
