"""Small all-reduces that every worker combines: every operation and dtype as torch has them, and nothing that is not one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed import ReduceOp

from inalab.hosts.combined import DTYPES, FLOATS, MOST_BYTES, combination, kind

BIG = 2**62
EVERY = torch.tensor([[3, -5, BIG], [7, 2, BIG], [-4, 2, BIG]])  # of three workers
WANTED = {
    ReduceOp.SUM: [6, -1, 3 * BIG - 2**64], ReduceOp.PRODUCT: [-84, -20, 0], ReduceOp.MAX: [7, 2, BIG], ReduceOp.MIN: [-4, -5, BIG],
    ReduceOp.BAND: [3 & 7 & -4, -5 & 2 & 2, BIG], ReduceOp.BOR: [3 | 7 | -4, -5 | 2 | 2, BIG], ReduceOp.BXOR: [3 ^ 7 ^ -4, -5 ^ 2 ^ 2, BIG],
}  # fmt: skip


@pytest.mark.parametrize("op", WANTED)
def test_integers_wrap_as_torchs_do(op: Any) -> None:
    combine = combination(EVERY[0], op)
    assert combine and combine(EVERY).tolist() == WANTED[op]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_combined_in_their_own_dtype(dtype: torch.dtype) -> None:
    every = torch.tensor([[1.0, float("nan")], [2.0, 1.0], [4.5, 2.0]], dtype=dtype)
    for op, wanted in ((ReduceOp.SUM, 7.5), (ReduceOp.AVG, 2.5), (ReduceOp.MAX, 4.5), (ReduceOp.MIN, 1.0), (ReduceOp.PRODUCT, 9.0)):
        combine = combination(every[0], op)
        assert combine
        found = combine(every)
        assert found.dtype == dtype and found[0] == wanted and found[1].isnan()


@pytest.mark.parametrize(
    ("tensor", "op"),
    [
        (torch.ones(MOST_BYTES // 4 + 1), ReduceOp.MAX), (torch.ones(2), ReduceOp.BAND), (torch.ones(2).int(), ReduceOp.AVG),
        (torch.ones(2) > 0, ReduceOp.MAX), (torch.ones(2, dtype=torch.complex64), ReduceOp.SUM), (torch.ones(2).to_sparse(), ReduceOp.SUM),
        (torch.ones(2).double(), torch.distributed._make_nccl_premul_sum(2.0)),  # type: ignore[attr-defined]
    ],
)  # fmt: skip
def test_what_is_large_or_has_no_such_operation_is_gloos(tensor: torch.Tensor, op: Any) -> None:
    assert combination(tensor, op) is None


def test_workers_with_another_dtype_or_operation_notice_it() -> None:
    kinds = {kind(torch.ones(1).to(dtype), op) for dtype in DTYPES for op in WANTED}
    assert len(kinds) == len(DTYPES) * len(WANTED) and max(kinds) < 1 << 9
