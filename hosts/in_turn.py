"""A worker's all-reduces of tensors by a collective: each starts when it is given, and several are under way."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER, UNNAMED, AggregationError, Collective, Label, Operation, Sum
from inalab.hosts.copies import Copy
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.pending import Combined, Gathered, Part, PendingSum, Waiting
from inalab.hosts.reductions import PLAIN, Reduction, write
from inalab.hosts.sampling import ScriptSampling
from inalab.hosts.tally import tally

COMPARED = (Operation.SUM, Operation.KEEP)  # of which each worker has the whole sum
# that all workers begin, in the same order
COLLECTIVE = (*COMPARED, Operation.REDUCE, Operation.SCATTER, Operation.GATHER, Operation.BROADCAST)


class InTurn:
    """Starts sums as they come, in a thread of its own. After one that failed, all that have not ended fail likewise.

    One whose tensor shares memory with another that is under way starts when that is over.
    """

    def __init__(self, collective: Collective, driver: Driver, sampling: ScriptSampling | None = None) -> None:
        """`sampling` is of the sums that are compared with what was given."""
        self.collective, self.driver, self.sampling = collective, driver, sampling
        self.waiting = Waiting(driver.signal())
        self.under_way: dict[PendingSum, Sum] = {}  # in the order in which they were started
        self.memory: list[tuple[int, int]] = []  # from where to where theirs is, in order; none meet
        self.over = driver.event()
        self.ending = False  # no more are taken
        self.given_up = ""  # why what is under way is not waited for

    def begin(self) -> None:
        """Begin to take sums."""
        self.over = self.driver.start(self.run, "ina")

    def sum(
        self, tensor: torch.Tensor, label: Label = UNNAMED, operation: Operation = Operation.SUM,
        reduction: Reduction | Copy = PLAIN, part: Part | Gathered | Combined | None = None,
        earlier: Sequence[PendingSum] = (),
    ) -> PendingSum:  # fmt: skip
        """Begin to sum a tensor over all workers, in its place, or to have a part of the sum, or another operation.

        `earlier` are calls that somebody else carries: it begins once those are over whose memory it shares."""
        pending = PendingSum(tensor, label, operation, self.driver, reduction, part)
        pending.after = [one for one in earlier if _meet(one.memory, pending.memory)]
        if not self.waiting.put(pending):
            pending.finish(self._no_more())
        return pending

    def run(self) -> None:
        """The thread: ends when it is to, and nothing is under way."""
        under_way, leaving = self.under_way, False
        while (under_way or not leaving) and not self.given_up:
            while not leaving and (self.waiting or not under_way):
                if not self.waiting:
                    self.collective.attend(self.waiting.descriptor)
                if (pending := self.waiting.get()) is None:
                    leaving = True
                    continue
                while self._meets(pending):
                    self._advance(NEVER)
                while pending.after:
                    pending.after.pop().over.wait()
                self._start(pending)
            if under_way:
                self._advance(NEVER if leaving else self.waiting.descriptor)
        for pending in [*under_way, *self.waiting.close()]:
            pending.finish(self._no_more())
        self.collective.close()

    def _no_more(self) -> AggregationError:
        return AggregationError(self.given_up or "the group has been left", incomplete=True)

    def _start(self, pending: PendingSum) -> None:
        with reporting(pending):
            then, pending.started = partial(self._keep, pending), self.driver.monotonic()
            started = self.collective.start(
                given(pending, self.sampling), pending.part is None, pending.label, then, pending.operation
            )
            if not pending.is_completed():
                self.under_way[pending] = started
                for span in pending.memory:
                    insort(self.memory, span)

    def _advance(self, interrupt: int) -> None:
        """Go on until the first sum is over, or the descriptor is readable; others may be over before."""
        pending, started = next(iter(self.under_way.items()))
        with reporting(pending):
            self.collective.advance(started, interrupt)
        if pending.is_completed():
            self._leave(pending)

    def _keep(self, pending: PendingSum, started: Sum) -> None:
        keep(pending, started)
        self._leave(pending)

    def _leave(self, pending: PendingSum) -> None:
        if self.under_way.pop(pending, None) is not None:
            for span in pending.memory:
                del self.memory[bisect_left(self.memory, span)]

    def _meets(self, pending: PendingSum) -> bool:
        """Whether its tensors may share memory with another one under way."""
        return any(self._meets_span(*span) for span in pending.memory)

    def _meets_span(self, begins: int, ends: int) -> bool:
        after = bisect_left(self.memory, (ends, 0))  # the first that begins where it ends, or later
        return after > 0 and self.memory[after - 1][1] > begins

    def give_up(self, reason: str) -> None:
        """Take no more, and have all that is not over fail for this reason. `end` waits until that is so."""
        self.given_up = reason
        if not self.ending:
            self.waiting.put(None)
        self.ending = True

    def end(self, patience: float) -> bool:
        """Take no more; wait up to `patience` seconds for what is under way. Whether that is over."""
        if not self.ending:
            self.waiting.put(None)
        self.ending = True
        return bool(self.over.wait(patience))


def _meet(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    """Whether two sets of spans have some memory in common."""
    return any(max(a, c) < min(b, d) for a, b in ones for c, d in others)


def given(pending: PendingSum, sampling: ScriptSampling | None) -> NDArray[Any]:
    """What this worker gives to a sum, of which a sample is kept where it is one that is compared."""
    values = pending.reduction.values(pending.tensor)
    if sampling and pending.operation in COMPARED:
        pending.sample = sampling.before(values)
    return pending.reduction.given(values)


def keep(pending: PendingSum, started: Sum) -> None:
    """Put the sum in the tensor's place, in its dtype, unless it is there already; autograd learns of it in both cases."""
    tensor = pending.tensor
    assert started.total is not None
    pending.version, pending.update = started.version, started.update
    with reporting(pending):
        like = pending.outputs[0] if pending.operation is Operation.SCATTER else tensor
        total = pending.reduction.total(started.total, like)
        if pending.sample is not None:
            number, sample = pending.sample
            tally.sampled(number, sample.of_sum([total.reshape(-1) * pending.reduction.divisor]))
        if pending.part is not None:
            pending.part.take(total)
        elif total.data_ptr() != tensor.data_ptr():
            write(tensor, total)
        elif not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
        pending.finish()


@contextmanager
def reporting(pending: PendingSum) -> Iterator[None]:
    """What goes wrong with a sum is raised where somebody waits for it. If it was over before, the others learn of it in turn."""
    try:
        yield
    except Exception as error:
        if not pending.is_completed():
            pending.finish(error if isinstance(error, AggregationError) else AggregationError(f"{type(error).__name__}: {error}"))
