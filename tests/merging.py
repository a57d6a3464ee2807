"""ATP's server without sockets: packets in, results and statuses out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inalab.hosts.atp import wire
from inalab.hosts.atp.merger import Merger
from inalab.hosts.stream.datagrams import Datagrams
from tests.fake_network import rows_of


class Replies(NamedTuple):
    """What a server sends for a batch: hosts.atp.merger.Taken in plain types, with the statuses themselves."""

    finished: list[int]
    asked: list[tuple[int, int]]
    ready: list[tuple[int, int, int]]
    statuses: np.ndarray


def merger_of(made: tuple, window: int, k: int, aggregators: int, share: tuple[int, int] = (0, 1)) -> Merger:
    """A server of (job, epoch, tree)."""
    return Merger(*made, Datagrams(2 * window, wire.packet(k)), aggregators, share)


def take(made: Merger, packets: np.ndarray, bare: bool = False) -> Replies:
    """Have a server take in packets, of which gradients are bare or have vectors; queries among them are headers alone."""
    arrived, statuses = rows_of(packets), Datagrams(len(packets), made.datagrams.record)
    arrived.lengths[packets["kind"] == wire.KIND_QUERY] = wire.HEADER.itemsize
    if bare:
        arrived.lengths[packets["kind"] == wire.KIND_GRADIENT] = wire.BARE.itemsize
    taken = made.take(arrived, statuses)
    wording = np.zeros(len(taken.asking), wire.HEADER)
    for name in wording.dtype.names:
        wording[name] = statuses.data[name][: len(wording)]
    assert list(wording["next_index"] % wire.RANKS) == list(taken.asking)
    pairs = [(int(row), int(worker)) for row, worker in taken.asked]
    return Replies(list(map(int, taken.finished)), pairs, [tuple(map(int, ready)) for ready in taken.ready], wording)
