"""The core of a server over an endpoint, until its workers have left."""

from __future__ import annotations

from typing import Protocol

from inalab.hosts.drivers.driver import Address, Driver, Requested, carry_out
from inalab.hosts.stream.datagrams import Datagrams, Send

NAP = 0.001  # seconds that packets may wait to be handled in one batch
SENDING = 1.0  # seconds that the interface may take to accept packets; what it does not is lost
BURSTS = 16  # that a window of packets is sent in at least


class Server(Protocol):
    """A core that answers packets."""

    sender: Datagrams
    sends: list[Send]
    arriving: int  # packets that are taken in at once, at most

    def received(self, packets: Datagrams, now: float) -> None: ...

    def left(self, now: float) -> None:
        """All workers have left."""
        ...

    def expired(self, now: float) -> float: ...

    def over(self, now: float) -> bool: ...


class ServerDriver:
    """Serves one group of workers."""

    def __init__(self, core: Server, driver: Driver, local: Address, peers: list[Address], window: int, workers: Requested) -> None:
        self.core, self.driver, self.workers = core, driver, workers
        self.endpoint = driver.datagrams(local, peers, core.sender, core.arriving, max(1, window // BURSTS))

    def serve(self) -> None:
        """Answer until all workers have left, then finish."""
        here = True
        while here:
            if self.endpoint.wait(float("inf"), self.workers.fileno()):
                self.driver.nap(NAP)
                self._receive()
            if self.endpoint.interrupted:
                here = self.workers.answer()
        self.finish()

    def finish(self) -> None:
        """Let the core end what it has begun."""
        now = self.driver.monotonic()
        self.core.left(now)
        while not self.core.over(now):
            wake = self.core.expired(now)
            self._send()
            if self.endpoint.wait(wake - self.driver.monotonic()):
                self._receive()
            now = self.driver.monotonic()

    def _receive(self) -> None:
        self.core.received(self.endpoint.receive(), self.driver.monotonic())
        self._send()

    def _send(self) -> None:
        sends, self.core.sends = self.core.sends, []
        carry_out(sends, self.endpoint, self.driver, SENDING)

    def close(self) -> None:
        """Close all sockets."""
        self.workers.close()
        self.endpoint.close()
