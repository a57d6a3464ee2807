"""A server's results name those before them, and a worker knows by that which of them were lost."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.hosts.atp import wire
from inalab.hosts.atp.tree import Tree
from inalab.hosts.atp.worker import AtpWorker
from inalab.hosts.collective import Membership
from inalab.hosts.cores import ffi, library
from inalab.hosts.stream.datagrams import Datagrams
from tests.fake_network import rows_of
from tests.merging import merger_of

RECORD = wire.packet(1)
WINDOW = 8
ALONE = Membership(0, 0, 1, [[0]])
NO_ONE = 0xFFFFFFFF  # no sequence number


def results(*chunks: int, late: int = -1) -> np.ndarray:
    """Of chunks, in the order in which they leave; a packet of chunk `late` was sent again."""
    made = Datagrams(len(chunks), RECORD)
    made.data["owner"] = np.array(chunks) % wire.SEQUENCES
    made.data["flags"] = np.where(np.array(chunks) == late, wire.RESEND, 0)
    merger = merger_of((0, 1, Tree(ALONE, 0)), WINDOW, 1, 64)
    for row in range(len(chunks)):
        merger.results[row] = made.data[row]
        library().merger_name(merger.core, row)
    return merger.results[: len(chunks)].copy()


def lost(came: np.ndarray, *waiting: int, raw: int = -1) -> set[int]:
    """The chunks, of those that a worker waits for, whose results these show to be lost."""
    worker = AtpWorker(ALONE, 1, [0], WINDOW, 1, 64)
    for chunk in waiting:
        worker.rows["chunk"][chunk % WINDOW], worker.places["raw"][chunk % WINDOW] = chunk, chunk == raw
    places = ffi.new("int32_t[]", 2 * len(came))
    count = library().atp_named(worker.core, rows_of(came).c, min(waiting), places)
    return {int(worker.rows["chunk"][places[i]]) for i in range(count)}


@pytest.mark.parametrize("start", [0, wire.SEQUENCES - 3, 2**32 - 2])
def test_a_result_names_the_two_before_it(start: int) -> None:
    """Also where sequence numbers come round."""
    q = [start + chunk for chunk in (3, 0, 4, 1, 2, 5)]
    sent = results(*q)
    assert lost(sent[[0, 1, 3, 4]], q[2], q[5]) == {q[2]}  # one that is lost; the last may be on its way
    assert lost(sent[[0, 3]], q[1], q[2], q[4], q[5]) == {q[1], q[2]}  # two in a row
    assert lost(sent[[0, 4]], q[1], q[2], q[3], q[5]) == {q[2], q[3]}  # of three, the last two
    assert lost(sent[:2], q[2], q[3]) == set()


def test_the_first_result_names_nobody() -> None:
    assert set(results(7)[["bitmap0", "bitmap1"]].tolist()[0]) == {NO_ONE}


def test_what_overtakes_others_is_no_link_of_the_chain() -> None:
    """The results of a chunk of which something was sent again leave first: they prove nothing, and nothing is known of them."""
    sent = results(0, 1, 2, 3, late=2)
    assert lost(sent[[2]], 0, 1) == set()
    assert lost(sent[[3]], 2) == set()
    assert lost(sent[[3]], 1) == {1}
    again = sent[[3]]
    again["flags"] = wire.RESEND  # an answer to a query: the same names, and it comes first
    assert lost(again, 1) == set()


def test_who_has_sent_raw_values_has_had_that_result() -> None:
    assert lost(results(0, 1), 0, raw=0) == set()
