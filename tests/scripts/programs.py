"""Random programs of collectives in random groups, beside Gloo: `programs.py SEED NUMBER`.

All workers draw the same: groups, then for each program a few calls, some of which are under way together. What a call leaves is
compared with what Gloo leaves in a group of the same workers. Prints how many calls were compared, and each that differs."""

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

SEED, NUMBER = map(int, sys.argv[1:])
SIZES = (1, 3, 17, 64, 255, 256, 257, 1000)
SUMMED = (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.int8, torch.float64, torch.int64)
COPIED = (*SUMMED, torch.bool, torch.complex64)
draw = random.Random(SEED)
dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()

Call = Callable[..., Any]


def numbers(count: int, dtype: torch.dtype, number: int) -> torch.Tensor:
    """This worker's own: small, so that every sum is one of the dtype's."""
    made = torch.arange(count) * 7 + rank * 5 + number
    return (made % 11 - 5).to(dtype) if dtype != torch.bool else made % 3 > 0


def strided(tensor: torch.Tensor, how: int) -> torch.Tensor:
    """The same numbers, in another layout."""
    if how == 0:
        return tensor
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


class Program:
    """A few calls of a group, of which all begin before any is waited for."""

    def __init__(self, number: int) -> None:
        self.number, self.group = number, draw.randrange(len(groups))
        self.calls = [self.call(number * 10 + i) for i in range(draw.randint(1, 4))]

    def call(self, number: int) -> tuple[str, Call, Call]:
        """What it is called, and how it begins: it makes its tensors, and gives them with the work that fills them."""
        ranks = sets[self.group]
        n, count, how = len(ranks), draw.choice(SIZES), draw.choice((0, 0, 1))
        kind = draw.choice(("all_reduce", "reduce", "reduce_scatter", "all_gather", "gather_list", "broadcast", "object"))
        dtype = draw.choice(SUMMED if "reduce" in kind else COPIED)
        op, root = draw.choice((ReduceOp.SUM, ReduceOp.SUM, ReduceOp.MAX)), draw.choice(ranks)

        def begin(group: Any, gloo: bool) -> tuple[list[torch.Tensor], Any]:
            layout = 0 if gloo else how
            match kind:
                case "all_reduce":
                    x = strided(numbers(count, _of_gloo(dtype) if gloo else dtype, number), layout)
                    return [x], dist.all_reduce(x, op, group, async_op=True)
                case "reduce":
                    x = strided(numbers(count, _of_gloo(dtype) if gloo else dtype, number), layout)
                    return [x] if rank == root else [], dist.reduce(x, root, op, group, async_op=True)
                case "reduce_scatter":
                    chosen = _of_gloo(dtype) if gloo else dtype
                    x, y = numbers(n * count, chosen, number), strided(torch.zeros(count, dtype=chosen), layout)
                    return [y], dist.reduce_scatter_tensor(y, x, op, group, async_op=True)
                case "all_gather":
                    x, y = strided(numbers(count, dtype, number), layout), torch.zeros(n * count, dtype=dtype)
                    return [y], dist.all_gather_into_tensor(y, x, group, async_op=True)
                case "gather_list":
                    into = [strided(torch.zeros(count, dtype=dtype), layout) for _ in ranks]
                    return into, dist.all_gather(into, numbers(count, dtype, number), group, async_op=True)
                case "broadcast":
                    x = strided(numbers(count, dtype, number), layout)
                    return [x], dist.broadcast(x, root, group, async_op=True)
            held = [None] * n
            dist.all_gather_object(held, {"rank": rank, "number": number, "much": "x" * count}, group)
            return [torch.tensor([hash_of(held)])], None

        return f"{kind} of {count} {dtype} by {ranks}", lambda g: begin(g, False), lambda g: begin(g, True)

    def run(self) -> int:
        """Make the calls, and compare; how many there were."""
        if rank not in sets[self.group]:
            return 0
        begun = [mine(groups[self.group]) for _, mine, _ in self.calls]
        for at in draw_order(len(begun), self.number):
            if begun[at][1]:
                begun[at][1].wait()
        for (what, _, theirs), (left, _) in zip(self.calls, begun, strict=True):
            right, work = theirs(beside[self.group])
            if work:
                work.wait()
            for mine, other in zip(left, right, strict=True):
                if not torch.equal(mine, other.to(mine.dtype)):
                    print(
                        f"program {self.number}, {what}: {mine.flatten()[:6].tolist()}, Gloo {other.flatten()[:6].tolist()}",
                        flush=True,
                    )
        return len(self.calls)


def _of_gloo(dtype: torch.dtype) -> torch.dtype:
    """The one in which Gloo has every operation, and the numbers have room."""
    return torch.float64 if dtype.is_floating_point else torch.int64


def draw_order(count: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(count), count)


def hash_of(held: list[Any]) -> int:
    return sum((i + 1) * (one["rank"] + one["number"] + len(one["much"])) for i, one in enumerate(held))


sets = [tuple(range(size)), (0, 1), (size - 2, size - 1), tuple(range(0, size, 2)), (0, size - 1), tuple(range(size - 1))]
groups = [dist.group.WORLD, *(dist.new_group(list(ranks)) for ranks in sets[1:])]
beside = [dist.new_group(list(ranks), backend="gloo") for ranks in sets]
compared = sum(Program(number).run() for number in range(NUMBER))
print(f"compared {compared}")
dist.destroy_process_group()
