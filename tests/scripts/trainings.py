"""Ways of training that PyTorch has, on the backend named in argv[1]; prints a JSON object of what each worker had."""

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.nn.functional import all_reduce
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.nn.parallel import DistributedDataParallel

warnings.simplefilter("ignore")


def net(outputs: int = 8) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def sums(tensors: Iterable[torch.Tensor]) -> list[float]:
    return [round(float(tensor.detach().float().sum()), 3) for tensor in tensors]


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int = 4, clip: bool = False) -> None:
    """Some on this worker's own data."""
    draw = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(8, 64, generator=draw)).square().mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def trained(wrap: Callable[[nn.Sequential], nn.Module], clip: bool = False) -> list[float]:
    model = net()
    replica = wrap(model)
    steps(replica, torch.optim.SGD(replica.parameters(), lr=0.1), clip=clip)
    return sums(p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters())


def hooked(state: object, hook: Callable[..., object]) -> list[float]:
    def wrap(model: nn.Module) -> nn.Module:
        replica = DistributedDataParallel(model)
        replica.register_comm_hook(state, hook)
        return replica

    return trained(wrap)


def averaged() -> list[float]:
    """Gradients are averaged by all at first, and then in pairs; parameters, every second step, by all."""
    pair, _ = dist.new_subgroups(2)
    state = post_localSGD_hook.PostLocalSGDState(process_group=None, subgroup=pair, start_localSGD_iter=1)
    model = net()
    replica = DistributedDataParallel(model)
    replica.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    steps(replica, PostLocalSGDOptimizer(torch.optim.SGD(replica.parameters(), lr=0.1), averager))
    return sums(model.parameters())


def checkpointed(mesh: object) -> list[float]:
    """What a sharded model has that took its parameters from another one's checkpoint."""
    first, second = (sharded(net(), mesh) for _ in range(2))
    steps(first, torch.optim.SGD(first.parameters(), lr=0.1))
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    checkpoint.save({"model": get_model_state_dict(first)}, checkpoint_id=folder[0])
    kept = {"model": get_model_state_dict(second)}
    checkpoint.load(kept, checkpoint_id=folder[0])
    set_model_state_dict(second, kept["model"])
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
    trained, taken = (sums(p.full_tensor() for p in model.parameters()) for model in (first, second))
    assert taken == trained != sums(net().parameters())
    return taken


def sharded(model: nn.Sequential, mesh: object) -> nn.Module:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


dist.init_process_group(sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
world = dist.group.WORLD
had: dict[str, object] = {"backend": dist.get_backend()}
x = torch.arange(40.0) + rank
had["functional all_reduce"] = functional.wait_tensor(functional.all_reduce(x, "sum", world)).tolist()
had["functional reduce_scatter"] = functional.wait_tensor(functional.reduce_scatter_tensor(x, "avg", 0, world)).tolist()
had["functional all_gather"] = functional.wait_tensor(functional.all_gather_tensor(x[:4], 0, world)).tolist()
row = init_device_mesh("cpu", (size,))
had["dtensor"] = DTensor.from_local(x, row, [Partial()]).redistribute(row, [Shard(0)]).to_local().tolist()
leaf = torch.arange(8.0).requires_grad_()
(total := all_reduce(leaf * 1.0)).sum().backward()
had["differentiable"] = total.tolist() + leaf.grad.tolist()
had["static graph"] = trained(lambda model: DistributedDataParallel(model, static_graph=True))
had["views"] = trained(
    lambda model: DistributedDataParallel(model, gradient_as_bucket_view=True, find_unused_parameters=True), clip=True
)
had["fp16 hook"] = hooked(None, default_hooks.fp16_compress_hook)
had["power sgd"] = hooked(
    powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook
)
had["post-local sgd"] = averaged()
had["compiled"] = trained(lambda model: torch.compile(DistributedDataParallel(model), backend="eager"))
had["checkpoint"] = checkpointed(row)
had["fsdp2"] = trained(lambda model: sharded(model, row), clip=True)
both = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicated", "sharded"))
had["hsdp"] = trained(lambda model: sharded(model, both), clip=True)
model = net()
replica = DistributedDataParallel(model)
steps(replica, ZeroRedundancyOptimizer(replica.parameters(), torch.optim.SGD, lr=0.1))
had["zero"] = sums(model.parameters())
with Join([replica]):
    steps(replica, torch.optim.SGD(replica.parameters(), lr=0.1), count=2 + rank)
had["join"] = sums(model.parameters())
half = DistributedDataParallel(nn.Linear(20, 4).bfloat16())
half(torch.ones(2, 20).bfloat16() * (rank + 1)).sum().backward()
had["bf16"] = half.module.weight.grad.float().flatten().tolist()
print(json.dumps(had))
dist.destroy_process_group()
