"""Who is in a group: workers, the server behind them, its replica if there is one, and last the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from inalab.hosts import collective
from inalab.hosts.collective import Membership
from inalab.hosts.drivers.driver import Driver
from inalab.hosts.tcp.connection import Meeting, MeetingError

PORT = 48868  # the scheduler's


@dataclass(frozen=True)
class Ranks:
    """Of a group of so many workers."""

    workers: int
    replicated: bool = False

    @property
    def server(self) -> int:
        """The one that holds the model first."""
        return self.workers

    @property
    def replica(self) -> int | None:
        return self.workers + 1 if self.replicated else None

    @property
    def scheduler(self) -> int:
        return self.workers + 1 + self.replicated

    @property
    def on_data_network(self) -> range:
        """All but the scheduler."""
        return range(self.scheduler)

    def name(self, rank: int) -> str:
        """What a node is called in messages."""
        return "the scheduler" if rank == self.scheduler else collective.node_name(rank, self.workers)


def with_scheduler(
    meeting: Meeting, ranks: Ranks, membership: Membership, control: list[str], patience: float, driver: Driver
) -> Meeting:
    """The meeting of a worker or a server, and its connection to the scheduler; `control` are all addresses on the management
    network. Raises MeetingError, and closes the meeting, if the scheduler cannot be reached."""
    return with_node(meeting, ranks.scheduler, membership, control, PORT, patience, driver)


def with_node(
    meeting: Meeting, rank: int, membership: Membership, addresses: list[str], port: int, patience: float, driver: Driver
) -> Meeting:
    """A meeting, and a connection to one more node, by rank. Raises MeetingError, and closes the meeting, if it is not there."""
    try:
        meeting.connections |= driver.reach(membership.rank, [rank], addresses, port, patience, meeting.epoch).connections
    except MeetingError:
        meeting.close()
        raise
    return meeting
