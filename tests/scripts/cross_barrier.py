"""Trains one model by DistributedDataParallel and one by CrossBarrier, and prints whether they are equal to the bit."""

import copy
import json
import sys
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from inalab.hosts.training.cross_barrier import CrossBarrier


class Model(nn.Module):
    """Has a module that is never called (the attention's output projection), and a parameter that two modules share."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (batch, length, 20) of x (batch, length)."""
        logits: torch.Tensor = self.head(self.layer(self.embed(x)))
        return logits


def main() -> None:
    """As it says."""
    dist.init_process_group(sys.argv[1])
    torch.manual_seed(dist.get_rank())  # worker 0's parameters are to be everybody's
    model = Model()
    other = copy.deepcopy(model)
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    batches = [torch.randint(0, 20, (4, 6)) for _ in range(6)]

    def loss(replica: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(replica(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    replica = DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = sgd(replica.parameters())
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        optimizer.zero_grad()
        with replica.no_sync():
            loss(replica, first).backward()
        loss(replica, second).backward()
        optimizer.step()

    training = CrossBarrier(other, sgd)
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        with training.no_sync():
            loss(other, first).backward()
        loss(other, second).backward()
    training.synchronize()

    equal = all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    close = all(torch.allclose(a, b, atol=1e-4) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    print(json.dumps({"equal": equal, "close": close, "left": len(training.under_way)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
