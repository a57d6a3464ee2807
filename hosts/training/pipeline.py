"""When a step's layers compute and their sums begin, in virtual time (docs/explanation/training.md).

blocking        one sum of the whole gradient, when all of it is there
barrier         a layer's sum begins when its gradient is there, last layer first; the next step, when all sums are over.
                DistributedDataParallel does so
cross-barrier   likewise, and a layer's next forward pass waits for its own sum alone (ByteScheduler, SOSP '19; BytePS, OSDI '20)

asynchronous    no sums of gradients: a worker adds its change to the weights that the scheme keeps, and takes what they are then
                (hosts.training.asynchronous)

ddp, fsdp2, hsdp    PyTorch begins the collectives (hosts.training.parallel)

A worker computes one layer at a time: the forward pass front to back, the backward pass back to front. All times are in seconds
of one clock, all lists are by layer, front first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

BLOCKING, BARRIER, CROSS_BARRIER, ASYNCHRONOUS = "blocking", "barrier", "cross-barrier", "asynchronous"
LAYERED = (BARRIER, CROSS_BARRIER)  # with a sum for each layer
DDP, FSDP2, HSDP = "ddp", "fsdp2", "hsdp"
OF_TORCH = (DDP, FSDP2, HSDP)  # which begins the collectives
UNBOUNDED = (ASYNCHRONOUS, *OF_TORCH)  # without a bound: no scheme decides when their sums begin, or what shares their links
PIPELINES = (BLOCKING, *LAYERED, ASYNCHRONOUS, *OF_TORCH)


@dataclass(frozen=True)
class Pass:
    """When each layer's forward pass of a step begins and ends, and when its backward pass ends."""

    begins: list[float]
    forward: list[float]
    backward: list[float]

    @property
    def busy(self) -> float:
        """Seconds of computation."""
        forward = sum(end - begin for begin, end in zip(self.begins, self.forward, strict=True))
        return forward + self.ended - self.forward[-1]

    def delayed(self, seconds: float) -> Pass:
        """The same with gradients that are there so much later."""
        return replace(self, backward=[end + seconds for end in self.backward])

    @property
    def begun(self) -> float:
        """When the step begins."""
        return self.begins[0]

    @property
    def first_release(self) -> float:
        """When the first gradient is there, the last layer's."""
        return self.backward[-1]

    @property
    def ended(self) -> float:
        """When the last gradient is there, the first layer's, and the worker could begin another step."""
        return self.backward[0]


def scheduled(free: float, ready: Sequence[float], forward: Sequence[float], backward: Sequence[float]) -> Pass:
    """A step of a worker that is `free` from then on, whose layers have their parameters when they are `ready`.

    `forward` and `backward` are how long the layers compute.
    """
    begins, ends, at = [], [], free
    for layer_ready, takes in zip(ready, forward, strict=True):
        begins.append(max(at, layer_ready))
        at = begins[-1] + takes
        ends.append(at)
    gradients = list(accumulate(reversed(backward), initial=at))[1:]
    return Pass(begins, ends, gradients[::-1])


def ready(pipeline: str, summed: Sequence[float]) -> list[float]:
    """When each layer's next forward pass may begin, by when the layers' sums were over."""
    return list(summed) if pipeline == CROSS_BARRIER else [max(summed)] * len(summed)
