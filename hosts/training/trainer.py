"""Data-parallel training: a worker's steps in virtual time, and a record of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from inalab.hosts.collective import Counters
from inalab.hosts.drivers.driver import Computing, Driver, Processor
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.messages import Step
from inalab.hosts.sampling import Sample, Sampling
from inalab.hosts.training.exchange import BeginSum, Exchange
from inalab.hosts.training.layers import FORWARD
from inalab.hosts.training.pace import Pace, padded_sleep
from inalab.hosts.training.pipeline import BLOCKING, LAYERED, OF_TORCH, Pass, ready, scheduled
from inalab.hosts.training.replica import MOMENTUM, Replica
from inalab.hosts.training.stragglers import Slowing, Slowness, Straggler

AllReduce = Callable[[torch.Tensor], object]


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
    pipeline: str = BLOCKING
    forward: float = FORWARD  # share of a layer's compute time
    momentum: float = MOMENTUM
    racks: int = 1  # between which models are whole, in pipeline hsdp
    slowings: tuple[Slowing, ...] = ()


@dataclass
class _Step:
    """A step whose sums are under way."""

    number: int
    plan: Pass
    loss: float
    took: float  # seconds of real computation
    padding: float
    exchange: Exchange
    own: torch.Tensor | None  # the gradient, where its error is measured
    sample: Sample | None
    evaluation: Computing | None


class Trainer:
    """A worker's training. A step's real gradient is computed at once, on a thread of its own; its layers are given to be summed at
    their virtual times, as a pipeline has it (hosts.training.pipeline)."""

    def __init__(
        self, settings: TrainingSettings, rank: int, workers: int, driver: Driver = SOCKETS, all_reduce: AllReduce = dist.all_reduce
    ) -> None:
        """`all_reduce` puts the sum over all workers in a tensor's place, in float64."""
        torch.set_num_threads(1)
        self.settings, self.rank, self.driver, self.all_reduce = settings, rank, driver, all_reduce
        self.pace = Pace(settings.compute_ms, settings.seed, rank, settings.straggler, driver)
        layered = settings.pipeline in (*LAYERED, *OF_TORCH)
        s = settings
        self.replica = Replica(s.workload, s.seed, rank, workers, layered, s.batch, s.learning_rate, s.momentum, driver)
        self.layers = self.replica.layers
        self.elements = sum(layer.elements for layer in self.layers)
        self.replica.sampling = Sampling(s.seed, s.steps, self.elements)
        self.evaluator = 0  # the worker who evaluates the model for all
        self.slowness, self.began = Slowness(s.slowings, rank), 0.0  # when the training did
        self.waited, self.results = 0.0, 0  # what the counters said after the step before
        self.counted = Counters()  # what they said when the last sums were over
        self.computing: Computing | None = None  # the last gradient

    def run(
        self, begin: BeginSum, counters: Callable[[], Counters] = Counters, on_ready: Callable[[], None] = lambda: None
    ) -> Iterator[Step]:
        """Train; yields what each step was. Some steps have a sample (hosts.sampling), evaluated ones an error if requested."""
        with self.driver.processor() as processor:
            processor.submit(torch.set_num_threads, 1).result()  # each thread has its own number
            yield from self._steps(processor, begin, counters, on_ready)

    def digest(self) -> str:
        """SHA-256 over all parameters: equal models have equal digests."""
        return self.replica.digest()

    def _steps(
        self, processor: Processor, begin: BeginSum, counters: Callable[[], Counters], on_ready: Callable[[], None]
    ) -> Iterator[Step]:
        self._warm_up(processor)
        on_ready()
        self.began = self.driver.monotonic()
        yield from self._steps_from(0, processor, begin, counters)

    def _steps_from(self, first: int, processor: Processor, begin: BeginSum, counters: Callable[[], Counters]) -> Iterator[Step]:
        """The steps from this number on. A step's gradient is computed while the sums of the one before may be under way."""
        free = self.driver.monotonic()
        due = [free] * len(self.layers)
        before: _Step | None = None
        for number in range(first, self.settings.steps):
            computing = self.computing = processor.submit(self.replica.gradient, number)
            if before is not None:
                summed, ended = self._concluded(before, counters)
                yield ended
                due = ready(self.settings.pipeline, summed)
                free = self.driver.monotonic() if before.own is not None else before.plan.ended
            plan = self._plan(number, free, due)
            gradient = computing.result()
            own = torch.cat(gradient.layers) if self._evaluates(number) and self.settings.measure_error else None
            exchange = Exchange(begin, self.layers, self.driver)
            padding = plan.first_release - gradient.done
            plan = plan.delayed(max(0.0, -padding))
            for layer in reversed(range(len(self.layers))):
                self._sleep(plan.backward[layer])
                exchange.release(layer, gradient.layers[layer])
            self.replica.follow(exchange)
            evaluation = (
                processor.submit(self.replica.evaluate) if self._evaluates(number) and self.rank == self.evaluator else None
            )
            before = _Step(number, plan, gradient.loss, gradient.took, padding, exchange, own, gradient.sample, evaluation)
        if before is not None:
            yield self._concluded(before, counters)[1]
        processor.submit(self.replica.update).result()

    def _sleep(self, until: float) -> None:
        """Until a layer's gradient is due."""
        padded_sleep(until, self.driver)

    def _warm_up(self, processor: Processor) -> None:
        """The first passes of a process are slow: let them happen before the clock runs."""
        processor.submit(self.replica.gradient, 0).result()
        processor.submit(self.replica.evaluate).result()

    def _counted(self, counters: Callable[[], Counters]) -> tuple[int, float]:
        """The retransmissions so far, and the mean round trip since the step before."""
        counted = self.counted = counters()
        waited, results = counted.waited - self.waited, counted.results - self.results
        self.waited, self.results = counted.waited, counted.results
        return counted.retransmissions, waited / max(results, 1)

    def _evaluates(self, number: int) -> bool:
        return (number + 1) % self.settings.evaluate_every == 0 or number + 1 == self.settings.steps

    def _plan(self, number: int, free: float, due: list[float]) -> Pass:
        """When a step's layers compute, in virtual time."""
        takes, forward = self.pace.seconds(number) * self.slowness.factor(number, free - self.began), self.settings.forward
        shares = [layer.share for layer in self.layers]
        return scheduled(free, due, [forward * takes * s for s in shares], [(1 - forward) * takes * s for s in shares])

    def _concluded(self, step: _Step, counters: Callable[[], Counters]) -> tuple[list[float], Step]:
        """When the layers' sums were over, and what the step was."""
        plan, exchange = step.plan, step.exchange
        # front to back, as the next step needs them: no wait ends later than the virtual time that depends on it
        summed = [exchange.wait(layer) for layer in range(len(self.layers))]
        first = exchange.released[len(self.layers) - 1]
        layers = None
        if len(self.layers) > 1:
            released = [exchange.released[layer] for layer in range(len(self.layers))]
            layers = [list(times) for times in zip(plan.begins, plan.forward, released, summed, strict=True)]
        sums = [exchange.tensors[layer] for layer in range(len(self.layers))]
        retransmissions, rtt = self._counted(counters)
        return summed, Step(
            number=step.number, rank=self.rank, train_loss=step.loss, begun=plan.begun, ended=max(summed), busy=plan.busy,
            compute=step.took, padding=step.padding, tat=max(summed) - first, elements=self.elements,
            retransmissions=retransmissions, rtt=rtt, layers=layers,
            error=None if step.own is None else self._relative_error(step.own, torch.cat(sums)),
            sample=None if step.sample is None else step.sample.of_sum(sums),
            **(step.evaluation.result() if step.evaluation is not None else {}),
        )  # fmt: skip

    def _relative_error(self, gradient: torch.Tensor, total: torch.Tensor) -> float:
        """The distance of `total` from the sum of all workers' gradients in float64, relative to that sum's norm."""
        exact = gradient.double()
        self.all_reduce(exact)
        return float((total.double() - exact).norm() / exact.norm().clamp_min(1e-300))
