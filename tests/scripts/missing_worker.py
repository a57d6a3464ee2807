"""Worker 1 stops after two steps of DDP; the others print what they are told."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("ina")
replica = DistributedDataParallel(nn.Sequential(nn.Linear(10, 300), nn.Linear(300, 1)), bucket_cap_mb=0.005)
for step in range(5):
    if dist.get_rank() == 1 and step == 2:
        sys.exit(3)
    try:
        replica(torch.randn(4, 10)).sum().backward()
    except RuntimeError as error:
        print("told:", str(error).splitlines()[0])
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as again:
            print(type(again).__name__, str(again))
        break
