"""Dense copies of strided tensors, and of views that negate or conjugate: Gloo reads and writes memory as if the elements lay there
as they look, one behind the other."""

from __future__ import annotations

from typing import Any

import torch


def dense_ones(given: Any) -> tuple[Any, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Tensors, in lists or alone, with a copy in place of each that is not dense; and those, each with its copy."""
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def dense(one: Any) -> Any:
        if isinstance(one, list | tuple):
            return type(one)(map(dense, one))
        if one.layout != torch.strided or (one.is_contiguous() and not one.is_neg() and not one.is_conj()):
            return one
        copies.append((one, one.detach().resolve_conj().resolve_neg().contiguous()))
        return copies[-1][1]

    return dense(given), copies


def flat(given: Any) -> list[torch.Tensor]:
    """Tensors of lists, or one alone."""
    return [tensor for one in given for tensor in flat(one)] if isinstance(given, list | tuple) else [given]
