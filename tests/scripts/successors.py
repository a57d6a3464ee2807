"""Groups that follow each other: each finds the place of the one before, whatever that one left."""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()
parameter = torch.nn.Parameter(torch.full((100,), float(rank)))
dist.broadcast(parameter, 1)
assert (parameter == 1).all()
children = []
for number in range(4):
    group = dist.new_group([0, 1, 2])
    if rank < 3:
        x = torch.full((3000,), rank + 1.0)
        dist.all_reduce(x, group=group)
        gathered = [torch.zeros(3000) for _ in range(3)]
        dist.all_gather(gathered, x, group)
        assert torch.allclose(x, torch.tensor(6.0)) and torch.equal(gathered[2], x)
        if number == 1:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
        if number == 2 and rank == 0:
            dist.all_reduce(torch.ones(3000), group=group, async_op=True)  # which the others never call
        dist.destroy_process_group(group)
    dist.barrier()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
dist.destroy_process_group()
dist.init_process_group("ina")
last = torch.ones(9)
dist.all_reduce(last)
assert (last == size).all()
print("5 groups")
