"""What a worker and its trial's coordinator tell each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from inalab.hosts.collective import Counters, Update

if TYPE_CHECKING:  # it loads PyTorch
    from inalab.hosts.sampling import Sample


@dataclass(frozen=True)
class Forked:
    """A worker's process exists."""

    job: int
    rank: int
    pid: int


@dataclass(frozen=True)
class Hello:
    """A worker is ready: how many elements its gradient has, SHA-256 of what it trains on, and how many steps' sums it has."""

    job: int
    rank: int
    elements: int
    data: str
    steps: int = 0


@dataclass(frozen=True)
class Start:
    """The trial begins at a time of time.monotonic, which all hosts share."""

    at: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """A worker has ended a step. Times are in seconds, those that are points in time by the driver's clock."""

    number: int  # from 0
    rank: int
    train_loss: float | None = None
    begun: float  # the first layer's forward pass
    ended: float  # all sums are over
    busy: float  # the virtual compute time
    compute: float  # what was really computed: the update of the step before, and the gradient
    padding: float  # from then until the first gradient was due, negative if that was too early
    tat: float  # from the first gradient that was there until all sums were over
    elements: int
    retransmissions: int = 0  # of the worker so far
    rtt: float = 0.0  # the mean round trip of the step's packets, 0 where the scheme does not know
    version: float | None = None  # of a model that the scheme keeps: how many changes are in the weights that were pulled
    delay: float | None = None  # likewise: how many of others came between; None where the worker's own was dropped
    update: Update | None = None  # likewise: what became of it, where the scheme tells
    layers: list[list[float]] | None = None  # where there are several: when each one's forward pass and its sum begin and end
    error: float | None = None  # the distance of the sum from the one in float64, relative to that one's norm
    sample: Sample | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    members: tuple[int, ...] | None = None  # ranks of those whose gradients were summed, where they change,
    scheme: str | None = None  # and by which scheme

    def since(self, start: float) -> Step:
        """The step with all points in time counted from `start`."""
        update, layers = self.update, self.layers
        if update:
            times = {name: getattr(update, name) for name in ("requested", "turn", "sent", "applied")}
            update = replace(update, **{name: at - start for name, at in times.items() if at is not None})
        if layers:
            layers = [[at - start for at in its] for its in layers]
        return replace(self, begun=self.begun - start, ended=self.ended - start, update=update, layers=layers)

    def recorded(self) -> dict[str, Any]:
        """As trials.jsonl has it: without the sample, and without what the step does not have."""
        kept = {"step": self.number} | asdict(replace(self, sample=None))
        del kept["number"]
        dropped = "delay" if self.version is not None else ""
        return {name: value for name, value in kept.items() if value is not None or name == dropped}


@dataclass(frozen=True)
class Done:
    """A worker has ended in order: SHA-256 of its model, its counters, and its packets in bins of time."""

    rank: int
    digest: str
    counters: Counters
    timeline: list[Any]


@dataclass(frozen=True)
class Failure:
    """Why a worker has ended.

    `incomplete`: a collective lacks others, of whom `missing` are known by rank. Otherwise something happened to the worker itself.
    """

    job: int
    rank: int
    text: str
    incomplete: bool = False
    missing: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lost:
    """A worker, or a server behind them by rank, has died, and the others go on."""

    job: int
    rank: int
    text: str


@dataclass(frozen=True)
class Abort:
    """The worker is to give up."""

    reason: str


# --- jobs whose members change (hosts.training.elastic, testbed.trial.roster)


@dataclass(frozen=True)
class Join:
    """To take part in a generation of the job's members: the place there, as text (hosts.place), and what all are to have first.

    `steps` is how many steps' sums that is. The member `source`, by its rank there, has them; those `behind` lack the last sum,
    and `newcomers` all. Training began, or begins, at a time of time.monotonic.
    """

    generation: int
    epoch: int
    place: str
    steps: int = 0
    source: int = 0
    behind: tuple[int, ...] = ()
    newcomers: tuple[int, ...] = ()
    at: float = 0.0


@dataclass(frozen=True)
class Halt:
    """To give up what is under way in a generation, and say how far this member has come."""

    generation: int
    reason: str


@dataclass(frozen=True)
class Leave:
    """All have ended: to end, too."""


@dataclass(frozen=True)
class Joined:
    """A member has all that it needs in a generation, and goes on."""

    rank: int
    generation: int


@dataclass(frozen=True)
class Alive:
    """A member's process has received an order to halt, whatever it computes."""

    rank: int
    generation: int


NOTHING = -1  # steps whose sums a member has that lacks a model


@dataclass(frozen=True)
class Halted:
    """A member does nothing more in a generation. It has the sums of so many steps, or NOTHING.

    `text` is why, and `missing` are the ranks of those whose part it lacks, as far as it knows.
    """

    rank: int
    generation: int
    steps: int
    text: str
    missing: tuple[int, ...] = ()


Order = Join | Halt | Leave
FromWorker = Hello | Step | Done | Failure | Joined | Alive | Halted
Message = Forked | FromWorker | Lost
