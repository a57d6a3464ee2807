"""Random programs in which one worker is off, each in a group of its own: `one_off.py SEED NUMBER`.

All workers draw the same: a group, a call, and what one of them does instead: another size, dtype, operation, root or collective. Each
must be told in words, and none may get numbers without a word. Prints how many mistakes were told to all, and each other outcome."""

import random
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

SEED, NUMBER = map(int, sys.argv[1:])
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
DTYPES = (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.int8, torch.float64, torch.int64)
SIZES = (16, 64, 80, 256, 1008, 4096)
draw = random.Random(SEED)
dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()


def call(kind: str, count: int, dtype: torch.dtype, op: Any, root: int, group: Any, n: int) -> None:
    if kind == "all_reduce":
        dist.all_reduce(torch.ones(count, dtype=dtype), op, group)
    elif kind == "reduce_scatter":
        dist.reduce_scatter_tensor(torch.ones(count, dtype=dtype), torch.ones(n * count, dtype=dtype), op, group)
    elif kind == "all_gather":
        dist.all_gather_into_tensor(torch.ones(n * count, dtype=dtype), torch.ones(count, dtype=dtype), group)
    else:
        dist.broadcast(torch.ones(count, dtype=dtype), root, group)


def other(choices: Any, than: Any) -> Any:
    return draw.choice([choice for choice in choices if choice != than])


told: dict[str, int] = {}
for number in range(NUMBER):
    ranks = sorted(draw.sample(range(size), draw.randint(2, size)))
    kind, count, dtype, op, root = (
        draw.choice(KINDS), draw.choice(SIZES), draw.choice(DTYPES), draw.choice((ReduceOp.SUM, ReduceOp.MAX)), draw.choice(ranks),
    )  # fmt: skip
    what = draw.choice(
        ("count", "dtype", "kind", *(["op"] if "reduce" in kind else []), *(["root"] if kind == "broadcast" else []))
    )
    off = draw.choice(ranks)
    right = {"kind": kind, "count": count, "dtype": dtype, "op": op, "root": root}
    choices = {"count": SIZES, "dtype": DTYPES, "kind": KINDS, "op": (ReduceOp.SUM, ReduceOp.MAX), "root": ranks}
    wrong = right | {what: other(choices[what], right[what])}
    group = dist.new_group(ranks, timeout=timedelta(seconds=60))
    if rank in ranks:
        said = ""
        try:
            call(**(wrong if rank == off else right), group=group, n=len(ranks))
        except Exception as error:
            said = str(error)
        mistake = f"program {number} by {ranks}, {what} of {off}: {right} {wrong[what]}"
        if not said:
            print(f"{mistake}: nothing was said", flush=True)
        else:
            told[what] = told.get(what, 0) + 1
            print(f"{mistake}: {said[:300]}", flush=True)
        dist.destroy_process_group(group)
print(f"told {told}")
