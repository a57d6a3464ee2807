"""How long all-reduces or other collectives take, by their size: a line of JSON for each, in seconds of the slowest worker, the
median of many calls.

inalab launch -- experiments/scripts/sums.py
inalab launch --scheme atp -- experiments/scripts/sums.py --elements 4096 65536
inalab launch -- experiments/scripts/sums.py --call reduce_scatter
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist

MOST, FEWEST = 15, 3  # calls for each size
AT_MOST = 1_000_000  # elements summed for each size, unless FEWEST calls need more


def all_reduce(values: torch.Tensor) -> None:
    dist.all_reduce(values)


def reduce_scatter(values: torch.Tensor) -> None:
    dist.reduce_scatter_single(torch.empty(len(values) // dist.get_world_size()), values)


def all_gather(values: torch.Tensor) -> None:
    """So many elements come together; each worker gives its part."""
    dist.all_gather_single(torch.empty_like(values), values[: len(values) // dist.get_world_size()])


def broadcast(values: torch.Tensor) -> None:
    """From the first worker; the call is over once all have it."""
    dist.broadcast(values, 0)
    dist.barrier()


def sharded(values: torch.Tensor) -> None:
    """A reduce-scatter and an all-gather at once, as of two layers of a sharded model."""
    part = len(values) // dist.get_world_size()
    summed = dist.reduce_scatter_single(torch.empty(part), values, async_op=True)
    gathered = dist.all_gather_single(torch.empty_like(values), values[:part].clone(), async_op=True)
    assert summed and gathered
    gathered.wait()
    summed.wait()


CALLS = {call.__name__: call for call in (all_reduce, reduce_scatter, all_gather, broadcast, sharded)}


def main() -> None:
    """Sum normal values, which every worker draws for itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="ina")
    parser.add_argument("--call", choices=CALLS, default="all_reduce")
    parser.add_argument("--elements", type=int, nargs="+", default=[256, 4096, 16_384, 65_536, 262_144])
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    draw = torch.Generator().manual_seed(dist.get_rank())
    for elements in options.elements:
        took = []
        for _ in range(max(FEWEST, min(MOST, AT_MOST // elements)) + 1):
            values = torch.randn(elements, generator=draw)
            dist.barrier()
            begun = time.monotonic()
            CALLS[options.call](values)
            took.append(time.monotonic() - begun)
        slowest = torch.tensor(took[1:], dtype=torch.float64)  # the first call finds out how long a round trip is
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            print(json.dumps({"elements": elements, "seconds": statistics.median(slowest.tolist())}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
