"""The sums of a step's gradients, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inalab.hosts.collective import Label
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.training.layers import Layer

BeginSum = Callable[..., Any]  # hosts.torch_backend.InaProcessGroup.sum


class Exchange:
    """Sums under way, one a layer. The nearer a layer is to the front, the sooner its parameters are needed: the more urgent it is.

    Two threads may wait: one that keeps the time, and one that computes.
    """

    def __init__(self, begin: BeginSum, layers: list[Layer], driver: Driver = SOCKETS) -> None:
        self.begin, self.layers, self.driver = begin, layers, driver
        self.tensors: dict[int, torch.Tensor] = {}  # by number of the layer: gradients, which become the sums
        self.works: dict[int, Any] = {}
        self.released: dict[int, float] = {}  # by the driver's clock, when each was given to be summed

    def release(self, number: int, gradient: torch.Tensor) -> None:
        """A layer's gradient is there: begin to sum it."""
        self.tensors[number], self.released[number] = gradient, self.driver.monotonic()
        self.works[number] = self.begin(gradient, Label(self.layers[number].name, number))

    def wait(self, number: int) -> float:
        """Wait until a layer's sum is over; when it was. What does not tell is taken to be over when the wait is."""
        work = self.works[number]
        work.wait()
        return float(getattr(work, "ended", 0.0)) or self.driver.monotonic()
