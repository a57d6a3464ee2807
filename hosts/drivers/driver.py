"""What a host offers to cores and trainings: a clock, datagrams and connections to peers, and more than one thing at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from selectors import BaseSelector
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.stream.datagrams import Datagrams, Send
from inalab.hosts.tcp.connection import Meeting

Address = tuple[str, int]  # IP and UDP port


class Endpoint(Protocol):
    """A host's end of its datagrams to and from a number of peers."""

    interrupted: bool  # whether the last wait ended because of `interrupt`

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        """Send these rows of the sender's packets, of one length or each of its own; returns how many left before `give_up_at`."""
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

    def drive(self, core: Any, until: float, interrupt: int = NEVER) -> bool:
        """Let a worker's core (hosts.stream.stream) go on by itself until it is so late; False where this cannot be done.

        It ends earlier when a sum is over, when `interrupt` is readable, or when packets do not leave.
        """
        ...

    def close(self) -> None: ...


class Requests(Protocol):
    """A worker's requests to servers, by rank, on a network that loses nothing (hosts.tcp.requests)."""

    def gone(self) -> int | None: ...

    def ask(self, server: int, request: bytes, length: int, patience: float) -> bytes: ...

    def close(self) -> None: ...


class Requested(Protocol):
    """What answers them, of one group of workers."""

    epoch: int
    handler: Callable[[bytes], bytes]

    def fileno(self) -> int: ...

    def answer(self) -> bool: ...

    def close(self) -> None: ...


class Event(Protocol):
    """Something that happens once: threading.Event, or the same in virtual time."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Signal(Protocol):
    """Something that happens again and again. The descriptor ends a wait of an endpoint when it happens, until it is taken.

    Whoever takes it has to do so for all that have happened before waiting again: the descriptor may not tell of the rest.
    """

    descriptor: int

    def set(self) -> None: ...

    def take(self) -> None:
        """Wait for it, and take it."""
        ...

    def close(self) -> None: ...


class Computing(Protocol):
    """The result of a computation that was begun: concurrent.futures.Future, or the same in virtual time."""

    def result(self) -> Any: ...


class Processor(Protocol):
    """Computes one thing at a time, in turn: concurrent.futures.Executor, or the same in virtual time."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> bool | None: ...

    def submit(self, compute: Callable[..., Any], /, *given: Any) -> Computing: ...


class Driver(Protocol):
    """What a process of a host runs on."""

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def nap(self, seconds: float) -> None:
        """Let packets gather, so that they are handled in one batch, where that saves time."""
        ...

    def event(self) -> Event: ...

    def signal(self) -> Signal: ...

    def start(self, work: Callable[[], object], name: str) -> Event:
        """Do this beside; the event is its end."""
        ...

    def processor(self) -> Processor: ...

    def datagrams(
        self,
        local: Address,
        peers: list[Address],
        sender: Datagrams,
        receive_rows: int,
        segments: int = 1,
        unnumbered: bool = False,
    ) -> Endpoint:
        """An end at this address; it sends rows of `sender`, up to `segments` at a time, and receives from these peers alone.

        `unnumbered`: IP's identification is 0, for checks that cover IP's header."""
        ...

    def selector(self) -> BaseSelector:
        """What waits for connections, and for descriptors of signals."""
        ...

    def meet(
        self, me: int, partners: Iterable[int], workers: int, peers: list[str], port: int, patience: float, epoch: int
    ) -> Meeting:
        """Connections of a worker to partners, which connect likewise (hosts.tcp.meeting, as the two that follow)."""
        ...

    def reach(self, me: int, ranks: Iterable[int], peers: list[str], port: int, patience: float, epoch: int) -> Meeting:
        """Connections of a worker to nodes that wait for its group."""
        ...

    def await_group(
        self, me: int, partners: Iterable[int], peers: list[str], port: int, patience: float, over: Callable[[], bool]
    ) -> Meeting | None:
        """Connections of the next group of workers."""
        ...

    def carry(self, meeting: Meeting, me: int, peers: list[str], pairs: QueuePairs, patience: float) -> Meeting:
        """Carry the bytes of a meeting's connections over queue pairs. Raises MeetingError."""
        ...

    def requests(
        self, me: int, servers: Iterable[int], workers: int, addresses: list[str], port: int, patience: float, epoch: int
    ) -> Requests:
        """See hosts.tcp.requests."""
        ...

    def requested(
        self, me: int, workers: Iterable[int], addresses: list[str], port: int, patience: float, over: Callable[[], bool], size: int
    ) -> Requested | None:
        """Likewise."""
        ...


def carry_out(sends: list[Send], endpoint: Endpoint, driver: Driver, seconds: float, all_or_none: bool = False) -> bool:
    """Send what a core wants sent, each within so many seconds; whether all of it left.

    `all_or_none`: end with the first that does not.
    """
    urgent, complete = False, True
    try:
        for send in sends:
            if send.urgent != urgent:
                urgent = send.urgent
                endpoint.set_urgent(urgent)
            complete &= endpoint.send(send.rows, send.length, driver.monotonic() + seconds, send.peer) == len(send.rows)
            if all_or_none and not complete:
                break
        return complete
    finally:
        if urgent:
            endpoint.set_urgent(False)
