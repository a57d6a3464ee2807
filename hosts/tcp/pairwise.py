"""Workers and servers that follow a schedule (hosts.tcp.schedules) over TCP connections to the nodes they have to do with."""

from __future__ import annotations

import selectors
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER, AggregationError, Counters, Membership, Sum, Summing, node_name
from inalab.hosts.floats import add
from inalab.hosts.tcp.arrivals import Arrivals
from inalab.hosts.tcp.connection import Meeting, MeetingError, count_segments
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.schedules import Move, Schedule, blocks

TCP_PORT = 48865
SERVERS_PORT = 48869  # where servers meet each other
ANNOUNCEMENT = struct.Struct(">cxHQ")  # before the first data of a sum: dtype, empty tensors before it, and elements
DTYPES = {b"f": np.dtype(np.float32), b"i": np.dtype(np.int32)}
PULSE = 0.5  # seconds of silence after which the pulse is felt
CHUNK = 1 << 18  # bytes that are handed to or taken from a connection at once
Parts = deque[memoryview]  # of a message


@dataclass
class StepTimes:
    """When steps of sums began and how long they took. Sums are numbered from 0."""

    sums: int = 0
    noted: list[tuple[float, int, int, float]] = field(default_factory=list)  # begun, sum, step, seconds

    def since(self, start: float) -> list[tuple[Any, ...]]:
        """(seconds since `start`, sum, step, seconds that it took)."""
        return [(begun - start, number, step, round(took, 6)) for begun, number, step, took in self.noted]


class Node:
    """One node of a schedule, and its connections. Not thread-safe.

    `meeting` are the connections to its partners. The group's patience is the longest silence within a sum. With a pulse a partner
    that is alive may take longer, and the connections notice the silence of the network.
    """

    def __init__(self, group: Group, schedule: Schedule, meeting: Meeting) -> None:
        self.membership, self.patience, self.pulse, self.driver = group.membership, group.patience, group.pulse, group.driver
        self.schedule, self.blocks = schedule, blocks(schedule)
        self.counters = Counters()
        self.connections = meeting.connections
        self.unannounced: set[int] = set()  # partners that have not announced what they sum
        self.times: StepTimes | None = None
        self.arrivals: Arrivals | None = None  # where the link's rate is measured
        self.interrupt = NEVER  # a descriptor that is readable when there may be a reason to give up
        if self.pulse is not None:
            for made in self.connections.values():
                made.notice_silence(self.patience)

    @staticmethod
    def partners(membership: Membership, schedule: Schedule) -> set[int]:
        """The ranks that a node has to do with."""
        me = membership.rank
        moves = [m for step in schedule for m in step if me in (m.source, m.destination)]
        return ({m.source for m in moves} | {m.destination for m in moves}) - {me}

    def _error(self, reason: str) -> AggregationError:
        return _error(self.membership, reason)

    def _name(self, rank: int) -> str:
        return node_name(rank, self.membership.size)

    def _room(self, elements: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Zeros, a row a block, for a tensor of so many elements."""
        return np.zeros((self.blocks, -(-elements // self.blocks)), dtype)

    def _follow(self, blocks: NDArray[Any], announcement: bytes, to: set[int], of: set[int]) -> None:
        """Take all steps. `announcement` goes before the first data to partners, and must be before the first of some."""
        unannounced, self.unannounced = set(to), set(of)
        for number, step in enumerate(self.schedule):
            begun = self.driver.monotonic()
            self._step(number, step, blocks, announcement, unannounced)
            if self.times is not None:
                self.times.noted.append((begun, self.times.sums, number, self.driver.monotonic() - begun))
        if self.times is not None:
            self.times.sums += 1

    def _step(self, number: int, step: list[Move], blocks: NDArray[Any], announcement: bytes, unannounced: set[int]) -> None:
        """One step; `unannounced` are the partners that this node has not sent its announcement yet."""
        me = self.membership.rank
        leaving: dict[int, list[int]] = defaultdict(list)
        coming: dict[int, list[Move]] = defaultdict(list)
        for move in step:
            if move.source == me:
                leaving[move.destination].append(move.block)
            elif move.destination == me:
                coming[move.source].append(move)
        arrived = {rank: np.empty((len(moves), blocks.shape[1]), blocks.dtype) for rank, moves in coming.items()}
        sent: dict[int, Parts] = {rank: deque([_bytes(blocks[chosen])]) for rank, chosen in leaving.items()}
        for rank in unannounced & sent.keys():
            sent[rank].appendleft(memoryview(announcement))
        unannounced.difference_update(sent)
        self._exchange(number, sent, {rank: deque([_bytes(room)]) for rank, room in arrived.items()}, announcement)
        for rank in sorted(coming):
            for move, data in zip(coming[rank], arrived[rank], strict=True):
                if move.add:
                    add(blocks[move.block], data)
                else:
                    blocks[move.block] = data

    def _exchange(self, number: int, leaving: dict[int, Parts], coming: dict[int, Parts], announcement: bytes) -> None:
        """Send and receive all of it, to and from all at once."""
        announced = {rank: bytearray(len(announcement)) for rank in self.unannounced & coming.keys()}
        for rank, room in announced.items():
            coming[rank].appendleft(memoryview(room))
        self.counters.bytes_sent += sum(len(part) for parts in leaving.values() for part in parts)
        self.counters.bytes_received += sum(len(part) for parts in coming.values() for part in parts)
        heard_at = self.driver.monotonic()
        with self.driver.selector() as waiting:
            if self.interrupt != NEVER:
                waiting.register(self.interrupt, selectors.EVENT_READ, NEVER)
            while leaving or coming:
                self._watch(waiting, leaving, coming)
                ready = [
                    (key, events) for key, events in waiting.select(min(PULSE, self.patience)) if not self._interrupts(waiting, key)
                ]
                if self.arrivals is not None:
                    self.arrivals.look(self.driver.monotonic())
                if ready:
                    heard_at = self.driver.monotonic()
                elif reason := self._out_of_patience(self.driver.monotonic() - heard_at):
                    silent = ", ".join(map(self._name, sorted(coming or leaving)))
                    raise self._error(f"step {number}: nothing from {silent}{reason}")
                for key, events in ready:
                    try:
                        if self._move(key.data, events, leaving, coming) and key.data in announced:
                            self._check(key.data, bytes(announced.pop(key.data)), announcement)
                    except BlockingIOError:
                        continue
                    except OSError as error:
                        raise self._error(f"step {number}: {self._name(key.data)} is gone: {error}") from None

    def _interrupts(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
        """Whether it is the interrupt that is ready, which then has been noticed."""
        if key.data == NEVER:
            waiting.unregister(self.interrupt)
            self.interrupt = NEVER
        return bool(key.data == NEVER)

    def _watch(self, waiting: selectors.BaseSelector, leaving: dict[int, Parts], coming: dict[int, Parts]) -> None:
        """Wait for what there still is to send to or to receive from each partner, and for no other."""
        for rank in {key.data for key in waiting.get_map().values()} - leaving.keys() - coming.keys() - {NEVER}:
            waiting.unregister(self.connections[rank])
        for rank in leaving.keys() | coming.keys():
            wanted = selectors.EVENT_WRITE * (rank in leaving) | selectors.EVENT_READ * (rank in coming)
            if self.connections[rank] not in waiting.get_map():
                waiting.register(self.connections[rank], wanted, rank)
            elif waiting.get_key(self.connections[rank]).events != wanted:
                waiting.modify(self.connections[rank], wanted, rank)

    def _move(self, rank: int, events: int, leaving: dict[int, Parts], coming: dict[int, Parts]) -> bool:
        """Send to and receive from a partner as much as goes at once; whether a part that was coming is complete."""
        if events & selectors.EVENT_WRITE:
            _advance(leaving, rank, self.connections[rank].send([leaving[rank][0][:CHUNK]]))
        if not events & selectors.EVENT_READ:
            return False
        size = self.connections[rank].receive(coming[rank][0][:CHUNK])
        if self.arrivals is not None:
            self.arrivals.take(rank, size)
        if size == 0:
            raise ConnectionResetError("it has closed the connection")
        return _advance(coming, rank, size)

    def _out_of_patience(self, waited: float) -> str | None:
        """Why to wait no longer, if there is a reason."""
        if self.pulse is not None:
            return f": {reason}" if (reason := self.pulse()) else None
        return f" for {self.patience:g} s" if waited >= self.patience else None

    def _check(self, rank: int, announced: bytes, announcement: bytes) -> None:
        """Raise AggregationError if a partner sums another tensor than this node."""
        self.unannounced.discard(rank)
        if announced != announcement:
            own, other = _described(announcement), _described(announced)
            raise self._error(f"the workers sum different tensors: {own} here, {other} on {self._name(rank)}")

    def close(self) -> None:
        """Close the connections."""
        for made in self.connections.values():
            made.close()


class Pairwise(Node, Summing):
    """A worker: all-reduce by messages between nodes.

    Connections to the other nodes of the group are made at once. Raises AggregationError if one cannot be reached in time.
    """

    def __init__(self, group: Group, schedule: Schedule) -> None:
        Summing.__init__(self)
        try:
            meeting = group.meet(self.partners(group.membership, schedule), TCP_PORT, group.patience)
        except MeetingError as error:
            raise _missing(group.membership, error) from None
        Node.__init__(self, group, schedule, meeting)

    def note(self) -> StepTimes:
        self.times = StepTimes()
        return self.times

    def _start(self, started: Sum) -> None:
        """Nothing: a sum has the connections for itself."""

    def _advance(self, started: Sum, interrupt: int) -> None:
        self.interrupt = interrupt
        started.end(self._sum(started.flat, started.empties))

    def _sum(self, flat: NDArray[Any], empties: int, behind: int = 0) -> NDArray[Any]:
        """The sum, and so many or more elements behind it; so many empty tensors were summed before it."""
        blocks = self._room(flat.size + behind, flat.dtype)
        blocks.reshape(-1)[: flat.size] = flat
        workers = {rank for rank in self.connections if rank < self.membership.size}
        self._follow(blocks, ANNOUNCEMENT.pack(flat.dtype.char.encode(), empties, flat.size), set(self.connections), workers)
        count_segments(self.counters, self.connections.values())
        return blocks


class Server(Node):
    """A dedicated parameter server, which only adds. Its rank is one after the workers'."""

    @classmethod
    def of_next_group(cls, group: Group, schedule: Schedule, over: Callable[[], bool]) -> Server | None:
        """The server of the next group of workers that connects; None once `over`. Raises AggregationError."""
        meeting = cls.met(group, schedule, over)
        return None if meeting is None else cls(group, schedule, meeting)

    @classmethod
    def met(cls, group: Group, schedule: Schedule, over: Callable[[], bool]) -> Meeting | None:
        """Its connections."""
        size = group.membership.size
        partners = cls.partners(group.membership, schedule)
        servers = {rank for rank in partners if rank >= size}
        try:
            meeting = group.await_all(partners - servers, TCP_PORT, over)
            if meeting is not None and servers:
                meeting.connections |= group.beside(servers, SERVERS_PORT, meeting.epoch).connections
        except MeetingError as error:
            raise _missing(group.membership, error) from None
        return meeting

    def serve(self) -> None:
        """Take part in every sum that the workers announce, until they leave; raises AggregationError.

        Servers pass the announcement on to each other: no worker has to do with those of another machine.
        """
        servers = {rank for rank in self.connections if rank >= self.membership.size}
        giving = {m.source for step in self.schedule for m in step if m.destination == self.membership.rank} - servers
        while (announced := self._hear(giving)) is not None:
            kind, _, elements = ANNOUNCEMENT.unpack(announced)
            self._follow(self._room(elements, DTYPES[kind]), announced, servers, servers)

    def _hear(self, giving: set[int]) -> bytes | None:
        """What these workers, which give it something, announce as the next sum, or None when one has left."""
        rooms = {rank: bytearray(ANNOUNCEMENT.size) for rank in sorted(giving)}
        coming: dict[int, Parts] = {rank: deque([memoryview(room)]) for rank, room in rooms.items()}
        with self.driver.selector() as waiting:
            while coming:
                self._watch(waiting, {}, coming)
                for key, events in waiting.select():
                    try:
                        self._move(key.data, events, {}, coming)
                    except BlockingIOError:
                        continue
                    except OSError:
                        return None
        heard: dict[bytes, list[int]] = defaultdict(list)
        for rank, room in rooms.items():
            heard[bytes(room)].append(rank)
        if len(heard) != 1:
            wording = "; ".join(f"{_described(words)} on {', '.join(map(self._name, who))}" for words, who in heard.items())
            raise self._error(f"the workers sum different tensors: {wording}")
        (announced,) = heard
        if ANNOUNCEMENT.unpack(announced)[0] not in DTYPES:
            raise self._error(f"the workers announce {_described(announced)}")
        return announced


def _error(membership: Membership, reason: str) -> AggregationError:
    own = node_name(membership.rank, membership.size)
    return AggregationError(f"{own}: job {membership.job} cannot be completed: {reason}", incomplete=True)


def _missing(membership: Membership, error: MeetingError) -> AggregationError:
    return _error(membership, f"{node_name(error.rank, membership.size)} {error.what}")


def _described(announcement: bytes) -> str:
    kind, empties, elements = ANNOUNCEMENT.unpack(announcement)
    behind = f" behind {empties} empty tensors" if empties else ""
    return f"{elements:,} elements of {DTYPES.get(kind, 'an unknown type')}{behind}"


def _bytes(data: NDArray[Any]) -> memoryview:
    return data.view(np.uint8).reshape(-1).data


def _advance(left: dict[int, Parts], rank: int, size: int) -> bool:
    """So many bytes of a message are done; True at the end of one of its parts."""
    parts = left[rank]
    parts[0] = parts[0][size:]
    if parts[0]:
        return False
    parts.popleft()
    if not parts:
        del left[rank]
    return True
