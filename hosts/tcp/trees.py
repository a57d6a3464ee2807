"""An aggregation tree that follows the links' rates (MLfabric, SoCC '20, bandwidth-aware aggregation; our reading of it).

Sums go up a tree of workers, and the total comes down it. For each neighbour in the tree a worker sends a whole tensor and receives
one. So with d neighbours and a link of rate B it takes d S/B for S bytes, and the tree takes as long as its busiest worker. Slow
workers are leaves, as far as that helps; equally fast ones form a chain, which takes 2 S/B, as a ring does with many workers.

The tensor goes in pieces, one behind another, so that all links are busy at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import pairwise

from inalab.hosts.tcp.schedules import Move, Schedule

PIECES = 64  # the more, the sooner the pipeline is full; each costs a message to every neighbour


def degrees(rates: Sequence[float]) -> list[int]:
    """How many neighbours each worker has in the tree whose busiest worker is the least busy; a rate of 0 means no limit.

    Every worker has one, and n - 2 more are given, one after another, to whichever worker would be least busy with it.
    """
    n = len(rates)
    found = [min(1, n - 1)] * n

    def busy(rank: int) -> tuple[float, int]:
        """How busy it would be with one more neighbour. Those in the middle go first, so that equal ones form a chain by rank."""
        return (found[rank] + 1) / (rates[rank] or math.inf), abs(2 * rank - n + 1)

    waiting = [(busy(rank), rank) for rank in range(n)]
    heapq.heapify(waiting)
    for _ in range(n - 2):
        rank = waiting[0][1]
        found[rank] += 1
        heapq.heapreplace(waiting, (busy(rank), rank))
    return found


def neighbours(rates: Sequence[float], racks: Sequence[int]) -> list[list[int]]:
    """Of each worker: those with several form a chain by rank, and each leaf joins a worker of its own rack if it can."""
    left = degrees(rates)
    found: list[list[int]] = [[] for _ in left]

    def join(one: int, other: int) -> None:
        for a, b in ((one, other), (other, one)):
            found[a].append(b)
            left[a] -= 1

    inner = [rank for rank, degree in enumerate(left) if degree > 1] or [0]
    for one, other in pairwise(inner):
        join(one, other)
    for leaf in sorted(set(range(len(left))) - set(inner)):
        join(leaf, min((r for r in inner if left[r]), key=lambda r: (racks[r] != racks[leaf], abs(r - leaf))))
    return found


def busiest(beside: Sequence[Sequence[int]], rates: Sequence[float]) -> float:
    """How long the busiest worker of a tree needs for a tensor of one byte."""
    return max(len(others) / (rate or math.inf) for others, rate in zip(beside, rates, strict=True))


def tree(rates: Sequence[float], racks: Sequence[int]) -> Schedule:
    """An all-reduce over the tree of workers with links of these rates in these racks."""
    return along(neighbours(rates, racks))


def along(beside: Sequence[Sequence[int]]) -> Schedule:
    """An all-reduce over the tree in which workers have these neighbours, with the root that makes it lowest.

    A worker adds its children's sums of a piece to its own, and sends the result on in the next step. Totals come down likewise.
    """
    root = min(range(len(beside)), key=lambda rank: len(_levels(beside, rank)))
    levels = _levels(beside, root)
    above = {rank: depth for depth, level in enumerate(levels) for rank in level}
    parent = {child: rank for rank in above for child in beside[rank] if above[child] > above[rank]}
    below = dict.fromkeys(above, 0)  # a subtree's height
    for level in reversed(levels[1:]):
        for rank in level:
            below[parent[rank]] = max(below[parent[rank]], below[rank] + 1)
    height = below[root]
    schedule: Schedule = [[] for _ in range(2 * height + PIECES - 1)] if parent else []
    for piece in range(PIECES):
        for child, rank in sorted(parent.items()):
            schedule[below[child] + piece].append(Move(child, rank, piece, True))
            schedule[height + above[rank] + piece].append(Move(rank, child, piece, False))
    return schedule


def _levels(beside: Sequence[Sequence[int]], root: int) -> list[list[int]]:
    """The tree's workers by their distance from the root."""
    levels, seen = [[root]], {root}
    while following := [other for rank in levels[-1] for other in beside[rank] if other not in seen]:
        levels.append(following)
        seen.update(following)
    return levels
