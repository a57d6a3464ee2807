"""What the check of lab 10 runs on every host: all-reduces, and whether their sums are right. (Given.)

inalab launch --scheme ./scheme.py --set racks=1 --set workers=4 -- all_reduce.py 1 7 1000
"""

import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("ina")
rank, size = dist.get_rank(), dist.get_world_size()
draw = np.random.default_rng()  # in each process another one: no worker knows what the others have
for number, elements in enumerate(map(int, sys.argv[1:])):
    own = torch.from_numpy(draw.integers(-100, 101, elements, np.int8))  # whole numbers: exact in every order
    tensor = own.float()
    dist.barrier()
    begun = time.monotonic()
    dist.all_reduce(tensor)
    seconds = time.monotonic() - begun
    parts = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(parts, own)  # by Gloo, a byte for each element
    wrong = int((tensor != torch.stack(parts).float().sum(0)).sum())
    print(json.dumps({"rank": rank, "number": number, "elements": elements, "wrong": wrong, "seconds": seconds}), flush=True)
dist.destroy_process_group()
time.sleep(0.5)  # the check looks at what the links have carried
