"""BERT-large (Devlin et al., 2019), pretrained on sequences of 128 tokens, and GPT-2 small (Radford et al., 2019) on 512.

A block is two layers, attention and feed-forward, each with its normalization. The output's weights are those of the embedding,
so their gradient is whole when the embedding's is: at the end of the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from inalab.hosts.training.architectures.architecture import Architecture, LayerShape, Timing, joined, linear
from inalab.hosts.training.architectures.sources import ADAM, NVIDIA


def blocks(count: int, width: int, tokens: int) -> Iterator[LayerShape]:
    """Feed-forward layers are four times as wide inside."""
    norm = LayerShape("norm", 2 * width, 0)
    for i in range(count):
        projections = [linear("q, k, v", width, 3 * width, tokens), linear("out", width, width, tokens)]
        scores = LayerShape("scores and sums", 0, 2 * tokens**2 * width)
        yield joined(f"{i}.attention", [*projections, scores, norm])
        yield joined(f"{i}.feed-forward", [linear("in", width, 4 * width, tokens), linear("out", 4 * width, width, tokens), norm])


def bert_large() -> Iterator[LayerShape]:
    """With the heads of pretraining: 20 of 128 tokens are predicted."""
    width, words, tokens, predicted = 1024, 30522, 128, 20
    yield LayerShape("embeddings", (words + 512 + 2) * width + 2 * width, 0)
    yield from blocks(24, width, tokens)
    transform, norm = linear("transform", width, width, predicted), LayerShape("norm", 2 * width, 0)
    scores = LayerShape("words", words, words * width * predicted)
    yield joined("heads", [linear("pooler", width, width), linear("next", width, 2), transform, norm, scores])


def gpt2() -> Iterator[LayerShape]:
    """Every token's successor is predicted."""
    width, words, tokens = 768, 50257, 512
    yield LayerShape("embeddings", (words + 1024) * width, 0)
    yield from blocks(12, width, tokens)
    yield LayerShape("words", 2 * width, words * width * tokens)


ARCHITECTURES = (
    Architecture("bert-large", tuple(bert_large()), {"v100": Timing.of_rate(46.78, 32, NVIDIA)}),
    Architecture("gpt2", tuple(gpt2()), {"v100": Timing(62.98, 4, ADAM)}),
)
