"""BytePS's messages, and a service and a worker alone, whose others a test plays."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.byteps import wire
from inalab.hosts.byteps.admission import PRIORITY
from inalab.hosts.byteps.assignment import ByBytes
from inalab.hosts.byteps.service import Service
from inalab.hosts.byteps.wire import Header
from inalab.hosts.byteps.worker import BytePS
from inalab.hosts.collective import Label, Membership, Operation
from inalab.hosts.drivers.sockets import SocketDriver
from inalab.hosts.tcp.channel import Channel
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.kernel import KernelConnection
from tests.fake_network import Clock
from tests.played import Played

# --- messages


@given(st.integers(0, 8), st.sampled_from(list(wire.DTYPES)), *[st.integers(0, 2**32 - 1)] * 2, st.integers(-(2**31), 2**31 - 1))
def test_headers_come_back_as_they_were(kind: int, dtype: bytes, number: int, index: int, priority: int) -> None:
    header = Header(kind, dtype, number, index, priority, 12)
    assert Header.unpack(header.pack()) == header


@pytest.mark.parametrize("octets", [b"\x09f" + bytes(38), b"\x00x" + bytes(38), b"\x00f" + bytes(14) + b"\xff" * 4 + bytes(20)])
def test_what_is_no_header_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match="no message begins with"):
        Header.unpack(octets)


def received(channel: Channel, wanted: int) -> list[tuple[Header, bytes]]:
    """So many messages, with their bodies."""
    rooms: list[bytearray] = []
    found: list[tuple[Header, bytes]] = []

    def room(header: Header) -> memoryview:
        rooms.append(bytearray(header.size))
        return memoryview(rooms[-1])

    end = time.monotonic() + 20
    while len(found) < wanted and time.monotonic() < end:
        found += [(header, bytes(rooms[-1])) for header in channel.read(room)]
    return found


def test_messages_arrive_whole_and_urgent_ones_overtake_those_that_wait() -> None:
    ours, theirs = (Channel(KernelConnection(end), Header) for end in tcp_pair())
    bodies = [os.urandom(size) for size in (400_000, 0, 3_000_000, 17)]
    for index, body in enumerate(bodies):
        ours.put(Header(wire.PUSH, partition=index, priority=-index, size=len(body)), body)
    found: list[tuple[Header, bytes]] = []
    reader = threading.Thread(target=lambda: found.extend(received(theirs, 4)))
    reader.start()
    while not ours.idle:
        ours.write()
    reader.join(20)
    assert [(header.partition, body) for header, body in found] == [(i, bodies[i]) for i in (3, 2, 1, 0)]
    ours.close()
    with pytest.raises(ConnectionResetError, match="it has closed the connection"):
        for _ in range(100):
            received(theirs, 0)
            list(theirs.read(lambda header: memoryview(b"")))
            time.sleep(0.01)
    theirs.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one, other = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for made in (one, other):
        made.setblocking(False)
    return one, other


# --- a service, and a worker, whose others a test plays


def played_service(workers: int) -> Played:
    return Played(Service(Group(Membership(3, 0, workers), []), Meeting(1)), range(workers))


FOUR = np.arange(4, dtype=np.float32)


def test_no_change_reaches_what_is_on_its_way_to_slow_workers() -> None:
    played = played_service(2)
    for rank in (0, 1):
        played.say(rank, Header(wire.KEEP, elements=4), FOUR.tobytes())
    for rank in (0, 1):
        played.say(rank, Header(wire.CHANGE, elements=4), np.full(4, 10, np.float32).tobytes())
    played.say(1, Header(wire.FETCH, elements=4))
    found = [(rank, header.version, np.frombuffer(body, np.float32).tolist()) for rank, header, body in played.messages]
    kept = [[0, 2, 4, 6], [10, 12, 14, 16], [20, 22, 24, 26]]
    assert found == [(0, 0, kept[0]), (1, 0, kept[0]), (0, 1, kept[1]), (1, 2, kept[2]), (1, 2, kept[2])]


@pytest.mark.parametrize(
    ("header", "octets", "wording"),
    [
        (Header(wire.PUSH, number=1, elements=4), 16, "partition 0 of sum 1 twice"),
        (Header(wire.CHANGE, elements=4), 4, "a change of 4 bytes to partition 0 of sum 0 with 16"),
        (Header(wire.CHANGE, b"i", elements=4), 16, "partition 0 of sum 0, which is not kept"),
        (Header(wire.CHANGE, number=1, elements=4), 16, "partition 0 of sum 1, which is not kept"),
        (Header(wire.FETCH, elements=4), 16, "a message 8 with 16 bytes"),
    ],
)
def test_a_service_adds_nothing_that_does_not_fit(header: Header, octets: int, wording: str) -> None:
    played = played_service(2)
    for rank in (0, 1):
        played.say(rank, Header(wire.KEEP, elements=4), FOUR.tobytes())
    played.say(0, Header(wire.PUSH, number=1, elements=4), FOUR.tobytes())
    with pytest.raises(ValueError, match=wording):
        played.say(0, header, bytes(octets))


def test_a_service_knows_who_lacks_in_a_partition() -> None:
    played = played_service(3)
    played.say(1, Header(wire.PUSH, number=2, partition=1, elements=4), FOUR.tobytes())
    ((rank, header, missing),) = played.say(1, Header(wire.ASK, number=2, partition=1))
    assert (rank, header.kind, list(missing)) == (1, wire.MISSING, [0, 2])
    assert [missing for *_, missing in played.say(1, Header(wire.ASK, number=1, partition=2))] == [b""]


def played_worker(monkeypatch: pytest.MonkeyPatch, rank: int, services: int, size: int, credit: int) -> Played:
    """Of two, with equal shares of the services, and partitions of at most `size` bytes."""
    monkeypatch.setattr(SocketDriver, "reach", lambda *wording: Meeting(1))
    made = BytePS(Group(Membership(3, rank, 2), [""] * services, 1), ByBytes([1 / services] * services, size), PRIORITY, credit)
    return Played(made, range(services))


def test_each_worker_begins_with_the_service_on_its_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all would push to one at once. And one partition leaves after another, not already when the tensor's name has left."""
    for rank in (0, 1):
        played = played_worker(monkeypatch, rank, 2, 16, 4096)
        played.node.start(np.zeros(8, np.float32))
        (_, announcement, _), (service, push, _) = played.messages
        assert (announcement.kind, push.kind, service) == (wire.ANNOUNCE, wire.PUSH, rank)
        played.node._sent([announcement])
        assert len(played.messages) == 2
        played.node._sent([push])
        assert [service for service, header, _ in played.messages if header.kind == wire.PUSH] == [rank, 1 - rank]


def test_what_became_of_a_change_is_told_of_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent when its first one is, and applied when the last one is; versions are means, and those of the last fetch count."""
    clock = Clock()
    played = played_worker(monkeypatch, 0, 1, 16, 4096)
    monkeypatch.setattr(played.node.driver, "monotonic", clock.monotonic)

    def done(operation: Operation, at: tuple[float, float], versions: tuple[int, int]) -> Any:
        started, begun = (
            played.node.start(np.zeros(8, np.float32), label=Label("weights"), operation=operation),
            len(played.messages),
        )
        for _ in range(2):
            clock.now += 1
            played.node._sent([played.messages[-1][1]])
        for index in (1, 0):
            played.say(0, Header(wire.RESULT, partition=index, version=versions[index], at=at[index]), FOUR.tobytes())
        assert started.total.tolist() == [0, 1, 2, 3] * 2 and len(played.messages) == begun + 1
        return started

    done(Operation.KEEP, (0, 0), (0, 0))
    assert done(Operation.FETCH, (0, 0), (4, 6)).version == 5
    asked = clock.now
    found = done(Operation.CHANGE, (7.0, 9.0), (8, 9))
    wording = found.update
    assert (found.version, wording.computed_on, wording.applied_at, wording.delay) == (8.5, 5, 7.5, 2.5)
    assert wording.sent == asked and wording.applied == 9.0 and wording.octets == 32


def test_a_worker_asks_for_what_it_has_waited_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    played = played_worker(monkeypatch, 0, 2, 16, 4096)
    for _ in range(2):
        played.node.start(np.zeros(4, np.float32))
        played.node._sent([played.messages[-1][1]])
    begun = len(played.messages)
    assert played.node._ask() == 0
    ((service, asked, _),) = played.messages[begun:]
    assert (service, asked.kind, asked.number, asked.partition) == (0, wire.ASK, 0, 0)
    with pytest.raises(ValueError, match="a message 1 about partition 0 of sum 0"):
        played.say(1, Header(wire.RESULT), bytes(16))  # another service's
