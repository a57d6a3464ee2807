"""Worker 1 comes to no sum until the others, whose group has a timeout of 10 s, have been told that they wait in vain."""

from datetime import timedelta

import torch
import torch.distributed as dist


def meet(what: str) -> None:
    """Wait until everybody has come here."""
    store.set(f"{what} {dist.get_rank()}", "1")
    store.wait([f"{what} {rank}" for rank in range(dist.get_world_size())], timedelta(seconds=60))


dist.init_process_group("ina", timeout=timedelta(seconds=10))
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() != 1:
    try:
        dist.all_reduce(torch.ones(1000))
    except RuntimeError as error:
        print("told:", str(error).splitlines()[0])
meet("told")
if dist.get_rank() == 0:
    store.wait([f"left {rank}" for rank in (1, 2, 3)], timedelta(seconds=60))  # it keeps the store
else:
    store.set(f"left {dist.get_rank()}", "1")
