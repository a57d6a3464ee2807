"""Which Summation Service adds which partition (BytePS, OSDI '20, section 4.1).

There is a service on each of n workers' hosts and on each of k spare hosts. While a tensor of M bytes is summed, a spare host's
link carries n times the service's share s of it in each direction. A worker's host pushes and pulls what is not its own
service's, and its service exchanges its share with the n - 1 others: M (1 + (n - 2) s). With equal rates all links carry the
same where

    worker's host  s = (n - k) / D        spare host  s = 2 (n - 1) / D        D = n² + kn - 2k

which takes 2n(n - 1) M / (D · rate). Where rates differ, hosts still finish together, but a worker's host that would finish
later even without a share gets none. That is an optimum of the linear program that minimizes the time of the last host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import scipy

BOUND = 101  # of the hash
SCRAP = 0.25  # of a partition, below which a service has nothing of a tensor
BY_BYTES, BY_HASH = "bytes", "hash"
ASSIGNMENTS = (BY_BYTES, BY_HASH)


def shares(workers: int, rates: Sequence[float]) -> list[float]:
    """What part of all bytes each service adds, those of the workers' hosts first; `rates` are of the hosts' links."""
    n, own, spare = workers, rates[:workers], rates[workers:]
    if n == 1:
        return [1.0, *(0.0 for _ in spare)]
    if n == 2:  # a service costs a worker's host nothing: whatever it adds, its link carries the tensor once
        taken = [rate / min(own) / n for rate in spare]
        most = max(sum(taken), 1.0)
        left = 1 - sum(taken) / most
        return [*(left * rate / sum(own) for rate in own), *(part / most for part in taken)]

    def ending(time: float) -> list[float]:
        """The shares with which all links are busy for so long, in units of M / rate."""
        return [*(max(0.0, (time * rate - 1) / (n - 2)) for rate in own), *(time * rate / n for rate in spare)]

    slowest = 2.0 * n / min(rates)  # by when each host could add everything
    found = ending(scipy.optimize.brentq(lambda time: sum(ending(time)) - 1, 0.0, slowest, xtol=1e-15, rtol=1e-14))
    whole = sum(found)
    return [share / whole for share in found]


@dataclass(frozen=True)
class Piece:
    """A part of a tensor: its bytes, the service that adds it, and how far into the tensor's sum it is to be sent, from 0 to 1."""

    size: int
    service: int
    turn: float


class Assignment(Protocol):
    """Cuts tensors into pieces, in turn of the sums: the same on all workers."""

    def cut(self, tensor: str, size: int) -> list[Piece]:
        """The pieces of the tensor of that name, of so many bytes (a multiple of 4), in the order in which they lie in it."""
        ...


class ByBytes:
    """Each service has its share of each tensor, in equal pieces. What would be a scrap it has of a later tensor."""

    def __init__(self, shares: Sequence[float], partition: int) -> None:
        self.shares, self.partition = list(shares), partition
        self.lacking = [0.0] * len(shares)  # bytes of the tensors so far

    def cut(self, tensor: str, size: int) -> list[Piece]:
        """See Assignment."""
        due = [lack + share * size for lack, share in zip(self.lacking, self.shares, strict=True)]
        chosen = [number for number, amount in enumerate(due) if amount >= SCRAP * self.partition]
        chosen = chosen or [max(range(len(due)), key=lambda number: (due[number], -number))]
        amounts = _whole([due[number] for number in chosen], size)
        self.lacking = due
        pieces = []
        for number, amount in zip(chosen, amounts, strict=True):
            if not amount:
                continue
            self.lacking[number] -= amount
            count = -(-amount // self.partition)
            sizes = _whole([1.0] * count, amount)
            pieces += [Piece(each, number, (i + 0.5) / count) for i, each in enumerate(sizes)]
        return pieces


class ByHash:
    """As BytePS's public code does it in its mixed mode: djb2 of a partition's key, blind to sizes."""

    def __init__(self, workers: int, spare: int, partition: int) -> None:
        self.workers, self.spare, self.partition = workers, spare, partition
        self.tensors: dict[str, int] = {}  # by name, numbered as they come

    def cut(self, tensor: str, size: int) -> list[Piece]:
        """See Assignment."""
        key = self.tensors.setdefault(tensor or f"{size} bytes", len(self.tensors)) << 16
        starts = range(0, size, self.partition)
        return [Piece(min(self.partition, size - s), self._service(key + i), (i + 0.5) / len(starts)) for i, s in enumerate(starts)]

    def _service(self, key: int) -> int:
        n, k = self.workers, self.spare
        hashed = djb2(key) % BOUND
        if hashed < BOUND * 2.0 * k * (n - 1) / max(n * (n + k) - 2 * k, 1):
            return n + djb2(hashed) % k
        return djb2(hashed) % n


def _whole(amounts: Sequence[float], total: int) -> list[int]:
    """Multiples of 4 in proportion to the amounts, which add up to a total that is one."""
    ends = [round(total / 4 * end / sum(amounts)) * 4 for end in accumulate(amounts)]
    return [end - start for start, end in pairwise([0, *ends[:-1], total])]


def djb2(key: int) -> int:
    """Bernstein's hash of a number's decimal text, in 64 bits."""
    hashed = 5381
    for octet in str(key).encode():
        hashed = (hashed * 33 + octet) & 0xFFFFFFFFFFFFFFFF
    return hashed
