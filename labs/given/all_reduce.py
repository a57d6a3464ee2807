"""What the check of lab 10 runs on every host: all-reduces of known tensors, and whether their sums are right. (Given.)

inalab launch --scheme ./scheme.py --set racks=1 --set workers=4 -- all_reduce.py 1 7 1000
"""

import json
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()
for number, elements in enumerate(map(int, sys.argv[1:])):
    base = torch.arange(elements, dtype=torch.float32) * 7919 % 1009 - 500 + number  # whole numbers: exact in every order
    dist.barrier()
    tensor, begun = base * (rank + 1), time.monotonic()
    dist.all_reduce(tensor)
    seconds = time.monotonic() - begun
    wrong = int((tensor != base * (size * (size + 1) // 2)).sum())
    print(json.dumps({"rank": rank, "number": number, "elements": elements, "wrong": wrong, "seconds": seconds}), flush=True)
dist.destroy_process_group()
