"""Small all-reduces that no scheme sums: every worker has all workers' tensors, and combines them, in the order of ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import torch
import torch.distributed as dist

from inalab.hosts.copies import carried

MOST_BYTES = 256  # of a tensor, which each worker receives from every other one
Combine = Callable[[torch.Tensor], torch.Tensor]  # of tensors (workers, *shape)


def _folded(operation: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], every: torch.Tensor) -> torch.Tensor:
    return reduce(operation, every.unbind())


def _averaged(every: torch.Tensor) -> torch.Tensor:
    return _folded(torch.add, every) / len(every)


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
OF_NUMBERS: dict[object, Combine] = {
    dist.ReduceOp.SUM: partial(_folded, torch.add), dist.ReduceOp.PRODUCT: partial(_folded, torch.mul),
    dist.ReduceOp.MAX: partial(_folded, torch.maximum), dist.ReduceOp.MIN: partial(_folded, torch.minimum),
}  # fmt: skip
OF_BITS: dict[object, Combine] = {
    dist.ReduceOp.BAND: partial(_folded, torch.bitwise_and), dist.ReduceOp.BOR: partial(_folded, torch.bitwise_or),
    dist.ReduceOp.BXOR: partial(_folded, torch.bitwise_xor),
}  # fmt: skip


def kind(tensor: torch.Tensor, op: object) -> int:
    """A number of dtype and operation, by which workers notice that theirs differ."""
    operations = (dist.ReduceOp.AVG, *OF_NUMBERS, *OF_BITS)
    return 8 * DTYPES.index(tensor.dtype) + [op == one for one in operations].index(True)


def combination(tensor: torch.Tensor, op: object) -> Combine | None:
    """How a worker combines small tensors by this operation; None where it is not small, or the dtype does not have it."""
    if not carried(tensor) or tensor.nbytes > MOST_BYTES or tensor.dtype not in DTYPES:
        return None
    if op == dist.ReduceOp.AVG:
        return _averaged if tensor.is_floating_point() else None
    known = OF_NUMBERS if tensor.is_floating_point() else OF_NUMBERS | OF_BITS
    return next((combine for operation, combine in known.items() if op == operation), None)
