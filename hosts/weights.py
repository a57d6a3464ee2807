"""A model's weights as one tensor, as schemes keep them, under one name."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from inalab.hosts.collective import Label

WEIGHTS = Label("weights")


def flat(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """All parameters, (elements,)."""
    return torch.cat([p.detach().reshape(-1) for p in parameters])


def put(parameters: Sequence[torch.Tensor], weights: torch.Tensor) -> None:
    """Copy these, (elements,), into the parameters."""
    with torch.no_grad():
        for p, own in zip(parameters, torch.split(weights, [p.numel() for p in parameters]), strict=True):
            p.copy_(own.view_as(p))
