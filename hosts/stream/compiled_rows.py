"""What happens to the rows of a stream in a batch: loops over its arrays (hosts.stream.stream), one entry a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

SOON = 2  # queries about a chunk that is overtaken that do not wait for a timeout

Rows = NDArray[np.intp]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@compiled("void(i8[::1], f8, i8, f8[:, ::1], i8[::1], i8[::1], f8[::1], i8[::1], f8[::1], i8[::1])")
def sent(
    rows: Rows, now: float, first: int, timeouts: Floats, path: Integers, tries: Integers,
    sent_at: Floats, order: Integers, deadline: Floats, overtaken: Integers,
) -> None:  # fmt: skip
    """These rows' packets have left, numbered from `first`; `timeouts` are by path and number of tries."""
    longest = timeouts.shape[1] - 1
    for i in range(len(rows)):
        row = rows[i]
        sent_at[row] = now
        order[row] = first + i
        deadline[row] = now + timeouts[path[row], min(tries[row], longest)]
        overtaken[row] = 0


@compiled("Tuple((f8, i8, i8))(i8[::1], f8[::1])")
def watch(chunk: Integers, deadline: Floats) -> tuple[float, int, int]:
    """The first deadline, how many rows are outstanding, and the oldest of their chunks, -1 where there is none."""
    first, outstanding, oldest = np.inf, 0, -1
    for row in range(len(chunk)):
        first = min(first, deadline[row])
        if chunk[row] >= 0:
            outstanding += 1
            oldest = chunk[row] if oldest < 0 else min(oldest, chunk[row])
    return first, outstanding, oldest


@compiled("Tuple((f8, f8[::1], i8[::1]))(i8[::1], b1[::1], f8, f8, i8[::1], i8[::1], f8[::1], i8[::1], f8[::1])")
def settle(
    rows: Rows, once: NDArray[np.bool_], now: float, since: float, path: Integers, tries: Integers, sent_at: Floats,
    chunk: Integers, deadline: Floats,
) -> tuple[float, Floats, Integers]:  # fmt: skip
    """Results of these rows have come: the sum of their round trips; the round trips that tell of the network, and their paths.

    They do where no worker sent a packet of the chunk again (`once` for others, `tries` for this worker), and if they began after
    `since`.
    """
    waited, n = 0.0, 0
    telling, paths = np.empty(len(rows)), np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        row = rows[i]
        round_trip = now - sent_at[row]
        waited += round_trip
        if once[i] and tries[row] == 0 and sent_at[row] > since:
            telling[n], paths[n] = round_trip, path[row]
            n += 1
        chunk[row] = -1
        deadline[row] = np.inf
    return waited, telling[:n], paths[:n]


@compiled("void(i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1])")
def overtake(rows: Rows, paths: int, path: Integers, order: Integers, chunk: Integers, overtaken: Integers) -> None:
    """Count the results of these rows for the rows that were sent before them on the same path."""
    newest = -1
    for row in rows:
        newest = max(newest, order[row])
    in_order = True
    for row in range(len(chunk)):
        in_order &= chunk[row] < 0 or order[row] > newest
    if in_order:
        return  # as nearly always
    for of_path in range(paths):
        come = np.sort(np.array([order[row] for row in rows if path[row] == of_path]))
        for row in range(len(chunk)):
            if chunk[row] >= 0 and path[row] == of_path:
                overtaken[row] += len(come) - np.searchsorted(come, order[row])


@compiled("b1(f8, f8[:, ::1], i8[::1], i8[::1], i8[:], i8[::1], f8[::1])")
def pull(
    now: float, timeouts: Floats, path: Integers, chunk: Integers, held: Integers, overtaken: Integers, deadline: Floats
) -> bool:
    """Let the rows that wait and are not held wait for one timeout more at most; whether results have overtaken any that waits."""
    gaps = False
    for row in range(len(chunk)):
        if chunk[row] >= 0:
            gaps |= overtaken[row] > 0
            if not held[row]:
                deadline[row] = min(deadline[row], now + timeouts[path[row], 0])
    return gaps


@compiled("i8[::1](i8, i8, i8[::1], i8[::1], i8[::1], i8[::1], i8[:])")
def overdue(gap: int, most: int, path: Integers, chunk: Integers, order: Integers, overtaken: Integers, pressed: Integers) -> Rows:
    """The rows that enough results have overtaken: `gap`, and once they have been asked about for that, a window, two, and so on.

    `most` is how often that is doubled. At the end of what is under way fewer are enough, where no more than that can come.
    """
    found, n = np.empty(len(chunk), np.int64), 0
    for row in range(len(chunk)):
        if chunk[row] < 0 or overtaken[row] == 0:
            continue
        if pressed[row] > 0:
            late = overtaken[row] >= len(chunk) << min(pressed[row] - 1, most)
        else:
            late = overtaken[row] >= gap
            if not late:
                later = 0
                for other in range(len(chunk)):
                    later += chunk[other] >= 0 and path[other] == path[row] and order[other] > order[row]
                late = overtaken[row] + later < gap
        if late:
            found[n] = row
            n += 1
    return found[:n]


@compiled("b1[::1](i8[::1], f8, b1, f8[:, ::1], f8, i8[::1], i8[:], i8[:], f8[::1], f8[::1])")
def query(
    rows: Rows, now: float, urgent: bool, timeouts: Floats, urgent_timeout: float, path: Integers, asked: Integers,
    informed: Integers, asked_at: Floats, deadline: Floats,
) -> Flags:  # fmt: skip
    """These rows are asked about: which of them have been before, or answered.

    The next one waits twice as long each time that none is answered; what is urgent up to the stream's timeout, since an answer may
    wait in a queue that is longer than any urgent round trip before.
    """
    again, longest = np.empty(len(rows), np.bool_), timeouts.shape[1] - 1
    for i in range(len(rows)):
        row = rows[i]
        again[i] = informed[row] + asked[row] > 0
        asked[row] += 1
        asked_at[row] = now if urgent else 0.0
        wait = timeouts[path[row], 0]
        if urgent:
            wait = min(wait, urgent_timeout)
        unanswered = asked[row] - max(informed[row], 1)
        deadline[row] = now + min(wait * 2.0**unanswered, timeouts[path[row], 0 if urgent else longest])
    return again


@compiled("void(i8[::1], f8, i8, i8, f8, f8[:, ::1], f8, i8[::1], i8[:], i8[:], f8[::1])")
def pause(
    rows: Rows, now: float, silence: int, most: int, longest: float, timeouts: Floats, soon: float, path: Integers, asked: Integers,
    pressed: Integers, deadline: Floats,
) -> None:  # fmt: skip
    """Do not ask about these rows for a timeout, doubled up to `most` times the more often that has been in vain.

    What is lacking of a chunk that results have overtaken is sent again urgently: the first waits are `soon` over. In a silence
    somebody is late, as a rule, and whatever was asked about has been in vain.
    """
    for row in rows:
        wait, vain = timeouts[path[row], 0], asked[row]
        if pressed[row] > 0 and vain <= SOON:
            wait = min(wait, soon)
        elif pressed[row] == 0:
            vain = max(vain, silence)
        deadline[row] = now + min(wait * (1 << min(max(vain - 1, 0), most)), longest)


@compiled("void(i8[::1], f8, f8[::1], i8[::1], f8[::1])")
def hasten(rows: Rows, now: float, urgent_timeouts: Floats, tries: Integers, deadline: Floats) -> None:
    """What was sent again urgently is asked about by the timeouts of what is urgent."""
    for row in rows:
        deadline[row] = min(deadline[row], now + urgent_timeouts[min(max(tries[row] - 1, 0), len(urgent_timeouts) - 1)])
