"""A queue of events for compiled loops: a binary heap, in order of time, and of `order` where times are equal.

It is three arrays of one length: times in seconds, orders, and numbers that say what happens. The first event is at 0.
"""

from __future__ import annotations

from typing import Any

from inalab.hosts.compiled import compiled


@compiled("b1(f8, i8, f8, i8)")
def before(time: float, order: int, other_time: float, other_order: int) -> bool:
    """Whether an event comes before another."""
    return time < other_time or (time == other_time and order < other_order)


@compiled("i8(f8[::1], i8[::1], i8[::1], i8, f8, i8, i8)")
def push(times: Any, orders: Any, whats: Any, size: int, time: float, order: int, what: int) -> int:
    """Put an event in, for which there must be room; the new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if not before(time, order, times[parent], orders[parent]):
            break
        times[at], orders[at], whats[at] = times[parent], orders[parent], whats[parent]
        at = parent
    times[at], orders[at], whats[at] = time, order, what
    return size + 1


@compiled("i8(f8[::1], i8[::1], i8[::1], i8)")
def pop(times: Any, orders: Any, whats: Any, size: int) -> int:
    """Take the first event out, which the caller has read; the new size."""
    size -= 1
    time, order, what = times[size], orders[size], whats[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and before(times[child + 1], orders[child + 1], times[child], orders[child]):
            child += 1
        if before(time, order, times[child], orders[child]):
            break
        times[at], orders[at], whats[at] = times[child], orders[child], whats[child]
        at = child
    times[at], orders[at], whats[at] = time, order, what
    return size
