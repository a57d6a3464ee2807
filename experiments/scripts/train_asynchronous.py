"""A script that trains asynchronously: no worker waits for another, and the scheme keeps the weights.

inalab launch --scheme mlfabric --set mlfabric.delay=8 -- experiments/scripts/train_asynchronous.py
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

import inalab
from inalab.hosts.training.pace import pace


def main() -> None:
    """Train, and print what became of the updates, and the accuracy on what was not trained on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    dist.init_process_group("ina")
    rank = dist.get_rank()
    data = load_digits()
    images, classes = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    torch.manual_seed(1)
    draw = torch.Generator().manual_seed(rank)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    training = inalab.Asynchronous(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    pushed = []
    for _ in range(options.steps):
        with pace.compute():
            chosen = torch.randint(0, 1400, (32,), generator=draw)
            model.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), classes[chosen]).backward()  # type: ignore[no-untyped-call]
        pushed.append(training.step())  # in place of optimizer.step()
    training.end()
    delays = [each.delay for each in pushed if not each.dropped]
    with torch.no_grad():
        accuracy = (model(images[1400:]).argmax(1) == classes[1400:]).float().mean()
    print(
        f"worker {rank}: {len(pushed) - len(delays)} dropped, mean delay {sum(delays) / len(delays):.1f}, accuracy {accuracy:.4f}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
