"""Training as PyTorch splits it, which begins the collectives of a step: pipelines ddp, fsdp2 and hsdp.

ddp      DistributedDataParallel: buckets of gradients are summed while the backward pass goes on
fsdp2    fully_shard: every worker keeps a part of each layer. A layer's parameters are gathered before each of its passes, and its
         gradients' sum is scattered afterwards
hsdp     fully_shard over a mesh: a layer is in parts within each rack, and the racks' sums of a part are summed

A layer's virtual time passes where its parameters are there and its real computation would begin. What this thread has computed
since, and how long it has waited for a processor, counts as part of the next layer's. So a wait for a collective is never taken for
computing, and workers that share processors are not slower for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which DistributedDataParallel loads when it is first used: a second for each worker
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from inalab.hosts.collective import Counters
from inalab.hosts.drivers.driver import Processor
from inalab.hosts.messages import Step
from inalab.hosts.training.exchange import BeginSum
from inalab.hosts.training.layers import Layer
from inalab.hosts.training.pace import padded_sleep
from inalab.hosts.training.pipeline import DDP, HSDP
from inalab.hosts.training.replica import digest_of
from inalab.hosts.training.trainer import Trainer

BUCKETS = 4  # of a model's gradients, at most: a model here is smaller than one bucket of DistributedDataParallel's own size


class ParallelTrainer(Trainer):
    """A worker's training with a model that PyTorch has wrapped. It runs when torch.distributed's group of all workers is there.
    The sums of a step are over when its backward pass is."""

    model: nn.Module  # as it is wrapped
    plain: nn.Module  # a whole copy of it, as it was when it was last evaluated
    optimizer: torch.optim.Optimizer
    takes = 0.0  # the step's virtual time
    computed = 0.0  # seconds of it that were really computed
    left = 0.0  # seconds that still have to pass for what was computed; negative where that took longer
    mark = 0.0  # what this thread has computed, in seconds, as far as it is accounted for
    first_gradient = 0.0  # when it was there

    def _steps(
        self, processor: Processor, begin: BeginSum, counters: Callable[[], Counters], on_ready: Callable[[], None]
    ) -> Iterator[Step]:
        self._warm_up(processor)
        processor.submit(self._wrap).result()
        processor.submit(self._pace).result()
        on_ready()
        for number in range(self.settings.steps):
            yield processor.submit(self._step, number, counters).result()

    def digest(self) -> str:
        """SHA-256 over all parameters after the last step."""
        return digest_of(self.plain.parameters())

    def _wrap(self) -> None:
        model, s = self.replica.model, self.settings
        model.zero_grad()
        self.model, self.plain = model, deepcopy(model)
        if s.pipeline == DDP:
            size = 4 * self.elements / BUCKETS / 2**20
            self.model = DistributedDataParallel(model, init_sync=False, bucket_cap_mb=size)
        else:
            shape, names = (s.racks, self.replica.workers // s.racks), ("replicate", "shard")
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=names) if s.pipeline == HSDP else None
            for layer in self.layers:
                fully_shard(layer.module, mesh=mesh)
            fully_shard(model, mesh=mesh)
        rate = s.learning_rate if s.learning_rate is not None else self.replica.workload.learning_rate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=s.momentum)

    def _pace(self) -> None:
        """Let layers take their time from now on. The first passes and updates are slow: they come before, and change nothing."""
        for _ in range(2):
            self.replica.loss(self.model, 0).backward()  # type: ignore[no-untyped-call]
            for p in self.replica.model.parameters():
                if p.grad is not None:
                    p.grad.zero_()
            self.optimizer.step()
        for layer in self.layers:  # after PyTorch's hooks, which wait for parameters
            layer.module.register_forward_pre_hook(partial(self._before_forward, layer))
            layer.module.register_forward_hook(partial(self._after_forward, layer))

    def _step(self, number: int, counters: Callable[[], Counters]) -> Step:
        self.takes, self.computed, self.first_gradient = self.pace.seconds(number), 0.0, 0.0
        if not number:
            self.mark = _computed()
        begun = self.driver.monotonic()
        self.optimizer.zero_grad()
        loss = self.replica.loss(self.model, number)
        loss.backward()  # type: ignore[no-untyped-call]
        ended = self.driver.monotonic()
        self.optimizer.step()
        retransmissions, rtt = self._counted(counters)
        return Step(
            number=number, rank=self.rank, train_loss=float(loss.detach()), begun=begun, ended=ended, busy=self.takes,
            compute=self.computed, padding=self.takes - self.computed, tat=ended - self.first_gradient, elements=self.elements,
            retransmissions=retransmissions, rtt=rtt, **self._evaluated(number),
        )  # fmt: skip

    def _evaluated(self, number: int) -> dict[str, Any]:
        """What the first worker finds, if a step is evaluated. All gather the model for it together; this is part of no step."""
        if not self._evaluates(number):
            return {}
        before = _computed()
        with torch.no_grad():
            for whole, p in zip(self.plain.parameters(), self.replica.model.parameters(), strict=True):
                whole.copy_(p.full_tensor() if isinstance(p, DTensor) else p)
        found = self.replica.workload.evaluate(self.plain, self.replica.data) if self.rank == 0 else {}
        dist.barrier()
        self.mark += _computed() - before
        return found

    # --- a layer's virtual time

    def _before_forward(self, layer: Layer, module: nn.Module, given: Any) -> None:
        if torch.is_grad_enabled():
            self._compute(self.settings.forward * layer.share)

    def _after_forward(self, layer: Layer, module: nn.Module, given: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if first.requires_grad:
            first.register_hook(lambda gradient: self._before_backward(layer))

    def _before_backward(self, layer: Layer) -> None:
        self._compute((1 - self.settings.forward) * layer.share)
        self.first_gradient = self.first_gradient or self.driver.monotonic()

    def _compute(self, share: float) -> None:
        """Let this share of the step's time pass, less what was really computed since the last one."""
        now = _computed()
        self.computed += now - self.mark
        self.left += share * self.takes - (now - self.mark)
        if self.left > 0:
            padded_sleep(self.driver.monotonic() + self.left, self.driver)
            self.left = 0.0
        self.mark = _computed()


def _computed() -> float:
    """Seconds that this thread has computed, or could have, had there been a processor (proc(5))."""
    waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return time.thread_time() + waited / 1e9
