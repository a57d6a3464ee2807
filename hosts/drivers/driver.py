"""What a core's host offers: a clock, and datagrams to and from peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.tcp.meeting import Meeting

Address = tuple[str, int]  # IP and UDP port


class Endpoint(Protocol):
    """A host's end of its datagrams to and from a number of peers."""

    interrupted: bool  # whether the last wait ended because of `interrupt`

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        """Send these rows of the sender's packets; returns how many left before `give_up_at`."""
        ...

    def set_urgent(self, urgent: bool) -> None:
        """Let what is sent from now on leave the host before what is not urgent, or no longer."""
        ...

    def wait(self, seconds: float, interrupt: int = NEVER) -> bool:
        """Wait for packets; False after so many seconds, or when the file descriptor `interrupt` is readable."""
        ...

    def receive(self) -> Datagrams:
        """What has come from peers; its memory is used again next time."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    """What a process of a host runs cores on."""

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def datagrams(self, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int, segments: int = 1) -> Endpoint:
        """An end at this address; it sends rows of `sender`, up to `segments` at a time, and receives from these peers alone."""
        ...

    def meet(
        self, me: int, partners: Iterable[int], workers: int, peers: list[str], port: int, patience: float, epoch: int
    ) -> Meeting:
        """See hosts.tcp.meeting."""
        ...

    def await_group(
        self, me: int, partners: Iterable[int], peers: list[str], port: int, patience: float, over: Callable[[], bool]
    ) -> Meeting | None:
        """See hosts.tcp.meeting."""
        ...


def carry_out(sends: list[Send], endpoint: Endpoint, give_up_at: float) -> bool:
    """Send what a core wants sent; whether all of it left before `give_up_at`."""
    urgent = False
    try:
        for send in sends:
            if send.urgent != urgent:
                urgent = send.urgent
                endpoint.set_urgent(urgent)
            if endpoint.send(send.rows, send.length, give_up_at, send.peer) < len(send.rows):
                return False
        return True
    finally:
        if urgent:
            endpoint.set_urgent(False)
