"""DistributedDataParallel from a checkpoint on: a script that begins again, on fewer workers or more, and goes on where it was.

    inalab launch --set elastic=yes --set faults="die h3 at 4; restart h3 at 8" -- experiments/scripts/train_elastic.py /tmp/elastic.pt

As below torchrun, the first worker writes the model, the optimizer and the step from time to time, and all read them when they begin.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save(file: Path, state: dict[str, Any]) -> None:
    """Have the file be this, at once: a script may be ended at any moment."""
    aside = file.with_suffix(".new")
    torch.save(state, aside)
    os.replace(aside, file)


def main() -> None:
    """Train, and print where it began, and the accuracy on what was not trained on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    options = parser.parse_args()

    dist.init_process_group("ina")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    data = load_digits()
    images, classes = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer, first = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 0
    if options.checkpoint.exists():
        state = torch.load(options.checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if rank == 0:
        print(f"step {first} on {size} workers", flush=True)
    replica = DistributedDataParallel(model)
    for step in range(first, options.steps):
        if rank == 0 and step % options.every == 0:
            save(options.checkpoint, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step})
        chosen = torch.randint(0, 1400, (32,), generator=torch.Generator().manual_seed(1000 * step + rank))
        optimizer.zero_grad()
        nn.functional.cross_entropy(replica(images[chosen]), classes[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        time.sleep(0.05)  # a step's computation
    accuracy = (model(images[1400:]).argmax(1) == classes[1400:]).float().mean()
    if rank == 0:
        print(f"accuracy {accuracy:.3f} after {options.steps} steps, the last on {size} workers", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
