"""ResNets of bottleneck blocks for pictures of 224 x 224 (He et al., CVPR '16, table 1), with the stride in the
3 x 3 convolutions, as frameworks have them; a layer has its normalization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inalab.hosts.training.architectures.architecture import Architecture, LayerShape, Timing, convolution, linear
from inalab.hosts.training.architectures.sources import LAMBDA, TENSORFLOW, TORCH

WIDTHS = 64, 128, 256, 512  # of the stages' blocks, which give four times as many channels
BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}  # of each stage


def layers(blocks: Sequence[int]) -> Iterator[LayerShape]:
    """A stage's first block halves the picture's side in its 3 x 3 convolution, but for the first stage's."""
    yield convolution("conv1", 3, 64, 7, 112, norm=True)
    inputs, side = 64, 56
    for stage, (width, count) in enumerate(zip(WIDTHS, blocks, strict=True), start=2):
        for i in range(1, count + 1):
            before, side = side, side // 2 if i == 1 and stage > 2 else side
            name = f"conv{stage}_{i}"
            yield convolution(f"{name}.1", inputs, width, 1, before, norm=True)
            yield convolution(f"{name}.2", width, width, 3, side, norm=True)
            yield convolution(f"{name}.3", width, 4 * width, 1, side, norm=True)
            if i == 1:
                yield convolution(f"{name}.shortcut", inputs, 4 * width, 1, side, norm=True)
            inputs = 4 * width
    yield linear("fc", inputs, 1000)


TIMINGS = {
    "resnet50": {"p100": Timing.of_rate(219, 64, TENSORFLOW), "v100": Timing.of_rate(432, 192, LAMBDA)},
    "resnet101": {"v100": Timing.of_rate(432 * 66.09 / 113.75, 192, f"ResNet50's, times both models' ratio: {LAMBDA}; {TORCH}")},
    "resnet152": {"p100": Timing.of_rate(91.8, 64, TENSORFLOW), "v100": Timing.of_rate(167, 96, LAMBDA)},
}
ARCHITECTURES = tuple(Architecture(name, tuple(layers(counts)), TIMINGS[name]) for name, counts in BLOCKS.items())
