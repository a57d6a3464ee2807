"""What each worker sums, told to all others within the sum.

Every all-reduce begins with the tensor's tag, a number of 24 bits that is mixed from length and dtype. Where the sum of the
tags is not n times a worker's own, somebody sums another tensor, and all send their announcements: vectors of k integers that
are summed as any other chunk. Up to k/2 workers have two lanes each, where the elements and the dtype arrive as they are. More
workers share lanes; what is in one is then a number of 24 bits, so that the sum fits, and shows that somebody differs, but not how.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import UNNAMED, Call, Label, workers

CODES = {np.dtype(np.float32): 1, np.dtype(np.int32): 2}
BYTES = 0  # code of what is copied, whatever it is
EXACT = 3  # code of float32 of which each element is summed as several integers
NAMES = {1: "float32", 2: "int32", EXACT: "float32"}
SHARED_BITS = 24
ROOT = 36  # bits of the number of elements of calls that have a root
REDUCES = (Call.REDUCE, Call.REDUCE_AVERAGE, Call.SCALED_REDUCE)
ROOTED = {Call.BROADCAST: "from worker", Call.COMBINE: "of kind", **dict.fromkeys(REDUCES, "to worker")}


def tag(x: NDArray[Any], empties: int = 0, label: Label = UNNAMED) -> int:
    """A tensor's, of SHARED_BITS bits. So many empty ones (< EMPTIES) were summed before it."""
    return _words(*_kind(x, label), True, empties)[0]


def announce(x: NDArray[Any], rank: int, size: int, k: int, empties: int = 0, label: Label = UNNAMED) -> NDArray[np.int32]:
    """The announcement of a tensor by one of `size` workers, shape (k,), which nobody may change. So many empty ones (< EMPTIES)
    were summed before it."""
    return _vector(*_kind(x, label), rank, size, k, empties)


def _kind(x: NDArray[Any], label: Label) -> tuple[int, int]:
    """Elements, and above them the root of calls that have one; and a code of six bits for dtype and call."""
    root = label.root << ROOT if label.call in ROOTED else 0
    code = BYTES if label.octets else EXACT if label.floats else CODES[x.dtype]
    return (label.octets or label.floats or x.size) | root, code | label.call.value << 2


@lru_cache(maxsize=4096)
def _vector(elements: int, code: int, rank: int, size: int, k: int, empties: int) -> NDArray[np.int32]:
    lanes = k // 2
    vector = np.zeros(k, np.int32)
    vector[[rank % lanes, lanes + rank % lanes]] = _words(elements, code, size > lanes, empties)
    vector.flags.writeable = False
    return vector


def differences(
    total: NDArray[np.int32], x: NDArray[Any], names: list[int], k: int, empties: int = 0, label: Label = UNNAMED
) -> str | None:
    """Who sums something else than x, by the sum of all announcements; None if none does. The workers have `names`, by rank."""
    kind = _kind(x, label)
    lanes, size = k // 2, len(names)
    shared = size > lanes
    ranks = [list(range(lane, size, lanes)) for lane in range(min(lanes, size))]
    words = total.reshape(2, lanes).T.astype(np.int64)
    own = np.array(_words(*kind, shared, empties), np.int64)
    if shared:
        unlike = [who for who, word in zip(ranks, words, strict=False) if (word != len(who) * own).any()]
        if not unlike:
            return None
        named = "; ".join(_some([names[one] for one in who]) for who in unlike)
        return f"the workers sum different tensors: {_described(*_words(*kind, False, empties), names)} here, another on {named}"
    groups: dict[tuple[int, int], list[int]] = {}
    for (rank,), word in zip(ranks, words, strict=False):
        groups.setdefault((int(word[0]), int(word[1])), []).append(rank)
    if len(groups) == 1:
        return None
    by_size = sorted(groups.items(), key=lambda group: -len(group[1]))
    listed = [f"{_described(*word, names)} on {workers([names[one] for one in who])}" for word, who in by_size]
    return f"the workers sum different tensors: {'; '.join(listed)}"


@lru_cache(maxsize=4096)
def _words(elements: int, code: int, shared: bool, empties: int) -> tuple[int, int]:
    """Elements and code of a tensor, and the empty ones before it; for a shared lane two numbers that are mixed from them."""
    code |= empties << 22
    if not shared:
        return elements & 0x7FFFFFFF, elements >> 31 << 6 | code
    first = _mixed(elements & 0xFFFFFFFF ^ _mixed(elements >> 32 << 6 | code))
    return first >> 32 - SHARED_BITS, _mixed(first ^ 0x9E3779B9) >> 32 - SHARED_BITS


def _some(names: list[int]) -> str:
    """Workers of which at least one differs."""
    return f"some of {workers(names)}" if len(names) > 1 else workers(names)


def _described(low: int, high: int, names: list[int]) -> str:
    behind = f" behind {empties} empty tensors" if (empties := high >> 22) else ""
    call, above = high >> 2 & 0xF, (high >> 6 & 0xFFFF) << 31 | low
    by = f" for {Call(call).name.lower()}" if 0 < call < len(Call) else ""
    root, elements = 0, above
    if call < len(Call) and (what := ROOTED.get(Call(call))):
        root, elements = divmod(above, 1 << ROOT)
        of_worker = call != Call.COMBINE.value and root < len(names)
        by += f" {what} {names[root] if of_worker else root}"
    if not high & 3:
        return f"{elements:,} bytes{by}{behind}"
    return f"{elements:,} elements of {NAMES[high & 3]}{by}{behind}"


def _mixed(x: int) -> int:
    """The finalizer of MurmurHash3."""
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16
