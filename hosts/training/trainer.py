"""Data-parallel training over torch.distributed's default group, with compute padded to a virtual time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hosts.collective import Counters
from hosts.training.pace import Pace, padded_sleep
from hosts.training.stragglers import Straggler
from hosts.training.workloads import find


@dataclass(frozen=True)
class TrainingSettings:
    """What one job trains. `compute_ms` is a step's virtual compute time, before a straggler's slow-down."""

    workload: str
    steps: int
    seed: int
    compute_ms: float
    evaluate_every: int
    straggler: Straggler
    batch: int | None = None
    learning_rate: float | None = None
    measure_error: bool = False


MOMENTUM = 0.9
NICENESS = 10  # of the threads that compute


def preload(workload: str) -> None:
    """Load a workload's libraries and data now, so that processes forked later share them.

    No backward pass: autograd must not have run before a fork.
    """
    find(workload).data()
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1, momentum=MOMENTUM).step()  # the first optimizer of a process imports a lot


def _give_way() -> None:
    """Let this thread compute while no packets are to be handled.

    Workers share the machine's processors, which the hosts that they stand for would not. Without this the workers that have their
    sum first would begin to compute, and hold up the others' last packets.
    """
    os.nice(NICENESS)  # in Linux of this thread alone
    torch.set_num_threads(1)


class Trainer:
    """One worker's replica of a model and its share of the work. All replicas start equal and stay so."""

    def __init__(self, settings: TrainingSettings, rank: int, size: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(settings.seed)
        self.settings, self.rank, self.size = settings, rank, size
        self.pace = Pace(settings.compute_ms, settings.seed, rank, settings.straggler)
        self.workload = find(settings.workload)
        self.data = self.workload.data()
        self.model = self.workload.model()
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.elements = sum(p.numel() for p in self.parameters)
        rate = settings.learning_rate if settings.learning_rate is not None else self.workload.learning_rate
        self.optimizer = torch.optim.SGD(self.parameters, lr=rate, momentum=MOMENTUM)
        self.batch = settings.batch or self.workload.batch

    def _gradient(self, step: int) -> tuple[torch.Tensor, float]:
        rng = np.random.default_rng([self.settings.seed, self.rank, step, 1])
        x, y = self.workload.sample(self.data, self.batch, rng)
        self.optimizer.zero_grad()
        loss = self.workload.loss(self.model, x, y)
        torch.autograd.backward(loss)
        gradients = [p.grad.reshape(-1) for p in self.parameters if p.grad is not None]
        return torch.cat(gradients) if len(gradients) > 1 else gradients[0], float(loss.detach())

    def _apply(self, total: torch.Tensor) -> None:
        mean = total.div_(self.size)
        offset = 0
        for p in self.parameters:
            p.grad = mean[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        self.optimizer.step()

    def run(
        self, counters: Callable[[], Counters] = Counters, on_ready: Callable[[], None] = lambda: None
    ) -> Iterator[dict[str, Any]]:
        """Train; yields a record a step. Times are in seconds, `begun` and `ended` are time.monotonic().

        compute: what the step really computed (gradient, and update and evaluation of the step before); padding: the
        sleep after it, negative if the virtual time was too short; tat: the all-reduce; rtt: the mean round trip of its
        packets, 0 where the scheme does not know. `error`, on evaluated steps where it is asked for: the distance of the
        sum from the one in float64, relative to that one's norm.
        """
        with ThreadPoolExecutor(1, "compute", _give_way) as processor:
            yield from self._steps(processor, counters, on_ready)

    def _steps(
        self, processor: ThreadPoolExecutor, counters: Callable[[], Counters], on_ready: Callable[[], None]
    ) -> Iterator[dict[str, Any]]:
        processor.submit(
            self._gradient, 0
        ).result()  # the first passes of a process are slow: let them happen before the clock runs
        processor.submit(self.workload.evaluate, self.model, self.data).result()
        on_ready()
        waited, results = 0.0, 0
        begun = time.monotonic()
        for step in range(self.settings.steps):
            gradient, loss = processor.submit(self._gradient, step).result()
            evaluated = (step + 1) % self.settings.evaluate_every == 0 or step + 1 == self.settings.steps
            own = gradient.clone() if evaluated and self.settings.measure_error else gradient
            computed = time.monotonic()
            due = self.pace.due(begun, step)
            padded_sleep(due)
            summing = time.monotonic()
            dist.all_reduce(gradient)
            ended = time.monotonic()
            counted = counters()
            record: dict[str, Any] = {
                "step": step, "rank": self.rank, "train_loss": loss, "begun": begun, "ended": ended,
                "compute": computed - begun, "padding": due - computed, "tat": ended - summing, "elements": self.elements,
                "retransmissions": counted.retransmissions,
                "rtt": (counted.waited - waited) / max(counted.results - results, 1),
            }  # fmt: skip
            waited, results = counted.waited, counted.results
            begun = ended
            if evaluated and self.settings.measure_error:
                record["error"] = _relative_error(own, gradient)
                begun = time.monotonic()
            processor.submit(self._apply, gradient).result()
            if evaluated and self.rank == 0:
                record |= processor.submit(self.workload.evaluate, self.model, self.data).result()
            yield record

    def digest(self) -> str:
        """SHA-256 over all parameters: equal models have equal digests."""
        whole = hashlib.sha256()
        for p in self.parameters:
            whole.update(p.detach().numpy().tobytes())
        return whole.hexdigest()


def _relative_error(gradient: torch.Tensor, total: torch.Tensor) -> float:
    """The distance of `total` from the sum of all workers' gradients in float64, relative to that sum's norm."""
    exact = gradient.double()
    dist.all_reduce(exact)
    return float((total.double() - exact).norm() / exact.norm().clamp_min(1e-300))
