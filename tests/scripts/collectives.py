"""Every kind of collective on the backend named in argv[1]; prints a JSON object of what each worker had."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def summed(x: torch.Tensor, **options: object) -> torch.Tensor:
    dist.all_reduce(x, **options)
    return x


def trained(replica: nn.Module, steps: int = 3, accumulate: bool = False) -> list[float]:
    """The parameters' sums after some steps on this worker's data."""
    draw = torch.Generator().manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        if accumulate:
            with replica.no_sync():
                replica(torch.randn(8, 20, generator=draw)).square().mean().backward()
        replica(torch.randn(8, 20, generator=draw)).square().mean().backward()
        optimizer.step()
    return [round(float(p.detach().sum()), 4) for p in replica.parameters()]


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 60), nn.Tanh(), nn.Linear(60, 40), nn.Tanh(), nn.Linear(40, 5))


dist.init_process_group(sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
had: dict[str, object] = {"backend": dist.get_backend()}
had["float32"] = summed(torch.arange(5.0) * (rank + 1)).tolist()
half = summed(torch.full((3,), 0.5 * (rank + 1), dtype=torch.float16))
had["float16"] = [str(half.dtype), half.tolist()]
had["int32"] = summed(torch.full((2, 2), -rank - 1, dtype=torch.int32)).tolist()
had["float64"] = summed(torch.tensor([0.1 * rank], dtype=torch.float64)).round(decimals=6).tolist()
had["maximum"] = summed(torch.tensor([float(rank)]), op=dist.ReduceOp.MAX).tolist()
had["not contiguous"] = summed(torch.arange(6.0).reshape(2, 3).t() * (rank + 1)).tolist()
had["empty"] = summed(torch.empty(0)).tolist()
several = [torch.full((1000,), float(i + rank)) for i in range(6)]
for work in [dist.all_reduce(x, async_op=True) for x in several]:
    work.wait()
had["at once"] = [float(x[0]) for x in several]
gathered = [None] * size
dist.all_gather_object(gathered, rank)
had["gathered"] = gathered
shared = torch.tensor([7.0 * (rank == 1)])
dist.broadcast(shared, src=1)
had["broadcast"] = shared.tolist()
half_group = dist.new_group([0, 1])
had["group"] = summed(torch.tensor([rank + 1.0]), group=half_group).tolist() if rank < 2 else []
everybody = dist.new_group()
had["group of all"] = summed(torch.tensor([rank + 0.5]), group=everybody).tolist()
dist.barrier()
had["ddp"] = trained(DistributedDataParallel(net(), bucket_cap_mb=0.002))
had["no_sync"] = trained(DistributedDataParallel(net(), bucket_cap_mb=0.002), accumulate=True)
hooked = DistributedDataParallel(net(), bucket_cap_mb=0.002)
hooked.register_comm_hook(None, allreduce_hook)
had["comm hook"] = trained(hooked)
for _ in range(3):  # once in a while, Gloo's threads and ours waited for each other
    sharded = net()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(sharded)
    trained(sharded, steps=10)
    had["fsdp2"] = [round(float(p.full_tensor().detach().sum()), 4) for p in sharded.parameters()]
print(json.dumps(had))
dist.destroy_process_group()
