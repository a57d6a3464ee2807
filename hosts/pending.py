"""All-reduces that somebody waits for, and the queue of those that have not been started."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from inalab.hosts.callbacks import callbacks
from inalab.hosts.collective import UNNAMED, Label, Operation, Update
from inalab.hosts.combined import Combine
from inalab.hosts.copies import Copy
from inalab.hosts.drivers.driver import Driver, Signal
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.reductions import PLAIN, Reduction, write
from inalab.hosts.sampling import Sample
from inalab.hosts.tally import tally


@dataclass(frozen=True)
class Part:
    """Of a sum, all that a worker keeps: the number-th of so many equal ones, in `output`. What was given stays as it is."""

    output: torch.Tensor
    number: int
    parts: int

    @property
    def outputs(self) -> list[torch.Tensor]:
        """What it is written to."""
        return [self.output]

    def take(self, total: torch.Tensor) -> None:
        """Write it, of what has come."""
        write(self.output, total.reshape(self.parts, -1)[self.number].view(self.output.shape))


@dataclass(frozen=True)
class Gathered:
    """What all workers give goes to these outputs, by rank; they are views of `whole`, if somebody waits for that."""

    outputs: list[torch.Tensor]
    whole: torch.Tensor | None = None

    def take(self, copies: torch.Tensor) -> None:
        """Write them, of what has come; the root of a broadcast has no output."""
        for output, copy in zip(self.outputs, copies, strict=False):
            write(output, copy.view(output.shape))


@dataclass(frozen=True)
class Combined:
    """What all workers give is combined, by rank, in `output`."""

    output: torch.Tensor
    combine: Combine

    @property
    def outputs(self) -> list[torch.Tensor]:
        """What it is written to."""
        return [self.output]

    def take(self, copies: torch.Tensor) -> None:
        """Write it, of what has come."""
        if self.output.numel():
            write(self.output, self.combine(copies))


class PendingSum(dist.Work):
    """A collective over the scheme under way. DDP waits for its future, others for itself; both raise what went wrong."""

    def __init__(
        self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM, driver: Driver = SOCKETS,
        reduction: Reduction | Copy = PLAIN, part: Part | Gathered | Combined | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.tensor, self.label, self.operation, self.driver, self.reduction = tensor, label, operation, driver, reduction
        self.part = part
        self.outputs = [tensor] if part is None else part.outputs
        whole = part.whole if isinstance(part, Gathered) else None
        self.tensors = self.outputs if whole is None else [whole]  # that somebody waits for
        self.version = 0.0  # see hosts.collective.Sum, once it is over
        self.update: Update | None = None  # likewise
        self.sample: tuple[int, Sample] | None = None  # the sum's number and what was given, where it is compared
        self.memory = _spans([tensor, *self.outputs])
        self.after: list[PendingSum] = []  # which it begins after, since they share its memory
        self.begun = driver.monotonic()
        self.started = self.begun  # when the scheme was given it
        self.ended = 0.0  # likewise, once it is over
        self.error: Exception | None = None
        self.over = driver.event()
        self.level = callbacks.level
        self.asking = threading.Lock()
        self.signal: torch.futures.Future[None] | None = None  # which completes the future, where somebody has asked for it
        self.future: torch.futures.Future[list[torch.Tensor]] | None = None

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return self.tensors

    def finish(self, error: Exception | None = None) -> None:
        """The sum is in the tensor, or there is none."""
        self.error, self.ended = error, self.driver.monotonic()
        if error is None:
            note = tally.copied if isinstance(self.reduction, Copy) and not isinstance(self.part, Combined) else tally.summed
            note(self.tensor.nbytes, self.ended - self.begun)
        with self.asking:
            self.over.set()
            signal = self.signal
        if signal is not None:
            callbacks.put(self.level, lambda: signal.set_result(None))

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it is over; 0 is for as long as it takes. Raises AggregationError, or TimeoutError."""
        if not self.over.wait(timeout.total_seconds() or None):
            raise TimeoutError(f"an all-reduce was not over after {timeout.total_seconds():g} s")
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self) -> None:
        """See wait."""
        self.wait()

    def is_completed(self) -> bool:
        return self.over.is_set()

    def is_success(self) -> bool:
        return self.over.is_set() and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> list[torch.Tensor]:
        return self.tensors

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """The same for everyone. Its value is a list of the one tensor."""
        with self.asking:
            if self.future is None:
                self.signal = torch.futures.Future()
                # a future that was given an exception holds it as a value, which DDP takes for a gradient; one whose
                # callback raises has failed
                self.future = self.signal.then(self._outcome)
                if self.over.is_set():
                    self.signal.set_result(None)
            return self.future


def _spans(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """Where tensors are in memory: from where to where, in order; none meet."""
    found: list[tuple[int, int]] = []
    for begins, ends in sorted(_span(tensor) for tensor in tensors):
        if found and begins <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ends)
        elif begins < ends:
            found.append((begins, ends))
    return found


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Where the first element of a tensor begins in memory, and where the last one ends."""
    steps = [(n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    elements = 1 + sum(steps) if tensor.numel() else 0
    return tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size()


class PendingAll(dist.Work):
    """Several pieces of work that are waited for as one."""

    def __init__(self, pieces: list[Any]) -> None:
        super().__init__()
        self.pieces = pieces

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until all are over; 0 is for as long as it takes."""
        for piece in self.pieces:
            piece.wait(timeout) if timeout else piece.wait()
        return True

    def synchronize(self) -> None:
        """See wait."""
        self.wait()

    def is_completed(self) -> bool:
        return all(piece.is_completed() for piece in self.pieces)

    def is_success(self) -> bool:
        return all(piece.is_success() for piece in self.pieces)

    def exception(self) -> Any:
        """The first piece's that failed."""
        return next((error for piece in self.pieces if (error := piece.exception()) is not None), None)

    def result(self) -> list[torch.Tensor]:
        return [tensor for piece in self.pieces for tensor in piece.result()]

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Its value are the tensors of all pieces."""
        whole: torch.futures.Future[Any] = torch.futures.collect_all([piece.get_future() for piece in self.pieces])
        return whole.then(lambda all_over: [tensor for one in all_over.value() for tensor in one.value()])


class Followed(dist.Work):
    """Work, and what is to be done once it is over, before anybody goes on; `result` are the tensors that somebody waits for."""

    def __init__(self, work: Any, follow: Callable[[], None], result: list[torch.Tensor]) -> None:
        super().__init__()
        self.work, self.follow, self.tensors = work, follow, result
        self.once, self.followed = threading.Lock(), False

    def _follow(self) -> None:
        with self.once:
            if not self.followed:
                self.follow()
            self.followed = True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until it is over; 0 is for as long as it takes."""
        self.work.wait(timeout) if timeout else self.work.wait()
        self._follow()
        return True

    def synchronize(self) -> None:
        """See wait."""
        self.wait()

    def is_completed(self) -> bool:
        if not self.work.is_completed():
            return False
        if self.work.is_success():
            self._follow()
        return True

    def _source_rank(self) -> int:
        return int(self.work._source_rank())

    def is_success(self) -> bool:
        return bool(self.work.is_success())

    def exception(self) -> Any:
        return self.work.exception()

    def result(self) -> list[torch.Tensor]:
        return self.tensors

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Its value are the tensors that somebody waits for."""

        def follow(over: torch.futures.Future[Any]) -> list[torch.Tensor]:
            over.value()  # raises what went wrong
            self._follow()
            return self.tensors

        return self.work.get_future().then(follow)  # type: ignore[no-any-return]


class Waiting:
    """Sums that have not been started; None among them is the last. A signal has happened as often as there are some."""

    def __init__(self, signal: Signal) -> None:
        self.sums: queue.SimpleQueue[PendingSum | None] = queue.SimpleQueue()
        self.signal, self.closed = signal, False
        self.turn = threading.Lock()  # whoever puts one in must not meet who closes the signal

    @property
    def descriptor(self) -> int:
        """Ends a wait while there are any."""
        return self.signal.descriptor

    def put(self, pending: PendingSum | None) -> bool:
        """Put one in; False when it is too late for that."""
        with self.turn:
            if not self.closed:
                self.sums.put(pending)
                self.signal.set()
            return not self.closed

    def get(self) -> PendingSum | None:
        """The next one, as soon as there is one."""
        self.signal.take()
        return self.sums.get()

    def __len__(self) -> int:
        return self.sums.qsize()

    def close(self) -> list[PendingSum]:
        """Take no more; those that have not been taken out."""
        with self.turn:
            self.closed = True
            self.signal.close()
            rest = [self.sums.get() for _ in range(self.sums.qsize())]
        return [pending for pending in rest if pending is not None]
