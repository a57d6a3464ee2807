"""In the way that argv[1] names, worker 1 makes another call than the others. Each prints its error, within the group's 6 s."""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("ina", timeout=timedelta(seconds=6))
other = dist.get_rank() == 1
try:
    match sys.argv[1]:
        case "operation":
            dist.all_reduce(torch.ones(10), op=dist.ReduceOp.AVG if other else dist.ReduceOp.SUM)
        case "size":
            dist.all_reduce(torch.ones(17 if other else 16))
        case "dtype":
            dist.all_reduce(torch.ones(100, dtype=torch.float64 if other else torch.float32))
        case "collective" if other:
            dist.all_reduce(torch.ones(400))
        case "collective":
            dist.reduce_scatter_single(torch.empty(100), torch.ones(400))
except RuntimeError as error:
    print("told:", str(error).splitlines()[0], flush=True)
    sys.exit(1)
