"""Gathers 100 kB of each worker, by "ina" and by Gloo, and prints what came over which network, and how long it took."""

import time
from pathlib import Path

import torch
import torch.distributed as dist


def received(network: str) -> int:
    """Bytes that this host has received over its interface on a network."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.partition(":")[2].split()[0]) for line in lines if line.partition(":")[0].endswith(network))


for backend in ("ina", "gloo"):
    dist.init_process_group(backend)
    dist.barrier()
    data, management, begun = received("-eth0"), received("-mgmt"), time.monotonic()
    pieces = [torch.zeros(25_000) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, torch.ones(25_000))
    assert all(bool((piece == 1).all()) for piece in pieces)
    took = time.monotonic() - begun
    print(
        f"{backend}: {received('-eth0') - data} bytes of data, {received('-mgmt') - management} of management, {took:.3f} s",
        flush=True,
    )
    dist.barrier()
    dist.destroy_process_group()
