"""An ordinary DistributedDataParallel script, or one with FSDP2, or its hybrid form: only the backend's name is inalab's.

inalab launch -- experiments/scripts/train_ddp.py --backend ina
inalab launch --scheme gloo -- experiments/scripts/train_ddp.py --backend gloo
"""

import argparse
import pydoc_data.topics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

Batch = Callable[[], tuple[torch.Tensor, torch.Tensor]]


class Characters(nn.Module):
    """A small causal transformer over bytes."""

    def __init__(self, width: int = 64, context: int = 32) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(128, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 128)
        self.mask = nn.Transformer.generate_square_subsequent_mask(context)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (batch, 128, context) of the next characters of x (batch, context)."""
        h = self.embed(x) + self.position(torch.arange(x.shape[1]))
        logits: torch.Tensor = self.head(self.layers(h, mask=self.mask, is_causal=True))
        return logits.transpose(1, 2).contiguous()


def digits(rank: int, model: str) -> tuple[nn.Module, Batch, tuple[torch.Tensor, torch.Tensor], float]:
    """Batches of images and classes, and the images and classes to test with; of "deep" five gradients of some 30 KB."""
    data = load_digits()
    images, classes = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    draw = torch.Generator().manual_seed(rank)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(0, 1400, (32,), generator=draw)
        return images[chosen], classes[chosen]

    widths = (64, 128, 10) if model == "mlp" else (64, 96, 96, 96, 96, 10)
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1]), batch, (images[1400:], classes[1400:]), 0.1


def characters(rank: int, _: str) -> tuple[nn.Module, Batch, tuple[torch.Tensor, torch.Tensor], float]:
    """Batches of text and the text one character on, and some to test with."""
    text = torch.tensor(list("".join(pydoc_data.topics.topics.values()).encode("ascii", "ignore")))
    draw = torch.Generator().manual_seed(rank)

    kept = len(text) * 9 // 10  # the rest is for the test

    def batch(first: int = 0, last: int = kept - 33, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.randint(first, last, (size,), generator=draw)
        rows = torch.stack([text[p : p + 33] for p in places])
        return rows[:, :-1], rows[:, 1:]

    return Characters(), batch, batch(kept, len(text) - 33, 64), 0.3


def main() -> None:
    """Train, and print the loss and the accuracy on what was not trained on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="ina")
    parser.add_argument("--model", choices=("mlp", "deep", "transformer"), default="mlp")
    parser.add_argument("--parallel", choices=("ddp", "fsdp2", "hsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    dist.init_process_group(options.backend)  # the one line
    torch.manual_seed(1)
    model, batch, (inputs, targets), rate = (characters if options.model == "transformer" else digits)(
        dist.get_rank(), options.model
    )
    replica: nn.Module = model
    if options.parallel == "ddp":
        replica = DistributedDataParallel(model, bucket_cap_mb=0.03 if options.model == "deep" else 0.1)
    else:
        kinds = (nn.TransformerEncoderLayer,) if isinstance(model, Characters) else (nn.Linear,)
        mesh = None  # of all workers
        if options.parallel == "hsdp":
            mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
        for layer in model.modules():
            if isinstance(layer, kinds):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(replica.parameters(), lr=rate, momentum=0.9)
    begun = time.monotonic()
    for _ in range(options.steps):
        x, y = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(replica(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    seconds = time.monotonic() - begun
    with torch.no_grad():  # all workers, because FSDP2 gathers the parameters
        logits = model(inputs)
        loss, accuracy = nn.functional.cross_entropy(logits, targets), (logits.argmax(1) == targets).float().mean()
    if dist.get_rank() == 0:
        print(f"{options.backend} {options.model}: loss {loss:.4f}, accuracy {accuracy:.4f}, {seconds:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
