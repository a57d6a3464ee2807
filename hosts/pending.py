"""All-reduces that somebody waits for, and the queue of those that have not been started."""

from __future__ import annotations

import queue
from datetime import timedelta

import torch
import torch.distributed as dist

from inalab.hosts.collective import UNNAMED, Label, Operation, Update
from inalab.hosts.drivers.driver import Driver, Signal
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.sampling import Sample
from inalab.hosts.tally import tally


class PendingSum(dist.Work):
    """An all-reduce under way. DDP waits for its future, others for itself; both raise what went wrong."""

    def __init__(
        self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM, driver: Driver = SOCKETS
    ) -> None:
        super().__init__()
        self.tensor, self.label, self.operation, self.driver = tensor, label, operation, driver
        self.version = 0.0  # see hosts.collective.Sum, once it is over
        self.update: Update | None = None  # likewise
        self.sample: tuple[int, Sample] | None = None  # the sum's number and what was given, where it is compared
        self.memory = _span(tensor)  # from where to where it is
        self.begun = driver.monotonic()
        self.started = self.begun  # when the scheme was given it
        self.ended = 0.0  # likewise, once it is over
        self.error: Exception | None = None
        self.over = driver.event()
        self.signal: torch.futures.Future[None] = torch.futures.Future()
        # a future that was given an exception holds it as a value, which DDP takes for a gradient; one whose callback
        # raises has failed
        self.future = self.signal.then(self._outcome)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return [self.tensor]

    def finish(self, error: Exception | None = None) -> None:
        """The sum is in the tensor, or there is none."""
        self.error, self.ended = error, self.driver.monotonic()
        if error is None:
            tally.summed(self.tensor.nbytes, self.ended - self.begun)
        self.over.set()
        self.signal.set_result(None)

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
        return [self.tensor]

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        return self.future


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor's first element begins in memory, and where its last one ends."""
    elements = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    return tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size()


class PendingAll(dist.Work):
    """Several pieces of work that are waited for as one."""

    def __init__(self, pieces: list[dist.Work]) -> None:
        super().__init__()
        self.pieces = pieces

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until all are over; 0 is for as long as it takes."""
        for piece in self.pieces:
            piece.wait(timeout) if timeout else piece.wait()
        return True


class Waiting:
    """Sums that have not been started; None among them is the last. A signal has happened as often as there are some."""

    def __init__(self, signal: Signal) -> None:
        self.sums: queue.SimpleQueue[PendingSum | None] = queue.SimpleQueue()
        self.signal = signal

    @property
    def descriptor(self) -> int:
        """Ends a wait while there are any."""
        return self.signal.descriptor

    def put(self, pending: PendingSum | None) -> None:
        self.sums.put(pending)
        self.signal.set()

    def get(self) -> PendingSum | None:
        """The next one, as soon as there is one."""
        self.signal.take()
        return self.sums.get()

    def __len__(self) -> int:
        return self.sums.qsize()

    def close(self) -> None:
        self.signal.close()
