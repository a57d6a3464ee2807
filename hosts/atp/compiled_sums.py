"""What happens to the packets of a batch and to the rows of sums at a server of ATP: loops over the arrays of hosts.atp.merger.

Workers are columns of `who` and `seen`; what a tree knows of them (hosts.atp.tree) comes as arrays by rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import fields, wire
from inalab.hosts.atp.allocation import following
from inalab.hosts.atp.fields import chunk_near, put_owner, put_short, short
from inalab.hosts.compiled import compiled
from inalab.hosts.stream.octets import number, put, swap

KINDS = 5
SUMMAND, OWN_VALUES, QUESTION, OUTDATED, FOREIGN = range(KINDS)  # what a datagram may be
TAKEN = (wire.KIND_GRADIENT, wire.KIND_RAW, wire.KIND_QUERY)
LARGEST = 2**31 - 1

Rows = NDArray[np.intp]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Octets = NDArray[np.uint8]
Words = NDArray[np.int32]


@compiled("Tuple((u1[::1], i8[::1], b1[:, ::1]))(u1[:, ::1], u4[:], i8, u4, i8, i8, i8, i8, i8, b1[::1], i8[::1], i8[::1])")
def sort_out(
    octets: Octets, lengths: NDArray[np.uint32], size: int, epoch: int, job: int, newest: int, window: int, server: int,
    servers: int, local: Flags, numbers: Integers, bit1: Integers,
) -> tuple[Octets, Integers, Flags]:  # fmt: skip
    """What each of these datagrams is to this server, the chunk that it is about, and which workers are in it.

    `size` is a gradient's in bytes; `newest` the newest chunk so far. No chunk that is newer by more than the servers' windows can
    be under way.
    """
    count = len(octets)
    found, chunks = np.full(count, FOREIGN, np.uint8), np.zeros(count, np.int64)
    who = np.zeros((count, len(local)), np.bool_)
    for i in range(count):
        d = octets[i]
        kind = d[fields.KIND]
        if kind not in TAKEN or lengths[i] != (fields.SIZE if kind == wire.KIND_QUERY else size):
            continue
        if number(d, fields.EPOCH) != epoch:
            found[i] = OUTDATED
            continue
        q = chunk_near(d, newest)
        if d[fields.OWNER] != job or q < 0 or q > newest + window * servers or q % servers != server:
            continue
        zero, one = np.int64(number(d, fields.BITMAP0)), np.int64(number(d, fields.BITMAP1))
        anybody = False
        for rank in range(len(local)):
            inside = local[rank] or zero == 0 or zero >> numbers[rank] & 1 > 0
            who[i, rank] = one >> bit1[rank] & 1 > 0 and inside
            anybody |= who[i, rank]
        if anybody:
            chunks[i] = q
            found[i] = SUMMAND if kind == wire.KIND_GRADIENT else OWN_VALUES if kind == wire.KIND_RAW else QUESTION
    return found, chunks, who


@compiled("void(i8, i8, i8[::1], b1[:, ::1], b1[:, ::1], i8[:, ::1], b1[::1], i8[::1], u1[:, ::1])")
def begin(
    row: int,
    q: int,
    chunk: Integers,
    seen: Flags,
    raw_seen: Flags,
    total: Integers,
    complete: Flags,
    flags: Integers,
    results: Octets,
) -> None:
    """Begin a chunk in a row that was another one's."""
    chunk[row] = q
    seen[row] = False
    raw_seen[row] = False
    total[row] = 0
    complete[row] = False
    flags[row] = 0
    results[row, fields.FLAGS] = 0


@compiled(
    "Tuple((i8[::1], i8[:, ::1]))(i8[::1], i8[::1], b1[:, ::1], u1[:, ::1], i4[:, ::1],"
    "i8[::1], b1[:, ::1], b1[:, ::1], i8[:, ::1], b1[::1], i8[::1], u1[:, ::1])"
)
def add(
    where: Integers, chunks: Integers, who: Flags, octets: Octets, words: Words, chunk: Integers, seen: Flags, raw_seen: Flags,
    total: Integers, complete: Flags, flags: Integers, results: Octets,
) -> tuple[Rows, NDArray[np.int64]]:  # fmt: skip
    """Add these gradients, every worker once; the rows that are complete now, and (row, worker) of those who ask once more.

    A packet whose workers are in already, some or all of them, is not added. Of a complete row the result is asked for by a packet
    that is sent again, except by a worker that was told to: who asks is answered. What would begin a row anew that is complete
    since this batch is left out: its result is not sent yet.
    """
    full, n = np.empty(len(where), np.int64), 0
    done = np.zeros(len(chunk), np.bool_)
    asked, m = np.empty((len(where) * who.shape[1], 2), np.int64), 0
    for i in where:
        row, d = chunks[i] % len(chunk), octets[i]
        if chunks[i] < chunk[row] or (chunks[i] > chunk[row] and done[row]):
            continue
        if chunks[i] > chunk[row]:
            begin(row, chunks[i], chunk, seen, raw_seen, total, complete, flags, results)
        if complete[row]:
            if d[fields.FLAGS] & wire.JOINS == wire.RESEND:
                for rank in range(who.shape[1]):
                    if who[i, rank]:
                        asked[m, 0], asked[m, 1] = row, rank
                        m += 1
            continue
        if (seen[row] & who[i]).any():
            continue
        values = words[i, fields.HEADER_WORDS :]
        swap(values)
        for e in range(len(values)):
            total[row, e] += values[e]
        seen[row] |= who[i]
        flags[row] |= d[fields.FLAGS]
        results[row, fields.INDEX], results[row, fields.INDEX + 1] = d[fields.INDEX], d[fields.INDEX + 1]
        if seen[row].all():
            complete[row] = done[row] = True
            full[n] = row
            n += 1
    return full[:n], asked[:m]


@compiled("void(i8[::1], i8, i8[::1], i8[:, ::1], i8[::1], u1[:, ::1], i4[:, ::1])")
def finish(rows: Rows, job: int, chunk: Integers, total: Integers, flags: Integers, results: Octets, words: Words) -> None:
    """Make results of complete sums: of integers, or a request for raw values."""
    for row in rows:
        d, vector, sums = results[row], words[row, fields.HEADER_WORDS :], total[row]
        overflow = flags[row] & wire.OVERFLOW > 0
        for e in range(len(sums)):
            overflow |= abs(sums[e]) > LARGEST
        d[fields.KIND] = wire.KIND_RESULT
        d[fields.FLAGS] = (
            flags[row] & (wire.ECN | wire.COLLISION)
            | (wire.RESEND if flags[row] & wire.JOINS else 0)
            | (wire.OVERFLOW if overflow else 0)
        )
        put_owner(d, job, chunk[row])
        for e in range(len(sums)):
            vector[e] = 0 if overflow else sums[e]
        swap(vector)


@compiled("void(i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], u1[:, ::1])")
def assign(
    rows: Rows,
    job: int,
    chunk: Integers,
    flags: Integers,
    index: Integers,
    attempts: Integers,
    held: Integers,
    assigned: Flags,
    results: Octets,
) -> None:
    """The aggregators of the chunks one window later: another one after a collision, else as before.

    `index` and `attempts` are by place, `held` counts places by aggregator (hosts.atp.allocation.beginning).
    """
    for row in rows:
        place, taken = chunk[row] % len(index), short(results[row], fields.INDEX)
        if flags[row] & wire.COLLISION:
            held[index[place]] -= 1
            taken, attempts[place] = following(job, place, attempts[place] + 1, taken, held)
            held[taken] += 1
            index[place] = taken
            assigned[taken] = True
        put_short(results[row], fields.NEXT_INDEX, taken)


@compiled(
    "Tuple((i8[:, ::1], i8[::1]))(i8[::1], i8[::1], b1[:, ::1], u1[:, ::1], i8, i8[::1], i8[::1], i8[::1], b1[::1],"
    "b1[::1], i8[::1], b1[:, ::1], b1[:, ::1], b1[::1], u1[:, ::1], u1[:, ::1])"
)
def answer(
    where: Integers, chunks: Integers, who: Flags, octets: Octets, root: int, rack: Integers, numbers: Integers, bit1: Integers,
    local: Flags, done: Flags, chunk: Integers, seen: Flags, raw_seen: Flags, complete: Flags, results: Octets,
    statuses: Octets,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """Answer queries: (row, worker, rack) for each result that is asked for, and who is told what is incomplete.

    A result goes to one worker, or where that is -1 to all of a rack, or where that is -1, too, to all. The headers of
    statuses are written to the first rows of `statuses`, in the order of whom they are for. A status tells who is in, and how the
    one who asks sends again, if it is not: as for the first time where none is in; else so that no aggregator keeps it. Nothing
    is said of rows that are `done` since this batch: all get their results; nor of complete ones whose results are on their
    way, as far as the query knows (hosts.atp.succession).
    """
    ready, n = np.empty((len(where), 3), np.int64), 0
    asking, m = np.empty(len(where), np.int64), 0
    no_one = np.zeros(who.shape[1], np.bool_)
    for i in where:
        row, d = chunks[i] % len(chunk), octets[i]
        rank, raw = short(d, fields.NEXT_INDEX) % wire.RANKS, d[fields.FLAGS] & wire.RAW
        if chunks[i] < chunk[row] or rank >= who.shape[1] or done[row]:
            continue  # all have its result, or no worker asks
        have = no_one
        if chunks[i] == chunk[row]:
            wants_raw = results[row, fields.FLAGS] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW
            if complete[row] and not (raw and wants_raw):
                if not d[fields.FLAGS] & wire.JOINS:
                    continue  # it is on its way, as far as this worker knows
                results[row, fields.FLAGS] |= wire.RESEND  # for whoever gets it now, this round trip tells nothing
                ranks = np.flatnonzero(who[i])
                alone = ranks[0] if len(ranks) == 1 else -1
                near = rack[ranks[0]] if (rack[ranks] == rack[ranks[0]]).all() else -1
                ready[n, 0], ready[n, 1], ready[n, 2] = row, alone, near
                n += 1
                continue
            have = raw_seen[row] if raw else seen[row]
        zero, one = 0, 0
        for other in range(len(have)):
            if have[other]:
                one |= 1 << bit1[other]
                if rack[other] == rack[rank] and not local[rank]:
                    zero |= 1 << numbers[other]
        status = statuses[m]
        status[fields.LEAD : fields.LEAD + fields.SIZE] = d[fields.LEAD : fields.LEAD + fields.SIZE]
        put(status, fields.BITMAP0, zero)
        put(status, fields.BITMAP1, one)
        status[fields.KIND] = wire.KIND_STATUS
        status[fields.FLAGS] = raw | (wire.RESEND if raw or have.any() else wire.ASKED)
        asking[m] = rank
        m += 1
    return ready[:n], asking[:m]
