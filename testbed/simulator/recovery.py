"""What a worker does about chunks whose results do not come: hosts.stream.recovery for compiled loops, by its names.

Rows are slots, or places in a window. The loops over them are the real stream's (hosts.stream.compiled_rows).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.hosts.stream import compiled_rows
from inalab.hosts.stream.recovery import GAP, LONGEST_BACKOFF, LONGEST_WAIT, UNSAMPLED
from inalab.testbed.simulator.atp.congestion import lost_one
from inalab.testbed.simulator.sending import send_chunk, send_query
from inalab.testbed.simulator.timers import BY_RESULT, BY_STATUS, STREAM, URGENT, needless, sample
from inalab.testbed.simulator.world import (
    ASKED,
    ASKED_AT,
    ATP,
    CHUNK,
    DEADLINE,
    INFORMED,
    OVERTAKEN,
    PATH,
    PRESSED,
    SENDING,
    SENT_AT,
    TRIES,
    WORLD,
    B,
    Flags,
    R,
    Rows,
    World,
    Z,
)

Numbers = NDArray[np.int64]


@compiled(Z(WORLD, Z), inline=True)
def rows_of(world: World, w: int) -> int:
    """How many slots a worker has."""
    return int(world.jobs[world.workers[w].job].slots)


@compiled(Z(WORLD, Z), inline=True)
def paths_of(world: World, w: int) -> int:
    """How many paths a worker's stream has."""
    return int(world.jobs[world.workers[w].job].paths)


@compiled(R(WORLD, Z), inline=True)
def soonest(world: World, w: int) -> float:
    """The shortest timeout of all its paths."""
    found = world.backoffs[w, 0, 0]
    for path in range(1, paths_of(world, w)):
        found = min(found, world.backoffs[w, path, 0])
    return float(found)


@compiled(Rows(WORLD, Z, Rows, Z))
def of_path(world: World, w: int, rows: Numbers, path: int) -> Numbers:
    """Those of these rows whose chunks go along a path."""
    return rows[np.array([world.slots[w, PATH, row] == path for row in rows], np.bool_)]


@compiled(numba.void(WORLD, Z))
def latest(world: World, w: int) -> None:
    """Deadlines have changed."""
    me, last = world.workers[w], 0.0
    for row in range(rows_of(world, w)):
        if world.slots[w, CHUNK, row] >= 0:
            last = max(last, world.slot_times[w, DEADLINE, row])
    me.latest, me.earlier = last, 1


@compiled(numba.void(WORLD, Z, Rows, R, B), inline=True)
def transmit(world: World, w: int, rows: Numbers, now: float, urgent: bool) -> None:
    """Stream._send: packets of these rows leave, one after another."""
    me, s = world.workers[w], rows_of(world, w)
    own, times = world.slots[w], world.slot_times[w]
    compiled_rows.sent(
        rows, now, me.sent, world.backoffs[w], own[PATH, :s], own[TRIES, :s], times[SENT_AT, :s], own[SENDING, :s],
        times[DEADLINE, :s], own[OVERTAKEN, :s],
    )  # fmt: skip
    me.sent += len(rows)
    for path in range(paths_of(world, w)):
        me.latest = max(me.latest, now + world.backoffs[w, path, world.backoffs.shape[2] - 1])
    me.earlier |= now + soonest(world, w) < me.timer_at
    for path in range(paths_of(world, w)):
        for row in rows:
            if own[PATH, row] == path:
                own[ASKED, row] = own[PRESSED, row] = own[INFORMED, row] = 0
                send_chunk(world, now, w, row, urgent)


@compiled(numba.void(WORLD, Z, Rows, R, B))
def retransmit(world: World, w: int, rows: Numbers, now: float, urgent: bool) -> None:
    """Stream.retransmit."""
    if len(rows) == 0:
        return
    me, own = world.workers[w], world.slots[w]
    me.retransmissions += len(rows)
    last = rows[0]
    for row in rows:
        own[TRIES, row] += 1
        if own[SENDING, row] > own[SENDING, last]:
            last = row
    if world.jobs[me.job].scheme == ATP:
        lost_one(world, w, own[CHUNK, last], own[SENDING, last])
    transmit(world, w, rows, now, urgent)


@compiled(Rows(WORLD, Z))
def outstanding(world: World, w: int) -> Numbers:
    """Rows that wait for a result."""
    return np.flatnonzero(world.slots[w, CHUNK, : rows_of(world, w)] >= 0)


@compiled(Rows(WORLD, Z, Rows, Z))
def eldest(world: World, w: int, rows: Numbers, most: int) -> Numbers:
    """Those of these rows that were sent first, so many at most."""
    orders = np.array([world.slots[w, SENDING, row] for row in rows], np.int64)
    return rows[np.argsort(orders, kind="mergesort")[:most]]


@compiled(numba.void(WORLD, Z))
def go_on(world: World, w: int) -> None:
    """Recovery._go_on."""
    world.workers[w].probing = min(2 * world.workers[w].probing, max(1, rows_of(world, w) // 8))


@compiled(B(WORLD, Z, R, B), inline=True)
def pull(world: World, w: int, now: float, in_order: bool) -> bool:
    """Recovery._pull. Where results come in order there are no gaps, and seldom is there a deadline that is too late."""
    me, s, own = world.workers[w], rows_of(world, w), world.slots[w]
    if in_order and me.latest <= now + soonest(world, w):
        return False
    found = compiled_rows.pull(
        now, world.backoffs[w], own[PATH, :s], own[CHUNK, :s], own[PRESSED, :s], own[OVERTAKEN, :s],
        world.slot_times[w, DEADLINE, :s],
    )  # fmt: skip
    latest(world, w)
    return found


@compiled(B(WORLD, Z, Rows), inline=True)
def in_order(world: World, w: int, rows: Numbers) -> bool:
    """Whether these results are those of the packets that were sent first, and no others have come before: they overtake none."""
    me, order = world.workers[w], world.slots[w, SENDING]
    for row in rows:
        if me.gaps or order[row] != me.in_order:
            return False
        me.in_order += 1
    return True


@compiled(numba.void(WORLD, Z, Rows, R))
def resending_expired(world: World, w: int, rows: Numbers, now: float) -> None:
    """Resending.expired."""
    me, own, times = world.workers[w], world.slots[w], world.slot_times[w]
    first = np.inf
    for row in outstanding(world, w):
        first = min(first, times[SENT_AT, row])
    is_lost = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        row = rows[i]
        timeout = world.backoffs[w, own[PATH, row], 0]
        if me.heard_at <= first:
            times[DEADLINE, row] = now + timeout
        elif own[OVERTAKEN, row] == 0 and me.heard_at + timeout > now:
            times[DEADLINE, row] = me.heard_at + timeout
        else:
            is_lost[i] = True
    lost = rows[is_lost]
    if me.heard_at <= first:
        lost = eldest(world, w, rows, me.probing)
        go_on(world, w)
    if len(lost):
        me.timeouts += 1
        me.timed_out_at = now
    retransmit(world, w, lost, now, False)


@compiled(numba.void(WORLD, Z, R))
def resend_at_gaps(world: World, w: int, now: float) -> None:
    """Resending.settled, with at_gaps."""
    own, waiting = world.slots[w], outstanding(world, w)
    late = np.array([own[OVERTAKEN, row] >= GAP and own[TRIES, row] == 0 for row in waiting], np.bool_)
    retransmit(world, w, waiting[late], now, False)


@compiled(numba.void(WORLD, Z, Rows, R, B))
def query(world: World, w: int, rows: Numbers, now: float, urgent: bool) -> None:
    """Asking._query, and SwitchML._ask."""
    if len(rows) == 0:
        return
    me, s, own, times = world.workers[w], rows_of(world, w), world.slots[w], world.slot_times[w]
    again = compiled_rows.query(
        rows, now, urgent, world.backoffs[w], world.urgent_backoffs[w, URGENT, 0], own[PATH, :s], own[ASKED, :s], own[INFORMED, :s],
        times[ASKED_AT, :s], times[DEADLINE, :s],
    )  # fmt: skip
    for path in range(paths_of(world, w)):
        for i in range(len(rows)):
            if own[PATH, rows[i]] == path:
                send_query(world, now, w, rows[i], again[i], urgent)
    me.queries += len(rows)
    latest(world, w)


@compiled(numba.void(WORLD, Z, Rows, R))
def overdue(world: World, w: int, rows: Numbers, now: float) -> None:
    """Asking._overdue."""
    for row in rows:
        world.slots[w, PRESSED, row] += 1
        world.slots[w, OVERTAKEN, row] = 0
    query(world, w, rows, now, True)


@compiled(numba.void(WORLD, Z, Rows, R))
def pause(world: World, w: int, rows: Numbers, now: float) -> None:
    """Asking._pause."""
    s, own = rows_of(world, w), world.slots[w]
    soon = 2 * world.urgent_backoffs[w, URGENT, 0]
    compiled_rows.pause(
        rows, now, world.workers[w].silence, LONGEST_BACKOFF, LONGEST_WAIT, world.backoffs[w], soon,
        own[PATH, :s], own[ASKED, :s], own[PRESSED, :s], world.slot_times[w, DEADLINE, :s],
    )  # fmt: skip
    latest(world, w)


@compiled(B(WORLD, Z, Z))
def untouched(world: World, w: int, row: int) -> bool:
    """Whether nothing has overtaken a row, and it was not sent again."""
    return bool(world.slots[w, OVERTAKEN, row] == 0 and world.slots[w, TRIES, row] == 0)


@compiled(numba.void(WORLD, Z, Rows, R))
def follow(world: World, w: int, rows: Numbers, now: float) -> None:
    """Asking._follow, on the paths of these rows."""
    if world.workers[w].silence == 0:
        return
    go_on(world, w)
    waiting = outstanding(world, w)
    quiet = waiting[np.array([untouched(world, w, row) and world.slots[w, ASKED, row] == 0 for row in waiting], np.bool_)]
    for path in range(paths_of(world, w)):
        if len(of_path(world, w, rows, path)):
            query(world, w, eldest(world, w, of_path(world, w, quiet, path), world.workers[w].probing), now, True)


@compiled(numba.void(WORLD, Z, Rows, Z, R))
def take_answers(world: World, w: int, rows: Numbers, timer: int, now: float) -> None:
    """Asking._answers."""
    trips, n = np.empty(len(rows)), 0
    for row in rows:
        if world.slots[w, ASKED, row] == 1 and world.slot_times[w, ASKED_AT, row] > 0:
            trips[n] = now - world.slot_times[w, ASKED_AT, row]
            n += 1
    sample(world, w, timer, trips[:n])


@compiled(numba.void(WORLD, Z, Rows, Flags, R))
def answered(world: World, w: int, rows: Numbers, lacking: NDArray[np.bool_], now: float) -> None:
    """Asking.answered."""
    for row in rows:
        world.slots[w, INFORMED, row] = world.slots[w, ASKED, row] + 1
    pause(world, w, rows[~lacking], now)
    if not world.jobs[world.workers[w].job].near:
        take_answers(world, w, rows, BY_STATUS, now)
    again = rows[lacking]
    if len(again):
        s = rows_of(world, w)
        retransmit(world, w, again, now, True)
        compiled_rows.hasten(
            again, now, world.urgent_backoffs[w, URGENT], world.slots[w, TRIES, :s], world.slot_times[w, DEADLINE, :s]
        )
        latest(world, w)
        follow(world, w, again, now)


@compiled(numba.void(WORLD, Z, Rows, Rows, R))
def in_silence(world: World, w: int, quiet: Numbers, silent: Numbers, now: float) -> None:
    """Asking._in_silence."""
    if len(silent) == 0:
        return
    me, own, deadline = world.workers[w], world.slots[w], world.slot_times[w, DEADLINE]
    in_turn = np.array([(own[ASKED, row] << 40) + own[SENDING, row] for row in quiet], np.int64)
    first = quiet[np.argsort(in_turn, kind="mergesort")[: me.probing]]
    is_silent, is_first = np.zeros(len(deadline), np.bool_), np.zeros(len(deadline), np.bool_)
    for row in silent:
        is_silent[row] = True
    for row in first:
        is_first[row] = True
    due = np.array([row for row in np.sort(first) if is_silent[row]], np.int64)
    if len(due):
        known = np.array([own[ASKED, row] > 0 for row in due], np.bool_)
        query(world, w, due[~known], now, False)
        query(world, w, due[known], now, True)
        if me.silence:
            go_on(world, w)
        me.silence += 1
    rest = np.array([row for row in silent if not is_first[row]], np.int64)
    pause(world, w, rest, now)
    latest = -np.inf
    for row in first:
        latest = max(latest, deadline[row])
    for row in rest:
        deadline[row] = max(latest, deadline[row])


@compiled(numba.void(WORLD, Z, Rows, R))
def asking_expired(world: World, w: int, rows: Numbers, now: float) -> None:
    """Asking.expired."""
    me, own, deadline = world.workers[w], world.slots[w], world.slot_times[w, DEADLINE]
    waiting = outstanding(world, w)
    quiet = np.array([row for row in waiting if untouched(world, w, row) and own[PRESSED, row] == 0], np.int64)
    is_quiet = np.zeros(len(deadline), np.bool_)
    for row in quiet:
        is_quiet[row] = True
    for row in rows:  # Asking._patiently
        its = world.timers[w, STREAM + own[PATH, row]]
        deadline[row] = its.heard_on + (world.backoffs[w, own[PATH, row], 0] - its.srtt) if is_quiet[row] else now
    rows = rows[np.array([deadline[row] <= now for row in rows], np.bool_)]
    if len(rows) == 0:
        return
    me.timeouts += 1
    me.timed_out_at = now
    overdue(world, w, np.array([row for row in rows if not is_quiet[row]], np.int64), now)
    silent = np.array([row for row in rows if is_quiet[row]], np.int64)
    for path in range(paths_of(world, w)):
        in_silence(world, w, of_path(world, w, quiet, path), of_path(world, w, silent, path), now)


@compiled(Rows(WORLD, Z, Rows, Flags, R), inline=True)
def hear(world: World, w: int, rows: Numbers, once: NDArray[np.bool_], now: float) -> Numbers:
    """Stream._settled, what the timers make of it; the rows whose results can overtake others."""
    me, s, own, times = world.workers[w], rows_of(world, w), world.slots[w], world.slot_times[w]
    path, tries = own[PATH, :s], own[TRIES, :s]
    me.heard_at = now
    first = rows[np.array([once[i] and tries[rows[i]] == 0 for i in range(len(rows))], np.bool_)]
    for row in first:
        world.timers[w, STREAM + path[row]].heard_on = now
    waited, telling, of = compiled_rows.settle(
        rows, once, now, me.timed_out_at, path, tries, times[SENT_AT, :s], own[CHUNK, :s], times[DEADLINE, :s]
    )
    for number in range(paths_of(world, w)):
        its = telling[of == number] if paths_of(world, w) > 1 else telling
        if len(its):
            world.timers[w, STREAM + number].sampled_on = now
        sample(world, w, STREAM + number, its)
    me.waited += waited
    me.results += len(rows)
    return first


@compiled(numba.void(WORLD, Z, Rows, Flags, R), inline=True)
def settled(world: World, w: int, rows: Numbers, once: NDArray[np.bool_], now: float) -> None:
    """Stream._settled, and what the recovery makes of it."""
    first = hear(world, w, rows, once, now)
    me, s, own = world.workers[w], rows_of(world, w), world.slots[w]
    path, chunk, order, overtaken = own[PATH, :s], own[CHUNK, :s], own[SENDING, :s], own[OVERTAKEN, :s]
    orderly = in_order(world, w, rows)
    if not orderly:
        compiled_rows.overtake(first, paths_of(world, w), path, order, chunk, overtaken)
        me.in_order, me.gaps = me.sent, 0
        for row in range(s):
            if chunk[row] >= 0:
                me.in_order = min(me.in_order, order[row])
                me.gaps |= overtaken[row] > 0
    if not world.jobs[me.job].asks:
        me.probing = 1
        if pull(world, w, now, orderly) and world.jobs[me.job].scheme == ATP:
            resend_at_gaps(world, w, now)
        return
    repeated = rows[~once]
    if len(repeated):
        take_answers(world, w, repeated, BY_RESULT, now)
        more_than_once = False
        for row in repeated:
            more_than_once |= own[ASKED, row] > max(own[INFORMED, row], 1)
        if more_than_once:
            needless(world, w, BY_RESULT, now)
    all_asked = True
    for row in rows:
        all_asked &= own[ASKED, row] > 0
    if len(repeated) and all_asked:
        follow(world, w, repeated, now)
    else:
        me.probing, me.silence = 1, 0
    if pull(world, w, now, orderly):
        overdue(world, w, compiled_rows.overdue(GAP, LONGEST_BACKOFF, path, chunk, order, overtaken, own[PRESSED, :s]), now)


@compiled(numba.void(WORLD, Z, Z, R))
def results_needless(world: World, w: int, path: int, now: float) -> None:
    """Recovery.needless: results that are not awaited have come over a path."""
    sampled_on = world.timers[w, STREAM + path].sampled_on
    if not world.jobs[world.workers[w].job].asks or now - sampled_on > UNSAMPLED * world.backoffs[w, path, 0]:
        needless(world, w, STREAM + path, now)
