"""VGG for pictures of 224 x 224 (Simonyan and Zisserman, ICLR '15, table 1: columns A, D and E)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inalab.hosts.training.architectures.architecture import Architecture, LayerShape, Timing, convolution, linear
from inalab.hosts.training.architectures.sources import HO, LAMBDA, TENSORFLOW, TORCH

CHANNELS = 64, 128, 256, 512, 512  # of the stages, each of which halves the picture's side behind it
CONVOLUTIONS = {"vgg11": (1, 1, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}  # of each stage


def layers(convolutions: Sequence[int]) -> Iterator[LayerShape]:
    """Stages of 3 x 3 convolutions, then three fully connected layers, which have most of the parameters."""
    inputs, side = 3, 224
    for stage, (outputs, count) in enumerate(zip(CHANNELS, convolutions, strict=True), start=1):
        for i in range(1, count + 1):
            yield convolution(f"conv{stage}_{i}", inputs, outputs, 3, side)
            inputs = outputs
        side //= 2
    yield linear("fc6", inputs * side**2, 4096)
    yield linear("fc7", 4096, 4096)
    yield linear("fc8", 4096, 1000)


TIMINGS = {
    "vgg11": {"v100": Timing(180.97, None, HO)},
    "vgg16": {"p100": Timing.of_rate(154, 64, TENSORFLOW), "v100": Timing.of_rate(249, 192, LAMBDA)},
    "vgg19": {"v100": Timing.of_rate(249 * 76.45 / 87.97, 192, f"VGG16's, times both models' ratio: {LAMBDA}; {TORCH}")},
}
ARCHITECTURES = tuple(Architecture(name, tuple(layers(counts)), TIMINGS[name]) for name, counts in CONVOLUTIONS.items())
