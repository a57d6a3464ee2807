"""AlexNet in one column, for pictures of 224 x 224 (Krizhevsky, One weird trick for parallelizing CNNs, arXiv 1404.5997)."""

from __future__ import annotations

from inalab.hosts.training.architectures.architecture import Architecture, Timing, convolution, linear
from inalab.hosts.training.architectures.sources import LAMBDA, TENSORFLOW

LAYERS = (
    convolution("conv1", 3, 64, 11, 55),
    convolution("conv2", 64, 192, 5, 27),
    convolution("conv3", 192, 384, 3, 13),
    convolution("conv4", 384, 256, 3, 13),
    convolution("conv5", 256, 256, 3, 13),
    linear("fc6", 256 * 6 * 6, 4096),
    linear("fc7", 4096, 4096),
    linear("fc8", 4096, 1000),
)
TIMINGS = {"p100": Timing.of_rate(2987, 512, TENSORFLOW), "v100": Timing.of_rate(5132, 1536, LAMBDA)}
ARCHITECTURES = (Architecture("alexnet", LAYERS, TIMINGS),)
