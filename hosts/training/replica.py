"""A worker's replica of a model: its gradients, and the updates that follow from their sums."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from inalab.hosts.drivers.driver import Driver
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.sampling import Sample, Sampling
from inalab.hosts.training.exchange import Exchange
from inalab.hosts.training.layers import Layer, layers_of, whole
from inalab.hosts.training.pipeline import BLOCKING, LAYERED, OF_TORCH
from inalab.hosts.training.workloads import find
from inalab.hosts.weights import flat, put

MOMENTUM = 0.9


def preload(workload: str, pipeline: str = BLOCKING) -> None:
    """Load what a pipeline needs to train a workload now, libraries and data, so that processes forked later share them.

    No backward pass: autograd must not have run before a fork. And one thread: torch would wait for ever, in a forked process, for
    the other threads of the process that it was forked from.
    """
    torch.set_num_threads(1)
    found = find(workload)
    found.data()
    if pipeline in (*LAYERED, *OF_TORCH):
        layers_of(found, found.model())
    if pipeline in OF_TORCH:
        importlib.import_module("inalab.hosts.training.parallel")
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1, momentum=MOMENTUM).step()  # the first optimizer of a process imports a lot


@dataclass(frozen=True)
class Gradient:
    """What a step computed: the gradients of the layers, flat, and the loss; how long that took, and when it was done."""

    layers: list[torch.Tensor]
    loss: float
    took: float
    done: float  # by the driver's clock
    sample: Sample | None = None


class Replica:
    """A model and a worker's share of the data. All replicas start equal and stay so. One thread computes.

    A layer's parameters are updated when a forward pass comes to it, once the sum of its gradients is there.
    """

    def __init__(
        self, workload: str, seed: int, rank: int, workers: int, layered: bool = False, batch: int | None = None,
        rate: float | None = None, momentum: float = MOMENTUM, driver: Driver = SOCKETS,
    ) -> None:  # fmt: skip
        self.driver = driver
        torch.manual_seed(seed)
        self.seed, self.rank, self.workers = seed, rank, workers
        self.workload = find(workload)
        self.data = self.workload.data()
        self.model = self.workload.model()
        self.batch = batch or self.workload.batch
        self.layers: list[Layer] = layers_of(self.workload, self.model) if layered else whole(self.model)
        self.parameters = [p for layer in self.layers for p in layer.parameters]
        rate = rate if rate is not None else self.workload.learning_rate
        self.optimizers = [torch.optim.SGD(layer.parameters, lr=rate, momentum=momentum) for layer in self.layers]
        self.sums: list[Exchange | None] = [None] * len(self.layers)  # that the layers' updates wait for
        self.waited = 0.0  # seconds, for sums, since a step began
        self.velocity: list[torch.Tensor | None] = []  # before the last change
        self.sampling: Sampling | None = None  # of the gradients
        for number, layer in enumerate(self.layers):
            layer.module.register_forward_pre_hook(lambda module, given, number=number: self._update(number))

    def gradient(self, step: int) -> Gradient:
        """Of this worker's batch in a step, with the parameters after the step before; raises what went wrong with its sums."""
        begun, self.waited = self.driver.monotonic(), 0.0
        loss = self.loss(self.model, step)
        self.model.zero_grad()
        torch.autograd.backward(loss)
        found = [_flat([p.grad.reshape(-1) for p in layer.parameters if p.grad is not None]) for layer in self.layers]
        sample = self.sampling.before(step, found) if self.sampling else None
        done = self.driver.monotonic()
        return Gradient(found, float(loss.detach()), done - begun - self.waited, done, sample)

    def loss(self, model: torch.nn.Module, step: int) -> torch.Tensor:
        """A model's, of this worker's batch in a step."""
        rng = np.random.default_rng([self.seed, self.rank, step, 1])
        x, y = self.workload.sample(self.data, self.batch, rng)
        return self.workload.loss(model, x, y)

    def follow(self, exchange: Exchange) -> None:
        """Let the next step take these sums of all layers."""
        self.sums = [exchange] * len(self.layers)

    def update(self) -> None:
        """Wait for all sums that were not taken yet, and take them."""
        for number in range(len(self.layers)):
            self._update(number)

    def weights(self) -> torch.Tensor:
        """All parameters, (elements,)."""
        return flat(self.parameters)

    def change(self) -> torch.Tensor:
        """What the optimizer makes of the weights with the last gradient, less the weights, over the number of workers."""
        before, self.velocity = self.weights(), self._velocity()
        for optimizer in self.optimizers:
            optimizer.step()
        return (self.weights() - before) / self.workers

    def undo(self) -> None:
        """Let the optimizers forget the last change, which was dropped."""
        self._go_on_with(self.velocity)

    def _velocity(self) -> list[torch.Tensor | None]:
        """A copy of each parameter's momentum; None before its first step."""
        found = [optimizer.state[p].get("momentum_buffer") for optimizer, p in self._optimized()]
        return [None if velocity is None else velocity.clone() for velocity in found]

    def _go_on_with(self, velocity: list[torch.Tensor | None]) -> None:
        """Likewise, in the optimizers."""
        for (optimizer, p), own in zip(self._optimized(), velocity, strict=True):
            optimizer.state[p]["momentum_buffer"] = own

    def _optimized(self) -> Iterator[tuple[torch.optim.Optimizer, torch.nn.Parameter]]:
        """Each parameter with its optimizer."""
        for optimizer, layer in zip(self.optimizers, self.layers, strict=True):
            for p in layer.parameters:
                yield optimizer, p

    def take(self, weights: torch.Tensor) -> None:
        """Go on with these, (elements,)."""
        put(self.parameters, weights)

    def apply(self, total: torch.Tensor, workers: int) -> None:
        """Take this sum of so many workers' gradients, (elements,), where no sum is under way."""
        for number, own in enumerate(torch.split(total, [layer.elements for layer in self.layers])):
            self._step(number, own / workers)

    def drop(self) -> None:
        """Take none of the sums that are under way."""
        self.sums = [None] * len(self.layers)

    def state(self) -> torch.Tensor:
        """All that training goes on from, as int32: parameters, the optimizers' momenta, and torch's random state."""
        kept = self._velocity()
        begun = torch.tensor([int(all(m is not None for m in kept))], dtype=torch.int32)
        momenta = [torch.zeros_like(p) if m is None else m for p, m in zip(self.parameters, kept, strict=True)]
        floats = torch.cat([t.detach().reshape(-1) for t in [*self.parameters, *momenta]])
        return torch.cat([begun, floats.view(torch.int32), _padded(torch.get_rng_state())])

    def restore(self, state: torch.Tensor) -> None:
        """Go on from what another replica's `state` was."""
        self.drop()
        elements = sum(p.numel() for p in self.parameters)
        floats = state[1 : 1 + 2 * elements].view(torch.float32)
        self.take(floats[:elements])
        momenta = torch.split(floats[elements:], [p.numel() for p in self.parameters])
        self._go_on_with([own.view_as(p).clone() if state[0] else None for p, own in zip(self.parameters, momenta, strict=True)])
        torch.set_rng_state(state[1 + 2 * elements :].view(torch.uint8)[: len(torch.get_rng_state())].clone())

    def evaluate(self) -> dict[str, float]:
        """test_loss and accuracy after the last step, where the workload has them."""
        return self.workload.evaluate(self.model, self.data)

    def _update(self, number: int) -> None:
        exchange, self.sums[number] = self.sums[number], None
        if exchange is None:
            return
        begun = self.driver.monotonic()
        with torch.enable_grad():  # in virtual time other workers go on meanwhile, in this thread
            exchange.wait(number)
        self.waited += self.driver.monotonic() - begun
        self._step(number, exchange.tensors[number] / self.workers)

    def _step(self, number: int, mean: torch.Tensor) -> None:
        """Update a layer with the mean of its gradients, (elements,)."""
        offset = 0
        for p in self.layers[number].parameters:
            p.grad = mean[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        self.optimizers[number].step()

    def digest(self) -> str:
        """SHA-256 over all parameters: equal models have equal digests."""
        return digest_of(self.parameters)


def digest_of(parameters: Iterable[torch.Tensor]) -> str:
    """SHA-256 over these, one after another."""
    everything = hashlib.sha256()
    for p in parameters:
        everything.update(p.detach().numpy().tobytes())
    return everything.hexdigest()


def _padded(octets: torch.Tensor) -> torch.Tensor:
    """As int32, filled up with zeros."""
    return torch.cat([octets, octets.new_zeros(-len(octets) % 4)]).view(torch.int32)


def _flat(gradients: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(gradients) if len(gradients) > 1 else gradients[0]
