"""Sums ten thousand numbers in each of four steps, whose computation is padded, and prints how long the computations took."""

import time

import torch
import torch.distributed as dist

from inalab.hosts.training.pace import pace

dist.init_process_group("ina")
took = []
for _ in range(4):
    begun = time.monotonic()
    with pace.compute():
        x = torch.ones(10_000)
    took.append(time.monotonic() - begun)
    dist.all_reduce(x)
print("steps of", *(f"{seconds:.3f}" for seconds in took), flush=True)
