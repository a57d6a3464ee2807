"""Which results were lost: each that a server sends to all names the two before it, and they come in the order they left in.

A worker whose chunk others overtake does not know what has happened. A packet of the chunk may be lost, or its result; or somebody
was late with it, and its result is on its way. The last is the most frequent by far where results are lost: whoever has lost one
is late with the chunk after it. If the server answered a query with the result then, over a link that results fill already, it
would delay all that are behind, and others would ask. So it answers with a result only those who know from a later one's names that
theirs was lost, who hear nothing at all, who have sent their part again, or who ask once more.

The paper has workers send again what seems to be lost, and the server answer each of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.atp import fields, wire
from inalab.hosts.compiled import compiled
from inalab.hosts.stream.octets import number, put

NO_ONE = 0xFFFFFFFF  # no sequence number


@compiled("void(i8[::1], i8[::1], u1[:, ::1])")
def name(rows: NDArray[np.int64], before: NDArray[np.int64], results: NDArray[np.uint8]) -> None:
    """Have these rows' results name the two before each; `before` are the last two, and will be.

    One of which something was sent again overtakes others on its way (see hosts.atp.server): it names none, and is not named.
    """
    for row in rows:
        d = results[row]
        if d[fields.FLAGS] & wire.RESEND:
            put(d, fields.BITMAP0, NO_ONE)
            put(d, fields.BITMAP1, NO_ONE)
        else:
            put(d, fields.BITMAP0, before[0])
            put(d, fields.BITMAP1, before[1])
            before[0], before[1] = number(d, fields.OWNER) % wire.SEQUENCES, before[0]


@compiled("i8[::1](i8[::1], u1[:, ::1], i8, i8[::1], b1[::1])")
def named(
    where: NDArray[np.int64], octets: NDArray[np.uint8], oldest: int, chunk: NDArray[np.int64], raw: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The places that wait for results which these name: they were lost, or are among these. One may come out twice."""
    found, n = np.empty(2 * len(where), np.int64), 0
    for i in where:
        d = octets[i]
        for field in (fields.BITMAP0, fields.BITMAP1):
            sequence = np.int64(number(d, field))
            if d[fields.FLAGS] & wire.RESEND or sequence == NO_ONE:
                continue
            q = fields.nearest(sequence, oldest)
            if q >= 0 and chunk[q % len(chunk)] == q and not raw[q % len(chunk)]:
                found[n] = q % len(chunk)
                n += 1
    return found[:n]
