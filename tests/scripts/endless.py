"""Sums until somebody ends it."""

import torch
import torch.distributed as dist

dist.init_process_group("ina")
while True:
    dist.all_reduce(torch.ones(1000))
