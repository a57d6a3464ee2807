"""Every collective, operation and dtype in the table of carriers, on dense and strided tensors, beside Gloo in a group of its own.

Prints how many were compared, and each that differs."""

import itertools
import os

os.environ["MASTER_ADDR"] = "localhost"  # as scripts for one machine do; there `inalab launch` knows better

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from inalab.hosts.reductions import FLOATS, INTEGERS

dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")


def filled(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers of which every sum is one of the dtype's, too; this worker's own."""
    return ((torch.arange(elements) + rank) % 7).to(dtype)


LAYOUTS = {
    "dense": filled,
    "strided": lambda n, dtype: filled(2 * n, dtype)[::2],
    "transposed": lambda n, dtype: filled(2 * n, dtype).view(2, n).t(),
}
compared: list[str] = []


def theirs(call: object, *tensors: torch.Tensor, **options: object) -> None:
    """What Gloo makes of dense tensors."""
    dense = [tensor.contiguous() for tensor in tensors]
    call(*dense, group=gloo, **options)
    for tensor, copy in zip(tensors, dense, strict=True):
        tensor.copy_(copy)


def check(what: str, call: object, *tensors: torch.Tensor, wanted: object = theirs, **options: object) -> None:
    """Compare a call's effect on these tensors with Gloo's."""
    other = [tensor.clone() for tensor in tensors]
    wanted(call, *other, **options)
    call(*tensors, **options)
    compared.append(what)
    for mine, their in zip(tensors, other, strict=True):
        if not torch.equal(mine.double(), their.double()):
            print(f"{what}: {mine.flatten()[:6].tolist()} instead of {their.flatten()[:6].tolist()}", flush=True)


def by_sums(factor: float) -> object:
    """What follows from Gloo's sum in float64 or int64, rounded once: it has fewer dtypes and operations."""

    def wanted(_: object, tensor: torch.Tensor, op: object) -> None:
        whole = (tensor.double() if tensor.is_floating_point() else tensor.long()).contiguous()
        dist.all_reduce(whole, group=gloo)
        tensor.copy_(whole * factor)

    return wanted


every = [*FLOATS, *INTEGERS, torch.float64, torch.int64]
for dtype, (layout, make), elements in itertools.product(every, LAYOUTS.items(), (1, 5, 300)):
    what = f"of {elements} {layout} {dtype}"
    check(f"all_reduce {what}", dist.all_reduce, make(elements, dtype), op=ReduceOp.SUM, wanted=by_sums(1))
    if dtype not in (torch.bfloat16, torch.int16):  # of which Gloo has no more
        check(f"maximum {what}", dist.all_reduce, make(elements, dtype), op=ReduceOp.MAX)
    if dtype in FLOATS:
        check(f"average {what}", dist.all_reduce, make(elements, dtype), op=ReduceOp.AVG, wanted=by_sums(1 / size))
        check(f"half {what}", dist.all_reduce, make(elements, dtype), op=dist._make_nccl_premul_sum(0.5), wanted=by_sums(0.5))
    if dtype != torch.int16:
        check(f"broadcast {what}", dist.broadcast, make(elements, dtype), src=1)
for layout, make in LAYOUTS.items():
    given = make(8, torch.float32)
    reduced = [make(8, torch.float32) for _ in range(2)]
    dist.reduce(reduced[0], dst=0)
    dense = reduced[1].contiguous()
    dist.reduce(dense, dst=0, group=gloo)
    if rank == 0 and not torch.equal(reduced[0], dense):
        print(f"reduce, {layout}", flush=True)
    parts = [make(8, torch.float32) + i for i in range(size)]
    had, wanted = (torch.empty_like(given) for _ in range(2))
    dist.scatter(had, parts if rank == 1 else None, src=1)
    dense = wanted.contiguous()
    dist.scatter(dense, [part.contiguous() for part in parts] if rank == 1 else None, src=1, group=gloo)
    if not torch.equal(had, dense):
        print(f"scatter, {layout}", flush=True)
    everything, others = ([torch.empty_like(given) for _ in range(size)] for _ in range(2))
    dist.all_gather(everything, given)
    dist.all_gather(others, given.contiguous(), group=gloo)
    if any(not torch.equal(one, other) for one, other in zip(everything, others, strict=True)):
        print(f"all_gather, {layout}", flush=True)
    compared += ["reduce", "scatter", "all_gather"]
for op, dtype in itertools.product((ReduceOp.SUM, ReduceOp.AVG), FLOATS):
    whole = filled(12 * size, dtype)
    part, parts = torch.empty(12, dtype=dtype), torch.empty(12, dtype=dtype)
    dist.reduce_scatter_single(part, whole, op=op)
    dist.reduce_scatter(parts, list(whole.chunk(size)), op=op)
    total = whole.double()
    dist.all_reduce(total, group=gloo)
    wanted = (total.chunk(size)[rank] / (size if op == ReduceOp.AVG else 1)).to(dtype)
    if not (torch.equal(part, wanted) and torch.equal(parts, wanted)):
        print(f"reduce_scatter by {op} of {dtype}: {part.tolist()} instead of {wanted.tolist()}", flush=True)
    compared += ["reduce_scatter", "reduce_scatter of a list"]
# what has failed in scripts
several = [torch.full((40,), float(i + rank)) for i in range(3)]
dist.all_reduce_coalesced(several)
with dist._coalescing_manager():
    for tensor in several:
        dist.all_reduce(tensor)
once = sum(range(size))
assert [t[0].item() for t in several] == [size * (size * i + once) for i in range(3)]
packed = torch.tensor([2.3 + rank, 520e6])
dist.all_reduce(packed)
losses = torch.tensor([2.3 + r for r in range(size)])
assert packed.tolist() == [losses.double().sum().float().item(), 520e6 * size], packed
one = torch.tensor([float("nan") if rank == 0 else 1.0, float("inf"), 3.0])
dist.all_reduce(one)
assert one[0].isnan() and one[1].isinf() and one[2] == 3 * size
wide = torch.ones(1).expand(5)
dist.all_reduce(wide)
assert wide.tolist() == [float(size)] * 5
dist.monitored_barrier()
first, second = torch.ones(100), torch.ones(50)


def then(_: object) -> float:
    dist.all_reduce(second)
    return second[0].item() + dist.all_reduce(torch.ones(30), async_op=True).get_future().wait()[0][0].item()


work = dist.all_reduce(first, async_op=True)
assert work.get_future().then(then).wait() == 2 * size
print(f"compared {len(compared)}", flush=True)
dist.destroy_process_group()
