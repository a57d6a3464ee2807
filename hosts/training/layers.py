"""A model's layers, front first, and how long each computes: a step's virtual compute time in parts.

A layer is a module with parameters of its own. Its share of the time is that of its multiply-adds in a forward pass, and a third
of a layer's time is its forward pass (two products of matrices in the backward pass for one in the forward pass).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from inalab.hosts.training.workloads import Workload

FORWARD = 1 / 3  # of a layer's compute time


@dataclass(frozen=True)
class Layer:
    """`share` of a step's compute time, of all layers together 1."""

    name: str
    module: nn.Module  # whose forward pass needs the parameters
    parameters: tuple[nn.Parameter, ...]
    share: float

    @property
    def elements(self) -> int:
        """Of its gradient."""
        return sum(p.numel() for p in self.parameters)


def whole(model: nn.Module) -> list[Layer]:
    """The model as one layer."""
    return [Layer("model", model, _trainable(model.parameters()), 1.0)]


def layers_of(workload: Workload, model: nn.Module) -> list[Layer]:
    """The layers of a workload's model in the order in which it declares them, which has to be that of its forward pass.

    Their shares are as the workload's weights, or as their multiply-adds.
    """
    modules = {name: module for name, module in model.named_modules() if _trainable(module.parameters(recurse=False))}
    weights = workload.weights or multiply_adds(model, workload.sample(workload.data(), 1, np.random.default_rng(0))[0], modules)
    total = sum(weights)
    return [
        Layer(name or "model", module, _trainable(module.parameters(recurse=False)), weight / total)
        for (name, module), weight in zip(modules.items(), weights, strict=True)
    ]


def outline(workload: Workload, layered: bool) -> list[tuple[int, float]]:
    """Elements and share of each of a model's layers, or of the whole; what is only aggregated is not put into memory for it."""
    with torch.device("meta" if workload.weights or not layered else "cpu"):
        model = workload.model()
    return [(layer.elements, layer.share) for layer in (layers_of(workload, model) if layered else whole(model))]


def multiply_adds(model: nn.Module, x: torch.Tensor, names: Iterable[str]) -> list[float]:
    """Of these modules in a forward pass of a batch x; the same for all where none can be counted."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(x)
    counts, top = counter.get_flop_counts(), type(model).__name__
    found = [sum(counts.get(f"{top}.{name}" if name else top, {}).values()) / 2 for name in names]
    return found if any(found) else [1.0] * len(found)


def _trainable(parameters: Iterable[nn.Parameter]) -> tuple[nn.Parameter, ...]:
    return tuple(p for p in parameters if p.requires_grad)
