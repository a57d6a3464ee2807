"""A group of nodes that talk over TCP, as one of them sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inalab.hosts.collective import Membership
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.tcp.connection import Meeting


@dataclass(frozen=True)
class Group:
    """A node's place in it, where all nodes are, how they are reached, and how long that may take.

    `peers` are addresses by rank: the workers', then the servers'. The epoch is a worker's; servers take that of those who connect.
    `patience`, in seconds, and `pulse` are as for a stream (hosts.drivers.stream). With `pairs`, what nodes send each other goes
    over queue pairs.
    """

    membership: Membership
    peers: list[str]
    epoch: int = 0
    patience: float = 30.0
    pulse: Callable[[], str | None] | None = None
    driver: Driver = SOCKETS
    pairs: QueuePairs | None = None

    def reach(self, ranks: Iterable[int], port: int, patience: float) -> Meeting:
        """See hosts.tcp.meeting, as the two that follow."""
        return self._carried(self.driver.reach(self.membership.rank, ranks, self.peers, port, patience, self.epoch))

    def meet(self, partners: Iterable[int], port: int, patience: float) -> Meeting:
        m = self.membership
        return self._carried(self.driver.meet(m.rank, partners, m.size, self.peers, port, patience, self.epoch))

    def await_all(self, partners: Iterable[int], port: int, over: Callable[[], bool]) -> Meeting | None:
        meeting = self.driver.await_group(self.membership.rank, partners, self.peers, port, self.patience, over)
        return meeting and self._carried(meeting)

    def beside(self, servers: Iterable[int], port: int, epoch: int) -> Meeting:
        """Of a server with others of its group, which meet likewise once the workers of that epoch have come."""
        everyone = len(self.peers)
        return self._carried(self.driver.meet(self.membership.rank, servers, everyone, self.peers, port, self.patience, epoch))

    def _carried(self, meeting: Meeting) -> Meeting:
        if self.pairs is None:
            return meeting
        return self.driver.carry(meeting, self.membership.rank, self.peers, self.pairs, self.patience)
