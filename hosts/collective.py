"""What every scheme offers, and what it says when a collective cannot finish."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NEVER = -1  # in place of a file descriptor
EMPTIES = 512


@dataclass
class Counters:
    """Packets and bytes of one worker since it started. Bytes are payload."""

    sent: int = 0  # packets with a vector, retransmissions included
    results: int = 0  # results that completed a chunk
    duplicates: int = 0  # results of chunks already complete, or not asked for
    timeouts: int = 0  # times that at least one slot's timer ran out
    retransmissions: int = 0  # packets sent again
    queries: int = 0  # header-only packets that ask what became of a chunk
    malformed: int = 0  # datagrams that were no packet of this job
    outdated: int = 0  # packets of another group of this job
    bytes_sent: int = 0
    bytes_received: int = 0
    handled: int = 0  # packets, or messages that a network interface makes packets of, that this processor sent and received
    waited: float = 0.0  # seconds between sending a chunk and its result, over all results; 0 where the scheme does not know

    def __add__(self, other: Counters) -> Counters:
        """Of both together."""
        return Counters(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, before: Counters) -> Counters:
        """What has been counted since then."""
        return Counters(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


@dataclass
class Membership:
    """A worker's place in a job: `racks` lists the ranks below each rack's switch, in the order of the switch's bitmap.

    `pods` lists the racks below each pod's switch, where there are pods. `called` is what workers are called in messages, by rank,
    where that is another number: the workers of a group have their ranks in the job.
    """

    job: int
    rank: int
    size: int
    racks: list[list[int]] = field(default_factory=list)
    pods: list[list[int]] = field(default_factory=list)
    called: list[int] = field(default_factory=list)

    def names(self, ranks: Iterable[int]) -> list[int]:
        """What these workers are called."""
        return [self.called[rank] if self.called else rank for rank in ranks]

    @property
    def name(self) -> str:
        """What this worker is called."""
        return f"worker {self.names([self.rank])[0]}"

    @property
    def rack(self) -> int:
        return next(i for i, ranks in enumerate(self.racks) if self.rank in ranks)

    @property
    def worker(self) -> int:
        """Number of this worker below its switch."""
        return self.racks[self.rack].index(self.rank)


def node_name(rank: int, size: int) -> str:
    """What a node of a job with `size` workers is called in messages; dedicated servers have the ranks after the workers'."""
    return f"worker {rank}" if rank < size else f"server {rank - size}"


def workers(ranks: list[int], alike: bool = False) -> str:
    """Workers by rank, for a sentence; `alike`, one alone is in the plural, too."""
    return f"worker{'s' * (alike or len(ranks) > 1)} {', '.join(map(str, ranks))}"


class AggregationError(RuntimeError):
    """A collective cannot finish; str() names job, slot, chunk and who is missing.

    `incomplete`: it lacks others, of whom `missing` are known by rank. Otherwise this worker itself is the reason.
    """

    def __init__(self, text: str, incomplete: bool = False, missing: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.incomplete, self.missing = incomplete, missing

    def again(self) -> AggregationError:
        """The same, to be raised where another collective is refused for it."""
        return AggregationError(str(self), self.incomplete, self.missing)


class Call(Enum):
    """What a sum is for. All workers have to call the same."""

    ALL_REDUCE, AVERAGE, SCALED_SUM, REDUCE_SCATTER, REDUCE_SCATTER_AVERAGE, SCALED_REDUCE_SCATTER = range(6)
    ALL_GATHER, BROADCAST, COMBINE = 6, 7, 8
    REDUCE, REDUCE_AVERAGE, SCALED_REDUCE = 9, 10, 11


@dataclass(frozen=True)
class Label:
    """What a tensor is called in messages, and how urgent its sum is: the lower the number, the more. Most schemes keep the order
    in which sums start.

    `call` and `floats` are for telling workers apart that sum different things: what the sum is for, and, where the integers that
    are summed stand for so many floats (hosts.exact), how many these are. `root` is the worker whose tensor a BROADCAST sends, or
    who has the sum of a REDUCE, and a number of the operation and the dtype of a COMBINE. `octets` is the size of what is copied,
    whose last word may be filled up.
    """

    name: str = ""
    priority: int = 0
    call: Call = Call.ALL_REDUCE
    floats: int = 0
    root: int = 0
    octets: int = 0


UNNAMED = Label()


class Operation(Enum):
    """What is done with the tensors of all workers.

    SUM     each has the sum
    KEEP    likewise, and the scheme keeps it, under the tensor's name
    CHANGE  what a worker gives is added to what is kept under that name, without waiting for the others; it has what is kept then
    FETCH   a worker has what is kept then, and gives nothing but the shape

    REDUCE     the label's root has the sum, and the others nothing
    SCATTER    each has an equal part of the sum, by its rank
    GATHER     each has the tensors of all, one behind the other
    BROADCAST  each has the tensor of the label's root
    """

    SUM, KEEP, CHANGE, FETCH, SCATTER, GATHER, BROADCAST, REDUCE = range(8)


@dataclass(frozen=True)
class Update:
    """What became of a worker's CHANGE. Versions are how many changes are in what is kept; times are time.monotonic()."""

    computed_on: float  # the version that the worker had; a mean over parts that are added by themselves
    applied_at: float | None  # the version that it was added to; None where it was dropped
    norm: float | None  # as it was sent; None where it is not computed
    octets: int  # sent for it
    requested: float
    sent: float | None  # when it began to be; None where it was not
    applied: float | None
    way: str  # where to it was sent
    fetched_from: str  # who sent what was kept afterwards
    distance: float | None = None  # norms of the changes that were in it and not in its replica; None without a replica
    turn: float | None = None  # from when on it had the links to itself; None without a scheduler, or where it was dropped

    @staticmethod
    def norm_of(change: NDArray[Any]) -> float:
        """Infinite if an element is not a number."""
        norm = float(np.linalg.norm(change))
        return math.inf if math.isnan(norm) else norm

    @property
    def delay(self) -> float | None:
        """How many changes of others came between; None where it was dropped."""
        return None if self.applied_at is None else self.applied_at - self.computed_on


@dataclass(eq=False)
class Sum:
    """A collective that has been started. `total` has the shape of the caller's tensor, once it is over.

    `version` is how many changes are in what was kept, as a mean over the elements' parts; `update` is what became of a CHANGE,
    where the scheme can tell.
    """

    flat: NDArray[Any]  # (elements,)
    shape: tuple[int, ...]
    overwrite: bool = False  # the sum may be written over `flat`
    label: Label = UNNAMED
    then: Callable[[Sum], None] | None = None  # called once it is over
    operation: Operation = Operation.SUM
    total: NDArray[Any] | None = None
    version: float = 0.0
    update: Update | None = None
    empties: int = 0  # tensors without elements that were summed since the one before, modulo EMPTIES: who sums others differs

    def end(self, total: NDArray[Any]) -> None:
        """`total` (elements,) is the sum over all workers, in the tensor's dtype; more elements behind it are cut off. Of what
        a SCATTER or a GATHER gives nothing is."""
        whole = self.operation in (Operation.SCATTER, Operation.GATHER)
        self.total = total if whole else total.reshape(-1)[: self.flat.size].reshape(self.shape)
        if self.then is not None:
            self.then(self)


class Noted(Protocol):
    """What a collective notes of when things happen."""

    def since(self, start: float) -> list[tuple[Any, ...]]:
        """Rows that begin with seconds since `start`."""
        ...


class Summing(ABC):
    """All-reduces, until one fails: after that it is unknown what the others have, and every further one is refused.

    Several may be under way. All workers start the same ones in the same order; which one is over first is the scheme's to
    decide. Not thread-safe.
    """

    operations: tuple[Operation, ...] = (Operation.SUM,)  # that the scheme has

    def __init__(self) -> None:
        self.broken: AggregationError | None = None
        self.empties = 0  # see Sum

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x (float32 or int32, any shape) over all workers.

        Raises TypeError for another dtype and AggregationError when the sum cannot be completed, or one before could not.
        """
        started = self.start(x)
        self.advance(started)
        assert started.total is not None
        return started.total

    def start(
        self, x: NDArray[Any], overwrite: bool = False, label: Label = UNNAMED, then: Callable[[Sum], None] | None = None,
        operation: Operation = Operation.SUM,
    ) -> Sum:  # fmt: skip
        """Begin an all-reduce, which `advance` brings to its end; x must stay as it is until then. Raises as all_reduce does.

        `overwrite` allows to write the sum over x, which then shares no memory with another sum under way. After an error x is
        undefined. `then` is called with the sum once it is over, while this or another one is advanced. An operation that the
        scheme does not have is a ValueError.
        """
        if self.broken is not None:
            raise self.broken.again()
        if operation not in self.operations:
            raise ValueError(f"{type(self).__name__} has no operation {operation.name}")
        if x.dtype not in (np.float32, np.int32):
            raise TypeError(f"float32 and int32 can be aggregated, {x.dtype} cannot")
        started = Sum(np.require(x, requirements=["C", "A"]).reshape(-1), x.shape, overwrite, label, then, operation)
        if x.size == 0:
            self.empties = (self.empties + 1) % EMPTIES
            self._guarded(lambda: started.end(x.copy()))
        else:
            started.empties, self.empties = self.empties, 0
            self._guarded(lambda: self._start(started))
        return started

    def advance(self, started: Sum, interrupt: int = NEVER) -> bool:
        """Go on until a sum is over, or the file descriptor `interrupt` is readable; whether it is over.

        Raises as all_reduce does.
        """
        if started.total is None:
            if self.broken is not None:
                raise self.broken.again()
            self._guarded(lambda: self._advance(started, interrupt))
        return started.total is not None

    def attend(self, interrupt: int) -> None:
        """While nothing is under way, serve others until the file descriptor `interrupt` is readable.

        A scheme that serves no worker returns at once.
        What goes wrong is raised when the next sum is started.
        """
        if self.broken is None:
            with suppress(Exception):
                self._guarded(lambda: self._attend(interrupt))

    def note(self) -> Noted | None:
        """Begin to note when things happen; None where the scheme does not."""
        return None

    def _guarded(self, step: Any) -> None:
        try:
            step()
        except AggregationError as error:
            self.broken = error
            raise
        except BaseException as error:
            self.broken = AggregationError(f"a sum before was interrupted: {type(error).__name__}: {error}")
            raise

    @abstractmethod
    def _start(self, started: Sum) -> None:
        """Take in a tensor."""

    @abstractmethod
    def _advance(self, started: Sum, interrupt: int) -> None:
        """Bring the sum to its `end`; an interruption may come first."""

    def _attend(self, interrupt: int) -> None:  # noqa: B027 (most schemes have nothing to do then)
        """See attend."""


class Collective(Protocol):
    """A scheme, as the training script sees it."""

    counters: Counters

    def all_reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of x over all workers, in x's shape and dtype; bit-identical on every worker."""
        ...

    def start(
        self, x: NDArray[Any], overwrite: bool = False, label: Label = UNNAMED, then: Callable[[Sum], None] | None = None,
        operation: Operation = Operation.SUM,
    ) -> Sum: ...  # fmt: skip

    def advance(self, started: Sum, interrupt: int = NEVER) -> bool: ...

    def attend(self, interrupt: int) -> None: ...

    def note(self) -> Noted | None: ...

    def close(self) -> None: ...
