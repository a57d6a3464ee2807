"""Again and again train two steps and destroy the group, while the model that is bound to it lives until its function ends."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from inalab.testbed.trial.hosted import gloo_threads

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def train(backend: str, store: dist.Store) -> None:
    dist.init_process_group(backend, store=store, rank=RANK, world_size=SIZE)
    replica = DistributedDataParallel(torch.nn.Linear(64, 10))
    for _ in range(2):
        replica(torch.ones(8, 64)).sum().backward()  # whose all-reduce has only just ended
    if not gloo_threads():
        print("gloo threads: none")
    dist.destroy_process_group()


store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), SIZE, RANK == 0)
for turn in range(10):
    train(sys.argv[1], dist.PrefixStore(str(turn), store))
print("ended")
store.set(f"ended {RANK}", "")
store.wait([f"ended {rank}" for rank in range(SIZE)])  # rank 0 has the store
