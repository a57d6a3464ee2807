"""The page of what carries a script's collectives, as the backend decides it."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import torch
import torch.distributed as dist

from inalab.hosts.collective import Operation
from inalab.hosts.combined import MOST_BYTES, combination
from inalab.hosts.gloo_group import GlooGroup
from inalab.hosts.reductions import reduction
from inalab.schemes import registry

NOTE = "<!-- Written by `make docs` from the code. -->\n"
DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.int64,
)  # fmt: skip
OPERATIONS = {
    "SUM": dist.ReduceOp.SUM, "AVG": dist.ReduceOp.AVG,
    "PREMUL_SUM": dist._make_nccl_premul_sum(0.5),  # type: ignore[attr-defined]
    "MIN, MAX, PRODUCT, BAND, BOR, BXOR": dist.ReduceOp.MAX,
}  # fmt: skip
WIDTH = 130
COPIES = ("broadcast", "all_gather", "all_gather_into_tensor")
SUMS = ("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter_tensor", "reduce_scatter")  # which the table is about


def page() -> str:
    """The table of sums, and the names of all other collectives."""
    rows = [f"| `{name(dtype)}` | {' | '.join(carrier(dtype, op) for op in OPERATIONS.values())} |" for dtype in DTYPES]
    sums, others = (
        ", ".join(f"`{one}`" for one in collectives() if one not in COPIES and (one in SUMS) == own) for own in (True, False)
    )
    more = ", ".join(registry.having(Operation.GATHER))
    first = f"What carries {sums} of tensors on the CPU, dense or strided:"
    every = (
        f"The scheme carries the calls of the first group of all workers. With {more} it carries those of every group, as long as "
        f"the switches have room, and {', '.join(f'`{one}`' for one in COPIES)} of dense or strided tensors of any dtype."
    )
    small = (
        f"\\* With {more}, an `all_reduce` of up to {MOST_BYTES} bytes goes over the switches: every worker receives the tensors "
        "of all, and combines them, floats in the order of ranks. Bitwise operations are for integers."
    )
    last = f"Gloo carries {others}, sums of sparse tensors, and all that no scheme has. It refuses what it does not have, such as "
    return f"""{NOTE}
# Collectives of PyTorch scripts

{textwrap.fill(first, WIDTH)}

| dtype | {" | ".join(OPERATIONS)} |
|---|{"---|" * len(OPERATIONS)}
{chr(10).join(rows)}

{textwrap.fill(small, WIDTH)}

{textwrap.fill(every, WIDTH)}

{textwrap.fill(last + "sums of `int16`.", WIDTH)}
"""


def carrier(dtype: torch.dtype, op: Any) -> str:
    """Of an all-reduce, and as what it is summed."""
    tensor = torch.ones(20, dtype=dtype)
    how = reduction(tensor, op, 4)
    if how is not None:
        return f"the scheme, as {name(how.values(tensor).dtype)}"
    return "Gloo" if combination(torch.ones(1, dtype=dtype), op) is None else "Gloo \\*"


def name(dtype: torch.dtype) -> str:
    """Without the package's."""
    return str(dtype).removeprefix("torch.")


def collectives() -> list[str]:
    """The functions of torch.distributed that the group's methods say they are for."""
    told = [re.match(r"See torch\.distributed\.(\w+)", method.__doc__ or "") for method in vars(GlooGroup).values()]
    return list(dict.fromkeys(found[1] for found in told if found))
