"""Datagrams in batches: memory that is allocated once and seen through numpy."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.stream.octets import offset


class Datagrams:
    """Datagrams of one type, one a row, seen in three ways: as records, as bytes, and as words in the processor's order.

    `octets` has shape (rows, `lead` + bytes of a record): a datagram follows `lead` bytes that never leave, so that its vector of
    integers consists of whole `words`. `lengths` are in bytes, of what was received.
    """

    def __init__(self, rows: int, record: np.dtype) -> None:
        self.record, self.lengths = record, np.full(rows, record.itemsize, np.uint32)
        self.octets = np.zeros((rows, lead(record) + record.itemsize), np.uint8)
        self.words: NDArray[np.int32] = self.octets.view(np.int32)
        whole = np.dtype([("lead", np.uint8, lead(record)), ("datagram", record)])
        self.data: NDArray[np.void] = self.octets.view(whole).reshape(-1)["datagram"]

    def first(self, rows: int, lengths: NDArray[np.uint32]) -> Datagrams:
        """The first of these rows, of these lengths; the same memory."""
        found = copy(self)
        found.octets, found.words, found.data, found.lengths = self.octets[:rows], self.words[:rows], self.data[:rows], lengths
        return found

    @property
    def base(self) -> int:
        """Where the first datagram is in memory."""
        return int(self.octets.ctypes.data) + lead(self.record)

    @property
    def stride(self) -> int:
        """Bytes from one datagram to the next."""
        return int(self.octets.shape[1])

    def __len__(self) -> int:
        return len(self.octets)


def lead(record: np.dtype) -> int:
    """Bytes that precede a datagram in memory: its vector is at a multiple of four behind them."""
    return -offset(record, "vector") % 4


class Send(NamedTuple):
    """These rows of the core's packets go to a peer by number, in this order.

    `length` is that of each in bytes, None: whole ones. What is `urgent` leaves the host before what waits there.
    """

    rows: NDArray[np.intp]
    peer: int
    length: int | None
    urgent: bool
