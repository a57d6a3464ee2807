"""What happens to the packets of a batch and to their places at a worker of ATP: loops over the arrays of hosts.atp.worker."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import fields, wire
from inalab.hosts.atp.fields import asker, chunk_near, put_owner, put_short, short
from inalab.hosts.compiled import compiled
from inalab.hosts.stream.octets import number, put, swap
from inalab.hosts.stream.quantization import LARGEST, quantize

KINDS = 6
SUM, OVERFLOWING, NEEDLESS, STATUS, OUTDATED, MALFORMED = range(KINDS)  # what a datagram may be; the first three are results

Places = NDArray[np.intp]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Octets = NDArray[np.uint8]
Words = NDArray[np.int32]
Floats = NDArray[np.float32]  # of a tensor; int32 in their place where it has those


@compiled("Tuple((u1[::1], i8[::1], i8))(u1[:, ::1], u4[:], i8, u4, i8, i8, i8[::1], b1[::1])")
def sort_out(
    octets: Octets, lengths: NDArray[np.uint32], job: int, epoch: int, result: int, oldest: int, chunk: Integers, raw: Flags
) -> tuple[Octets, Integers, int]:  # fmt: skip
    """What each of these datagrams is to this worker, and the chunk that it is about; and the sum of their bytes.

    `result` is the size of a result in bytes. The first of a chunk that is waited for is a sum, or it asks for raw values, if this
    worker has not sent them yet; others are needless.
    """
    count, window = len(octets), len(chunk)
    found, chunks, size = np.full(count, MALFORMED, np.uint8), np.zeros(count, np.int64), 0
    had = np.zeros(window, np.bool_)
    for i in range(count):
        d = octets[i]
        size += lengths[i]
        is_status = lengths[i] == fields.SIZE and d[fields.KIND] == wire.KIND_STATUS
        if not (is_status or (lengths[i] == result and d[fields.KIND] == wire.KIND_RESULT)) or d[fields.OWNER] != job:
            continue
        if number(d, fields.EPOCH) != epoch:
            found[i] = OUTDATED
            continue
        q = chunk_near(d, oldest)
        chunks[i] = q
        if is_status:
            found[i] = STATUS
            continue
        place = q % window
        wants_raw = d[fields.FLAGS] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW
        if q < 0 or chunk[place] != q or had[place] or (wants_raw and raw[place]):
            found[i] = NEEDLESS
            continue
        had[place] = True
        found[i] = OVERFLOWING if wants_raw else SUM
    return found, chunks, size


@compiled("Tuple((b1[::1], i8, i8[::1]))(i8[::1], i8[::1], u1[:, ::1], i8[::1], i8[::1], i8[::1])")
def learn(
    where: Integers, places: Places, octets: Octets, order: Integers, tries: Integers, index: Integers
) -> tuple[Flags, int, Places]:
    """What results tell beside sums: the places' next aggregators, which are kept, and what is returned.

    Whether every worker sent the chunk once; the number of the newest packet that is marked, -1 if none is; and the places whose
    packets were sent again although they had only collided.
    """
    once, collided = np.empty(len(places), np.bool_), np.empty(len(places), np.int64)
    marked, n = -1, 0
    for i in range(len(places)):
        d, place = octets[where[i]], places[i]
        once[i] = d[fields.FLAGS] & wire.RESEND == 0
        if d[fields.FLAGS] & wire.ECN:
            marked = max(marked, order[place])
        if d[fields.FLAGS] & wire.COLLISION and tries[place] > 0:
            collided[n] = place
            n += 1
        index[place] = short(d, fields.NEXT_INDEX)
    return once, marked, collided[:n]


@compiled("i8(i8[::1], i8[::1], u1[:, ::1], i4[:, ::1], i8, i8, b1, f8, f4[::1])")
def take(
    where: Integers, chunks: Integers, octets: Octets, words: Words, start: int, length: int, floats: bool, factor: float,
    result: Floats,
) -> int:  # fmt: skip
    """Put the sums of one tensor's chunks into its result; how many there are, the announcement included."""
    k, taken = words.shape[1] - fields.HEADER_WORDS, 0
    for i in range(len(chunks)):
        j = chunks[i] - start
        if 0 <= j < length:
            taken += 1
            if j > 0:
                sums = words[where[i], fields.HEADER_WORDS :]
                chunk = result[(j - 1) * k : j * k]
                swap(sums)
                if floats and not octets[where[i], fields.FLAGS] & wire.RAW:
                    for e in range(len(chunk)):
                        chunk[e] = np.float32(np.float64(sums[e]) / factor)
                else:
                    chunk.view(np.int32)[:] = sums[: len(chunk)]
    return taken


@compiled("i8[::1](i8[::1], i8[::1], i8, i8)")
def released(chunk: Integers, next: Integers, position: int, most: int) -> Places:
    """The places whose next chunks are to be sent, in the order of those: as many as `most` chunks under way leave room for.

    A chunk that is older than all that are under way is sent in any case. Else workers whose windows are cut while they wait
    for different chunks could each have no room for the one that the others lack.
    """
    ready, n = np.empty(len(chunk), np.int64), 0
    outstanding, oldest, first = 0, position, position
    for place in range(len(chunk)):
        if chunk[place] >= 0:
            outstanding += 1
            oldest = min(oldest, chunk[place])
        elif next[place] < position:
            first = min(first, next[place])
            ready[n] = place
            n += 1
    room = max(most - outstanding, 1 if first < oldest else 0)
    ready = ready[:n]
    return ready[np.argsort(next[ready])][:room]


@compiled("void(i8[::1], i8, i8[:, ::1], u1[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], i8[::1], u1[:, ::1])")
def open_places(
    places: Places, job: int, bitmaps: Integers, edge: Octets, index: Integers, next: Integers, chunk: Integers, path: Integers,
    tries: Integers, raw: Flags, again: Integers, octets: Octets,
) -> None:  # fmt: skip
    """Write the headers of these places' next packets; `bitmaps` and `edge` are by server."""
    for place in places:
        q = next[place]
        server = q % len(edge)
        next[place] += len(chunk)
        chunk[place], path[place], tries[place], raw[place], again[place] = q, server, 0, False, wire.RESEND
        d = octets[place]
        put(d, fields.BITMAP0, bitmaps[server, 0])
        put(d, fields.BITMAP1, bitmaps[server, 1])
        d[fields.KIND], d[fields.FLAGS] = wire.KIND_GRADIENT, edge[server]
        put_short(d, fields.INDEX, index[place])
        put_owner(d, job, q)


@compiled("void(i8[::1], i8[::1], i8, i8, b1, f8, f4[::1], u1[:, ::1], i4[:, ::1])")
def fill(
    places: Places,
    chunk: Integers,
    start: int,
    length: int,
    floats: bool,
    factor: float,
    values: Floats,
    octets: Octets,
    words: Words,
) -> None:
    """Put one tensor's chunks into these packets, behind its announcement; one that does not fit into integers is marked."""
    k = words.shape[1] - fields.HEADER_WORDS
    for place in places:
        j = chunk[place] - start
        if 0 < j < length:
            vector, own = words[place, fields.HEADER_WORDS :], values[(j - 1) * k : j * k]
            fits: Any = True
            if floats:
                for x in own:
                    fits &= abs(np.float64(x)) * factor <= LARGEST  # which NaN is not
            if not fits:
                octets[place, fields.FLAGS] |= wire.OVERFLOW
                vector[:] = 0
            elif floats:
                quantize(own, factor, vector)
            else:
                vector[: len(own)] = own.view(np.int32)
                vector[len(own) :] = 0
            swap(vector)


@compiled("void(i8[::1], b1[::1], b1[::1], i8, u1[::1], i8[::1], i8[::1], b1[::1], u1[:, ::1])")
def ask(
    places: Places, again: Flags, missed: Flags, rank: int, edge: Octets, path: Integers, tries: Integers, raw: Flags,
    octets: Octets,
) -> None:  # fmt: skip
    """Write queries about these places' chunks, one window behind their packets.

    `again` where it is not the first, `missed` where the result may be lost.
    """
    for i in range(len(places)):
        place = places[i]
        query = octets[len(path) + place]
        query[fields.LEAD : fields.END] = octets[place, fields.LEAD : fields.END]
        query[fields.KIND] = wire.KIND_QUERY
        marks = (wire.ASKED if again[i] else 0) | (wire.RESEND if missed[i] else 0) | (wire.RAW if raw[place] else 0)
        query[fields.FLAGS] = edge[path[place]] | marks
        put_short(query, fields.NEXT_INDEX, asker(rank, tries[place]))


@compiled(
    "Tuple((i8[::1], i8[::1], b1[::1]))(i8[::1], u1[:, ::1], i8, i8, i8[:, ::1], i8[::1], i8[::1], i8[::1], b1[::1], u1[:, ::1])"
)
def read_statuses(
    where: Integers, octets: Octets, oldest: int, rank: int, bitmaps: Integers, chunk: Integers, path: Integers, tries: Integers,
    raw: Flags, kept: Octets,
) -> tuple[Places, Integers, Flags]:  # fmt: skip
    """Find the statuses that answer the last queries; of what is about a place's chunk the last header is kept.

    Returns their places, one of each, how to send again, and whether this worker is lacking.
    """
    places, marks, lacking, n = np.empty(len(where), np.int64), np.empty(len(where), np.int64), np.empty(len(where), np.bool_), 0
    had = np.zeros(len(chunk), np.bool_)
    for i in where:
        d = octets[i]
        q = chunk_near(d, oldest)
        place, asked = q % len(chunk), short(d, fields.NEXT_INDEX)
        if q < 0 or chunk[place] != q or raw[place] != (d[fields.FLAGS] & wire.RAW > 0) or asked % wire.RANKS != rank:
            continue
        kept[place] = d[fields.LEAD : fields.END]
        if asked != asker(rank, tries[place]) or had[place]:
            continue
        had[place] = True
        zero, one = np.int64(number(d, fields.BITMAP0)), np.int64(number(d, fields.BITMAP1))
        own_zero, own_one = bitmaps[path[place]]
        inside = own_zero == 0 or zero == 0 or zero & own_zero > 0
        places[n], marks[n], lacking[n] = place, d[fields.FLAGS] & wire.JOINS, not (one & own_one > 0 and inside)
        n += 1
    return places[:n], marks[:n], lacking[:n]
