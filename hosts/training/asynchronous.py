"""Asynchronous training (BytePS, OSDI '20, section 5): no worker waits for another.

The services keep the weights, at first worker 0's. A worker computes a gradient with the weights it has, and its own optimizer
turns that into a change. It pushes the change, which the services add at once, and pulls the weights as they are then. Meanwhile
others have changed the weights: the number of their changes between a worker's pull and its next push is the delay of that step. A
change is divided by the number of workers. So one step of every worker moves the weights, in total, as far as one synchronous
step, which uses the mean of the workers' gradients.

Which weights a gradient is computed with depends on timing. So no two runs train the same model, but all workers of a run end with
the same one: they pull it once all have pushed their last change. They then compare what they have pulled, and pull again if it
differs: what keeps the weights may have died in between, and a replica that takes over may lack changes that some have pulled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from inalab.hosts.collective import Counters, Label, Operation
from inalab.hosts.drivers.driver import Computing, Driver, Processor
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.messages import Step
from inalab.hosts.training.exchange import BeginSum
from inalab.hosts.training.pace import padded_sleep
from inalab.hosts.training.trainer import AllReduce, Trainer, TrainingSettings
from inalab.hosts.weights import WEIGHTS

PULLS = 3  # of the last weights, at most; each after the first means that what kept them has died


class AsynchronousTrainer(Trainer):
    """A worker's training with weights that the scheme keeps. The last worker evaluates what it pulls, because the first one's
    link is slow where links are of mixed rates. A step has a version, a delay, and an update where the scheme tells of it.
    """

    def __init__(
        self, settings: TrainingSettings, rank: int, workers: int, driver: Driver = SOCKETS, all_reduce: AllReduce = dist.all_reduce
    ) -> None:
        super().__init__(settings, rank, workers, driver, all_reduce)
        self.workers = workers
        self.evaluator = workers - 1

    def _steps(
        self, processor: Processor, begin: BeginSum, counters: Callable[[], Counters], on_ready: Callable[[], None]
    ) -> Iterator[Step]:
        self._warm_up(processor)
        on_ready()
        replica = self.replica
        weights = replica.weights()
        replica.take(_given_back(begin, weights if self.rank == 0 else torch.zeros_like(weights), Operation.KEEP).tensor)
        begin(torch.zeros(1), Label("begin")).wait()  # all have the weights: those that had them first begin with the others
        before: _Evaluated | None = None
        version, begun = 0.0, self.driver.monotonic()
        for number in range(self.settings.steps):
            takes = self.pace.seconds(number)
            gradient = processor.submit(replica.gradient, number).result()  # comes after the evaluation of the step before
            if before:
                yield before.step()
            change = processor.submit(replica.change).result()
            computed, due = self.driver.monotonic(), begun + takes
            padded_sleep(due, self.driver)
            released = self.driver.monotonic()
            kept = _given_back(begin, change, Operation.CHANGE)
            replica.take(kept.tensor)
            update = kept.update
            if update and update.applied_at is None:
                replica.undo()
            retransmissions, rtt = self._counted(counters)
            before = _Evaluated(
                Step(
                    number=number, rank=self.rank, train_loss=gradient.loss, begun=begun, ended=kept.ended, busy=takes,
                    compute=gradient.took + computed - gradient.done, padding=due - computed, tat=kept.ended - released,
                    elements=self.elements, retransmissions=retransmissions, rtt=rtt, version=kept.version,
                    delay=update.delay if update else kept.version - version - 1, update=update,
                ),
                processor.submit(replica.evaluate) if self._evaluates(number) and self.rank == self.evaluator else None,
            )  # fmt: skip
            version, begun = kept.version, kept.ended
        if before:
            yield before.step()
        begin(torch.zeros(1), Label("end")).wait()  # all have pushed their last change
        for _ in range(PULLS):
            replica.take(_given_back(begin, weights, Operation.FETCH).tensor)
            if self._all_have_the_same(begin):
                break
        self._counted(counters)

    def _all_have_the_same(self, begin: BeginSum) -> bool:
        """Whether all workers' models are equal, by the first bits of their digests; all workers are told the same.

        A worker that has left has the same as the others, because it left when it had heard that, or is dead.
        """
        marks = torch.zeros(self.workers)  # each adds its own in its place, so the sum is exact
        own = marks[self.rank] = 1 + int(self.digest()[:5], 16)
        begin(marks, Label("digests")).wait()
        return bool((marks[marks > 0] == own).all())


@dataclass
class _Evaluated:
    """A step that is over, and what its evaluation will say."""

    measured: Step
    evaluation: Computing | None = None

    def step(self) -> Step:
        """Waits for the evaluation."""
        return replace(self.measured, **self.evaluation.result()) if self.evaluation else self.measured


def _given_back(begin: BeginSum, tensor: torch.Tensor, operation: Operation) -> Any:
    """The operation on the weights, once it is over (hosts.pending.PendingSum)."""
    pending = begin(tensor, WEIGHTS, operation)
    pending.wait()
    return pending
