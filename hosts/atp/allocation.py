"""Which aggregator a chunk asks for: a hash of the job, its place in the window, and how often that has been changed.

Chunk q has place q mod w in a window of w chunks, and a place keeps its aggregator until the server hands back another,
which reaches every worker with the result of the chunk before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def aggregator(job: int, place: NDArray[np.int64], attempt: int, aggregators: int) -> NDArray[np.int64]:
    """Indices into a table of so many aggregators: the finalizer of MurmurHash3 over job, place and attempt."""
    h = (place.astype(np.uint64) + np.uint64((job + 1) * 0x9E3779B1 + attempt * 0x85EBCA77)) & np.uint64(0xFFFFFFFF)
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & np.uint64(0xFFFFFFFF)
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & np.uint64(0xFFFFFFFF)
    return ((h ^ h >> np.uint64(16)) % np.uint64(aggregators)).astype(np.int64)
