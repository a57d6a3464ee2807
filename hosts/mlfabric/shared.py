"""One scheduler's process for several jobs, which share racks' uplinks.

Each job has its own schedule. Together they keep uplinks apart (reservations.share_uplinks): whatever happens in one job, transfers
of the others may begin. If a job cannot go on, the scheduler ends, and all jobs with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from inalab.hosts.collective import Membership
from inalab.hosts.mlfabric.group import PORT
from inalab.hosts.mlfabric.reservations import share_uplinks
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.scheduler import Scheduler
from inalab.hosts.tcp.channel import Channel, Channels
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.serving import GroupServer
from inalab.hosts.updates import wire
from inalab.hosts.updates.wire import Header


def port_of(number: int) -> int:
    """Where the nodes of a job, the first one's being 0, meet the scheduler of all."""
    return PORT + number


class JobChannels(Channels[Header]):
    """Those of one job, by the ranks of its nodes, among all jobs'. Its first worker has rank `first` there."""

    def __init__(self, everyone: Channels[Header], first: int) -> None:
        self.everyone, self.first = everyone, first

    def __getitem__(self, rank: int) -> Channel[Header]:
        return self.everyone[self.first + rank]

    def ready(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """What comes is read with that of all jobs."""
        return []

    def put(self, rank: int, header: Header, body: bytes | memoryview = b"") -> None:
        self.everyone.put(self.first + rank, header, body)

    def write(self, rank: int) -> list[Header]:
        return self.everyone.write(self.first + rank)

    def ignore(self, rank: int) -> None:
        self.everyone.ignore(self.first + rank)


class SharedScheduler(GroupServer[Header]):
    """Of several jobs. Their nodes' ranks follow each other here: a job's workers, its server, and then those of the next job."""

    port, pulse = PORT, 0.5

    def __init__(self, jobs: Sequence[tuple[Group, Schedule]], meetings: Sequence[Meeting]) -> None:
        self.nodes: list[tuple[Scheduler, int]] = []  # by rank here: its job's, and its rank there
        made = [connection for meeting in meetings for _, connection in sorted(meeting.connections.items())]
        first = jobs[0][0]
        everyone = replace(first, membership=replace(first.membership, size=len(made)))
        super().__init__(everyone, Meeting(meetings[0].epoch, dict(enumerate(made))), Header)
        self.schedulers: list[Scheduler] = []
        for group, schedule in jobs:
            scheduler = Scheduler(group, JobChannels(self.channels, len(self.nodes)), schedule)
            self.schedulers.append(scheduler)
            self.nodes += [(scheduler, rank) for rank in scheduler.ranks.on_data_network]
        share_uplinks([schedule.reserved for _, schedule in jobs])

    @classmethod
    def of_next_groups(cls, jobs: Sequence[tuple[Group, Schedule]], over: Callable[[], bool]) -> SharedScheduler | None:
        """The scheduler of the next group of each job that connects, each to a port of its own (`port_of`). Addresses are those on
        the management network. None once `over`. Raises AggregationError."""
        meetings: list[Meeting] = []
        try:
            for number, (group, _) in enumerate(jobs):
                if (meeting := Scheduler.met(group, over, port_of(number))) is not None:
                    meetings.append(meeting)
            if len(meetings) == len(jobs):
                return cls(jobs, meetings)
        except BaseException:
            _close(meetings)
            raise
        _close(meetings)
        return None

    @classmethod
    def name(cls, membership: Membership) -> str:
        return "the scheduler"

    def _read(self, rank: int) -> None:
        scheduler, own = self.nodes[rank]
        scheduler._read(own)
        self._go_on()

    def _leave(self, rank: int, error: Exception) -> None:
        scheduler, own = self.nodes[rank]
        self.left.append(rank)
        scheduler._leave(own, error)
        self._go_on()

    def _look_after(self) -> None:
        for scheduler in self.schedulers:
            scheduler._look_after()
        self._go_on()

    def _go_on(self) -> None:
        """Begin what can begin in any job, now that something has happened in one."""
        for scheduler in self.schedulers:
            scheduler.go_on()

    def _expected(self, rank: int) -> bool:
        scheduler, own = self.nodes[rank]
        return scheduler._expected(own)

    def _refusal(self, size: int) -> Header:
        return Header(wire.REFUSE, priority=wire.URGENT, size=size)


def _close(meetings: Sequence[Meeting]) -> None:
    for meeting in meetings:
        meeting.close()
