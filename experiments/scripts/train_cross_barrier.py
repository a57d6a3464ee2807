"""A script whose communication overlaps with the next step's forward pass.

inalab launch --scheme byteps -- experiments/scripts/train_cross_barrier.py
"""

import argparse
import time
from functools import partial
from itertools import pairwise

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

from inalab.hosts.training.cross_barrier import CrossBarrier


def main() -> None:
    """Train, and print the loss and the accuracy on what was not trained on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="ina")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    data = load_digits()
    images, classes = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    torch.manual_seed(1)
    draw = torch.Generator().manual_seed(dist.get_rank())
    layers = [layer for pair in pairwise((64, 96, 96, 96)) for layer in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(96, 10))
    training = CrossBarrier(model, partial(torch.optim.SGD, lr=0.2, momentum=0.9))  # in place of DDP and the optimizer
    begun = time.monotonic()
    for _ in range(options.steps):
        chosen = torch.randint(0, 1400, (32,), generator=draw)
        nn.functional.cross_entropy(model(images[chosen]), classes[chosen]).backward()  # type: ignore[no-untyped-call]
    training.synchronize()
    seconds = time.monotonic() - begun
    with torch.no_grad():
        logits = model(images[1400:])
        loss, accuracy = nn.functional.cross_entropy(logits, classes[1400:]), (logits.argmax(1) == classes[1400:]).float().mean()
    if dist.get_rank() == 0:
        print(f"loss {loss:.4f}, accuracy {accuracy:.4f}, {seconds:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
