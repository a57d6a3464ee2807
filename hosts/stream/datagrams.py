"""Datagrams in batches: memory that is allocated once and seen through numpy, and by the cores."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.cores import ffi


class Datagrams:
    """Datagrams of one type, one a row, seen as records and as bytes.

    `octets` has shape (rows, `lead` + bytes of a record): a datagram follows `lead` bytes that never leave, so that its vector is
    at a multiple of four. `lengths` are in bytes, of what was received, or is sent with its own; at first those of whole records.
    """

    def __init__(
        self, rows: int, record: np.dtype, octets: NDArray[np.uint8] | None = None, lengths: NDArray[np.uint32] | None = None
    ) -> None:
        """`octets` and `lengths`: memory that is there already."""
        self.record = record
        self.lengths = np.full(rows, record.itemsize, np.uint32) if lengths is None else lengths
        self.octets = np.zeros((rows, lead(record) + record.itemsize), np.uint8) if octets is None else octets
        whole = np.dtype([("lead", np.uint8, lead(record)), ("datagram", record)])
        self.data: NDArray[np.void] = self.octets.view(whole).reshape(-1)["datagram"]

    def first(self, rows: int, lengths: NDArray[np.uint32]) -> Datagrams:
        """The first of these rows, of these lengths; the same memory."""
        return Datagrams(rows, self.record, self.octets[:rows], lengths)

    def behind(self, rows: int) -> Datagrams:
        """All but the first of these rows; the same memory."""
        return Datagrams(len(self) - rows, self.record, self.octets[rows:], self.lengths[rows:])

    @property
    def base(self) -> int:
        """Where the first datagram is in memory."""
        return int(self.octets.ctypes.data) + lead(self.record)

    @property
    def stride(self) -> int:
        """Bytes from one datagram to the next."""
        return int(self.octets.shape[1])

    @cached_property
    def c(self) -> Any:
        """The same for a core."""
        found = ffi.new("Datagrams *")
        found.first, found.stride, found.count = ffi.cast("uint8_t *", self.base), self.stride, len(self)
        found.lengths = ffi.cast("uint32_t *", self.lengths.ctypes.data)
        return found

    def __len__(self) -> int:
        return len(self.octets)


def lead(record: np.dtype) -> int:
    """Bytes that precede a datagram in memory: its vector is at a multiple of four behind them."""
    assert record.fields is not None
    return -record.fields["vector"][1] % 4


class Send(NamedTuple):
    """These rows of the core's packets go to a peer by number, in this order.

    `length` is that of each in bytes, None: each has its own. What is `urgent` leaves the host before what waits there.
    """

    rows: NDArray[np.intp]
    peer: int
    length: int | None
    urgent: bool
