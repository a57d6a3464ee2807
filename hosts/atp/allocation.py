"""Which aggregator a chunk asks for (allocation.c)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.cores import library, pointer


def beginning(job: int, window: int, aggregators: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The first aggregator of each place and the attempt that gave it, and the count of places by aggregator."""
    index, attempts, held = np.zeros(window, np.int64), np.zeros(window, np.int64), np.zeros(aggregators, np.int64)
    library().atp_beginning(job, window, aggregators, *(pointer(array, "int64_t[]") for array in (index, attempts, held)))
    return index, attempts, held
