"""Worker 1 is killed after two sums of the dtype argv[1]: float32 goes over the scheme, float64 over Gloo."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("ina")
for step in range(5):
    if dist.get_rank() == 1 and step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 3 and step == 2 and "hang" in sys.argv:
        time.sleep(1000)
    dist.all_reduce(torch.ones(1000, dtype=getattr(torch, sys.argv[1])))
