"""A script of torchft's: each step is of the workers that are there, and one that comes gets the model from another.

    inalab launch --torchft --set faults="die h3 at 4; restart h3 at 8" -- experiments/scripts/train_torchft.py

Nothing in it is of this project. Below `inalab launch --torchft`, a ProcessGroupGloo sums over the network's scheme.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import time
from datetime import timedelta
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo


def main() -> None:
    """Train, and print who was there in each step, and the digest of the model at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--compute", type=float, default=0.05, help="seconds of a step's computation")
    options = parser.parse_args()
    logging.disable(logging.INFO)

    group = int(os.environ.get("REPLICA_GROUP_ID", "0"))
    torch.manual_seed(1)
    data = load_digits()
    images, classes = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def state_dict() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load_state_dict(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
        min_replica_size=1,
        load_state_dict=load_state_dict,
        state_dict=state_dict,
        replica_id=f"digits_{group}",
        timeout=timedelta(seconds=10),
        init_sync=False,  # all begin with the same model
    )
    replica = DistributedDataParallel(manager, model)
    managed = Optimizer(manager, optimizer)
    while (step := manager.current_step()) < options.steps:
        chosen = torch.randint(0, 1400, (32,), generator=torch.Generator().manual_seed(1000 * step + group))
        managed.zero_grad()
        nn.functional.cross_entropy(replica(images[chosen]), classes[chosen]).backward()  # type: ignore[no-untyped-call]
        managed.step()
        print(
            f"step {step} {'is over' if manager.current_step() > step else 'again'}, {manager.num_participants()} workers",
            flush=True,
        )
        time.sleep(options.compute)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    accuracy = (model(images[1400:]).argmax(1) == classes[1400:]).float().mean()
    print(f"accuracy {accuracy:.3f}, model {digest[:12]}", flush=True)
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main()
