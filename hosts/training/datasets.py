"""Data that needs no download: scikit-learn's digits, and the standard library's own text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

TEST_DIGITS = 360
SPLIT_SEED = 20210412  # of the digits into train and test; the same for every experiment
TEST_SHARE = 0.1  # of the text, at its end


@dataclass(frozen=True)
class Dataset:
    """Training and test tensors; `sha256` identifies the bytes that they were made from."""

    name: str
    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    sha256: str


@cache
def digits() -> Dataset:
    """1,797 images of 8x8 pixels, scaled to 0…1: 1,437 to train, 360 to test. x: (n, 64) float32, y: (n,) int64."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = (bunch.data / 16).astype(np.float32)
    y = bunch.target.astype(np.int64)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(x))
    train, test = order[TEST_DIGITS:], order[:TEST_DIGITS]
    a, b, c, d = (torch.from_numpy(part) for part in (x[train], y[train], x[test], y[test]))
    return Dataset("digits", a, b, c, d, hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest())


@cache
def text() -> Dataset:
    """Characters of `pydoc_data.topics`. x: (n,) int64 codes, y: the same moved by one; sequences are cut when sampled.

    The text differs between Python releases, which is why its hash goes into every run's record.
    """
    from pydoc_data.topics import topics

    whole = "\n".join(f"{name}\n{body}" for name, body in sorted(topics.items()))
    data = whole.encode("ascii", "replace")
    codes = np.clip(np.frombuffer(data, np.uint8).astype(np.int64), 0, VOCABULARY - 1)
    cut = int(len(codes) * (1 - TEST_SHARE))
    a, b, c, d = (torch.from_numpy(part.copy()) for part in (codes[:cut], codes[1 : cut + 1], codes[cut:-1], codes[cut + 1 :]))
    return Dataset("text", a, b, c, d, hashlib.sha256(data).hexdigest())


@cache
def noise(elements: int) -> Dataset:
    """Normal numbers, more of them than a tensor of so many elements takes. x: (elements + 4096,) float32; y: empty."""
    x = np.random.default_rng(SPLIT_SEED).standard_normal(elements + 4096, dtype=np.float32)
    a, empty = torch.from_numpy(x), torch.empty(0)
    return Dataset("noise", a, empty, empty, empty, hashlib.sha256(x.tobytes()).hexdigest())


VOCABULARY = 128
