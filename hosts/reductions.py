"""What all-reduces of scripts become: a sum of float32 or int32 over all workers, which every scheme has, and what is done with it.

Floats of 16 bits are summed as float32, and the sum is rounded to them. Integers of up to 32 bits are summed as int32 and wrap, as
they do in torch. A few floats are summed without any error (hosts.exact). AVG divides the sum; PREMUL_SUM multiplies what each
worker gives. All workers have the same sum and do the same with it, so their results have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from inalab.hosts import exact
from inalab.hosts.collective import Call

FEW = 16  # floats of a script's call, up to which they are summed without any error: one packet of 256 integers
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int16, torch.int8, torch.uint8)
SUMMED = FLOATS + INTEGERS
OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PREMUL_SUM)


@dataclass(frozen=True)
class Reduction:
    """What is done beside summing a tensor: each worker's is multiplied by `factor` before, and the sum divided by `divisor`.

    `exactly`: floats are summed without any error.
    """

    factor: Any = None
    divisor: int = 1
    exactly: bool = False

    @property
    def call(self) -> Call:
        """For an all-reduce."""
        return Call.SCALED_SUM if self.factor is not None else Call.AVERAGE if self.divisor > 1 else Call.ALL_REDUCE

    @property
    def scattered(self) -> Call:
        """For a reduce-scatter."""
        return Call(self.call.value + Call.REDUCE_SCATTER.value)

    @property
    def reduced(self) -> Call:
        """For a reduce, to one worker."""
        return Call(self.call.value + Call.REDUCE.value)

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a worker gives, as float32 or int32, contiguous; the tensor itself where that is the same."""
        values = tensor.detach().resolve_neg().to(torch.float32 if tensor.dtype in FLOATS else torch.int32)
        return (values if self.factor is None else values * self.factor).contiguous()

    def given(self, values: torch.Tensor) -> NDArray[Any]:
        """What is summed for these."""
        return exact.spread(lent(values).reshape(-1)).reshape(-1) if self.exactly else lent(values)

    def total(self, total: NDArray[Any], tensor: torch.Tensor) -> torch.Tensor:
        """The sum of what was given, in the tensor's shape."""
        found = torch.from_numpy(exact.summed(total) if self.exactly else total).view(tensor.shape)
        return found if self.divisor == 1 else found / self.divisor


PLAIN = Reduction()


def reduction(tensor: torch.Tensor, op: Any, workers: int) -> Reduction | None:
    """How the scheme carries an all-reduce by this operation; None where Gloo has to.

    Averages of integers are Gloo's to refuse.
    """
    if tensor.dtype not in SUMMED or tensor.layout != torch.strided or tensor.device.type != "cpu":
        return None
    exactly = tensor.dtype in FLOATS and 0 < tensor.numel() <= FEW
    if op == dist.ReduceOp.SUM:
        return Reduction(exactly=exactly)
    if tensor.dtype in FLOATS and op == dist.ReduceOp.AVG:
        return Reduction(divisor=workers, exactly=exactly)
    if tensor.dtype in FLOATS and op == dist.ReduceOp.PREMUL_SUM:
        factor = op.__getstate__()[1]
        if isinstance(factor, torch.Tensor):  # as it is now; scripts may change it while the sum is under way
            factor = None if factor.is_complex() else factor.detach().float().clone()
        return None if factor is None else Reduction(factor=factor, exactly=exactly)
    return None


class _Lender:
    """A tensor's memory for numpy, which keeps this, and so the tensor, for as long as it needs it.

    Tensor.numpy() would do, but makes the storage one that can never be resized again, as some scripts do with what was summed.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3, "shape": tuple(tensor.shape), "data": (tensor.data_ptr(), False),
            "typestr": np.dtype(str(tensor.dtype).removeprefix("torch.")).str,
        }  # fmt: skip


def lent(tensor: torch.Tensor) -> NDArray[Any]:
    """A contiguous tensor's memory."""
    return np.asarray(_Lender(tensor)) if tensor.numel() else tensor.clone().numpy()


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Write values of the same shape into a tensor, in its dtype; once where elements of an expanded one share a place."""
    for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor, values = tensor.narrow(dimension, 0, 1), values.narrow(dimension, 0, 1)
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():  # in this order: the former may switch gradients on
        tensor.copy_(values)
