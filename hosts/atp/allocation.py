"""Which aggregator a chunk asks for: a hash of the job, its place in the window, and the number of the attempt.

Chunk q has place q mod w in a window of w chunks, and a place keeps its aggregator until the server hands back another,
which reaches every worker with the result of the chunk before. Two places of a job have the same only where the table is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(16)
OF_JOB, OF_ATTEMPT = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77)
MOST_ATTEMPTS = 16  # to find an aggregator that no other place of the job has
FIRST, SECOND, SHIFT = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35), np.uint64(13)


@compiled("i8(i8, i8, i8, i8)")
def aggregator(job: int, place: int, attempt: int, aggregators: int) -> int:
    """An index into a table of so many aggregators: the finalizer of MurmurHash3 over job, place and attempt."""
    h = (np.uint64(place) + np.uint64(job + 1) * OF_JOB + np.uint64(attempt) * OF_ATTEMPT) & WORD
    h = (h ^ h >> HALF) * FIRST & WORD
    h = (h ^ h >> SHIFT) * SECOND & WORD
    return int((h ^ h >> HALF) % np.uint64(aggregators))


@compiled("UniTuple(i8, 2)(i8, i8, i8, i8, i8[::1])")
def following(job: int, place: int, attempt: int, taken: int, held: NDArray[np.int64]) -> tuple[int, int]:
    """A place's next aggregator, another than `taken`, and the attempt that gave it.

    `attempt` is the first to try. `held` counts the job's places by aggregator: one that none has is preferred.
    """
    found, tried = taken, attempt
    for tried in range(attempt, attempt + MOST_ATTEMPTS):
        index = aggregator(job, place, tried, len(held))
        if index != taken:
            found = index
            if not held[index]:
                break
    return found, tried


@compiled("UniTuple(i8[::1], 3)(i8, i8, i8)")
def beginning(job: int, window: int, aggregators: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The first aggregator of each place and the attempt that gave it, and the count of places by aggregator."""
    index, attempts, held = np.zeros(window, np.int64), np.zeros(window, np.int64), np.zeros(aggregators, np.int64)
    for place in range(window):
        index[place], attempts[place] = following(job, place, 0, -1, held)
        held[index[place]] += 1
    return index, attempts, held
