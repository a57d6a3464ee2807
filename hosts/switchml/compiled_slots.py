"""What happens to the packets of a batch and to their slots at a SwitchML worker: loops over the arrays of hosts.switchml.worker.

Datagrams are seen as bytes, (packets, size), and as words in the processor's order, (packets, size / 4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled
from inalab.hosts.stream.octets import number, offset, put, swap
from inalab.hosts.stream.quantization import CODE_UNKNOWN, CODE_ZERO, block_exponent, dequantize, quantize
from inalab.hosts.switchml import wire

KINDS = 5
FRESH, NEEDLESS, STATUS, OUTDATED, MALFORMED = range(KINDS)  # what a datagram may be
JOB, KIND, VERSION, SLOT, EXPONENT, MARK, EPOCH, CHUNK = (
    offset(wire.HEADER, name) for name in ("job", "kind", "version", "slot", "exponent", "mark", "epoch", "chunk")
)
SEEN = offset(wire.STATUS, "seen")
EPOCHS = 1 << 32
HEADER_WORDS = wire.HEADER.itemsize // 4
KIND_UPDATE, KIND_RESULT, KIND_STATUS = wire.KIND_UPDATE, wire.KIND_RESULT, wire.KIND_STATUS

Rows = NDArray[np.intp]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.uint8]
Octets = NDArray[np.uint8]
Words = NDArray[np.int32]
Floats = NDArray[np.float32]  # of a tensor; where it needs no exponents, int32 in their place


@compiled("Tuple((i8[::1], i8[::1], b1[::1], u1[::1], i8))(u1[:, ::1], u4[:], i8, u4, i8, i8, i8[::1])")
def sort_out(
    datagrams: Octets, lengths: NDArray[np.uint32], job: int, epoch: int, result: int, status: int, chunk: Integers
) -> tuple[Integers, Rows, Flags, Octets, int]:
    """Find the fresh results among datagrams, one of each chunk that waits; `result` and `status` are sizes in bytes.

    Returns their places, their slots, and whether every worker sent the chunk once; and of all datagrams what they are, and the sum
    of their bytes.
    """
    count = len(datagrams)
    places, rows = np.empty(count, np.int64), np.empty(count, np.int64)
    once, found = np.empty(count, np.bool_), np.empty(count, np.uint8)
    had = np.zeros(len(chunk), np.bool_)
    n, size = 0, 0
    for i in range(count):
        d = datagrams[i]
        size += lengths[i]
        slot = np.int64(d[SLOT]) << 8 | d[SLOT + 1]
        is_result = lengths[i] == result and d[KIND] == KIND_RESULT
        is_status = lengths[i] == status and d[KIND] == KIND_STATUS
        if not (is_result or is_status) or d[JOB] != job or slot >= len(chunk):
            found[i] = MALFORMED
        elif is_status:
            found[i] = STATUS
        elif number(d, EPOCH) != epoch:
            found[i] = OUTDATED
        elif chunk[slot] < 0 or chunk[slot] & 0xFFFFFFFF != number(d, CHUNK) or had[slot]:
            found[i] = NEEDLESS
        else:
            found[i] = FRESH
            had[slot] = True
            places[n], rows[n], once[n] = i, slot, d[MARK] == 0
            n += 1
    return places[:n], rows[:n], once[:n], found, size


@compiled("Tuple((i8[::1], b1[::1]))(i8[::1], u1[:, ::1], u4, i8, i8[::1], i8[::1], i8[:, ::1])")
def read_statuses(
    places: Integers, datagrams: Octets, epoch: int, worker: int, chunk: Integers, tries: Integers, seen: Integers
) -> tuple[Rows, Flags]:
    """Find the statuses that answer queries of this group; of what is about a slot's chunk bitmaps are kept in `seen`, by level.

    Returns their slots, one of each, and whether this worker is lacking. Level 0 of `seen` is the switch next to the workers, its
    last entry tells that a newer group is being served; -1 is not known.
    """
    rows, lacking, n = np.empty(len(places), np.int64), np.empty(len(places), np.bool_), 0
    had = np.zeros(len(chunk), np.bool_)
    for i in places:
        d = datagrams[i]
        row = np.int64(d[SLOT]) << 8 | d[SLOT + 1]
        if chunk[row] < 0 or chunk[row] & 0xFFFFFFFF != number(d, CHUNK):
            continue
        if number(d, EPOCH) != epoch:
            ahead = np.int64(number(d, EPOCH)) - np.int64(epoch)
            if 0 < ahead % EPOCHS < EPOCHS // 2:
                seen[row, -1] = 0
            continue
        bitmap = np.int64(number(d, SEEN))
        if d[MARK] < seen.shape[1] - 1:
            seen[row, d[MARK]] = bitmap
        lacks = d[MARK] == 0 and bitmap >> worker & 1 == 0
        if had[row] or (lacks and d[EXPONENT] != tries[row] & 0xFF):
            continue
        had[row] = True
        rows[n], lacking[n] = row, lacks
        n += 1
    return rows[:n], lacking[:n]


@compiled("i8(i8[::1], i8[::1], i4[:, ::1], i8, i8, b1, i8[::1], b1[::1], u1[::1], f8[::1], f4[::1])")
def take(
    rows: Rows, places: Integers, words: Words, start: int, length: int, blocks: bool, next: Integers, ahead: Flags, largest: Codes,
    steps: NDArray[np.float64], result: Floats,
) -> int:  # fmt: skip
    """Put the sums of one tensor's chunks into its result; how many there are. `steps` are what 1 is worth, by exponent code."""
    k, taken = words.shape[1] - HEADER_WORDS, 0
    for i in range(len(rows)):
        j = next[rows[i]] - start
        if 0 <= j < length and not ahead[rows[i]]:
            sums = words[places[i], HEADER_WORDS:]
            chunk = result[j * k : (j + 1) * k]
            swap(sums)
            if blocks:
                dequantize(sums, steps[largest[j]], chunk)
            else:
                chunk.view(np.int32)[:] = sums[: len(chunk)]
            taken += 1
    return taken


@compiled("void(i8[::1], i8[::1], u1[:, ::1], i8[::1], i8[::1], b1[::1], b1[::1], u1[::1])")
def turn(
    rows: Rows, places: Integers, datagrams: Octets, round: Integers, next: Integers, ahead: Flags, announced: Flags, agreed: Codes
) -> None:
    """These slots' rounds are complete: the next one is about the same chunk where exponents went ahead, else about a later one."""
    for i in range(len(rows)):
        row = rows[i]
        round[row] += 1
        announced[row] = ahead[row]
        next[row] += 0 if ahead[row] else len(next)
        agreed[row] = datagrams[places[i], EXPONENT]


@compiled("i8[::1](i8[::1], i8, i8[::1], i8[::1], i8[::1], i8[::1], u1[:, ::1])")
def open_rounds(
    rows: Rows, position: int, round: Integers, next: Integers, chunk: Integers, tries: Integers, datagrams: Octets
) -> Rows:
    """Write the headers of these slots' next packets, as far as there are chunks for them; in which slots there are."""
    released, n = np.empty(len(rows), np.int64), 0
    for row in rows:
        if next[row] >= position:
            continue
        released[n] = row
        n += 1
        chunk[row] = round[row] * len(chunk) + row
        tries[row] = 0
        d = datagrams[row]
        d[KIND], d[MARK], d[VERSION], d[EXPONENT] = KIND_UPDATE, 0, round[row] & 1, CODE_UNKNOWN
        put(d, CHUNK, chunk[row] & 0xFFFFFFFF)
    return released[:n]


@compiled("void(i8[::1], i8, i8, b1, i8[::1], b1[::1], b1[::1], u1[::1], u1[::1], f8[::1], f4[::1], u1[:, ::1], i4[:, ::1])")
def fill(
    rows: Rows, start: int, length: int, blocks: bool, next: Integers, announced: Flags, ahead: Flags, agreed: Codes,
    largest: Codes, scales: NDArray[np.float64], values: Floats, datagrams: Octets, words: Words,
) -> None:  # fmt: skip
    """Put one tensor's chunks into these packets, and the exponents of those of its chunks that the slots carry next.

    Exponents go ahead, alone, where the chunk's own is unknown, and once for the first chunk. `scales` are by exponent code.
    """
    k = words.shape[1] - HEADER_WORDS
    for row in rows:
        j = next[row] - start
        if 0 <= j < length:
            vector = words[row, HEADER_WORDS:]
            ahead[row] = not announced[row] and (j == 0 or (blocks and agreed[row] == CODE_UNKNOWN))
            if ahead[row]:
                vector[:] = 0
            else:
                largest[j] = agreed[row]
                chunk = values[j * k : (j + 1) * k]
                if blocks:
                    quantize(chunk, scales[largest[j]], vector)
                else:
                    vector[: len(chunk)] = chunk.view(np.int32)
                    vector[len(chunk) :] = 0
                swap(vector)
        j += 0 if ahead[row] else len(next)
        if 0 <= j < length:
            datagrams[row, EXPONENT] = block_exponent(values[j * k : (j + 1) * k]) if blocks else CODE_ZERO
