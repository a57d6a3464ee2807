"""Who is in a group: workers, the server behind them, its replica if there is one, and last the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inalab.hosts import collective
from inalab.hosts.tcp.connection import Meeting, MeetingError
from inalab.hosts.tcp.group import Group

PORT = 48868  # the scheduler's


@dataclass(frozen=True)
class Ranks:
    """Of a group of so many workers, and the port at which it meets the scheduler."""

    workers: int
    replicated: bool = False
    port: int = PORT

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


def with_scheduler(meeting: Meeting, ranks: Ranks, group: Group, patience: float) -> Meeting:
    """The meeting of a worker or a server, and its connection to the scheduler; the group's addresses are those on the management
    network. Raises MeetingError, and closes the meeting, if the scheduler cannot be reached."""
    return with_node(meeting, ranks.scheduler, group, ranks.port, patience)


def with_node(meeting: Meeting, rank: int, group: Group, port: int, patience: float) -> Meeting:
    """A meeting, and a connection to one more node, by rank. Raises MeetingError, and closes the meeting, if it is not there."""
    try:
        meeting.connections |= replace(group, epoch=meeting.epoch).reach([rank], port, patience).connections
    except MeetingError:
        meeting.close()
        raise
    return meeting
