"""The model of the lab about sharded training, a layer at a time, and the packets that headers.p4 does not know. (Given.)

A layer multiplies each element of its input by a parameter. Arrays are of float32, gradients of int32, for a switch to add.
"""

import numpy as np

FREE, PARAMETERS = 3, 4  # kinds, beside wire.UPDATE and wire.RESULT
SCALE, RATE, MOMENTUM = np.float32(1 << 16), np.float32(0.02), np.float32(0.9)


def forward(parameters, x):
    """A layer's output. The backward pass needs its input again."""
    return parameters * x


def error(output, target):
    """What the backward pass begins with."""
    return output - target


def backward(parameters, x, error):
    """A layer's gradient, for its input x, and the error for the layer before it."""
    return np.rint(error * x * SCALE).astype(np.int32), error * parameters


def update(shard, momentum, sums, workers):
    """The new parameters and momentum of a shard, whose gradients all workers have summed."""
    momentum = MOMENTUM * momentum + sums.astype(np.float32) / (SCALE * np.float32(workers))
    return shard - RATE * momentum, momentum


def bits(values):
    """Floats as the integers with the same bits, for a packet."""
    return np.asarray(values, np.float32).view(np.int32)


def floats(values):
    """And back."""
    return np.asarray(values, np.int32).view(np.float32)


def freed(packet):
    """The chunk that a FREE is about, or None if this is another packet. It has no values, so wire.read does not take it."""
    return int.from_bytes(packet[20:24], "big") if len(packet) >= 24 and packet[14] == FREE else None
