"""TCP in virtual time: bytes come whole and in order whatever is lost, at the link's rate, and losses cost what they do in Linux."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from selectors import EVENT_READ, EVENT_WRITE

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from inalab.hosts.drivers.virtual_connections import Meetings, VirtualConnection, VirtualSelector, Waitable
from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.hosts.tcp.connection import Connection, MeetingError
from inalab.schemes.tcp import SEGMENT, TCP_OVERHEAD
from inalab.switches.forwarding import Station
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.virtual.cubic import INITIAL, Cubic
from inalab.testbed.virtual.frames import ACK, FIN, MOST_BLOCKS, PSH, Segment, framed, received, received_segment
from inalab.testbed.virtual.links import HostLink
from inalab.testbed.virtual.reliable import ReliableEnd
from inalab.testbed.virtual.tcp import DELAYED, TcpEnd

RATE = 10.0  # Mbit/s
DELAY = 0.001  # seconds of a link
HERE, THERE = Station("02:00:00:00:00:01", "10.0.0.1"), Station("02:00:00:00:00:02", "10.0.0.2")
Lost = Callable[[int, Segment], bool]  # by number of the segment in its direction


class Wire:
    """Two ends of a connection, each with a link to the other."""

    late: Callable[[int, int], float] = staticmethod(lambda way, number: 0.0)  # seconds that a segment takes longer
    doubled: Callable[[int, int], bool] = staticmethod(lambda way, number: False)  # whether a copy comes as late

    def __init__(self, lost: tuple[Lost, Lost] = (lambda n, segment: False,) * 2, delay: float = DELAY) -> None:
        self.time = VirtualTime()
        self.seen: tuple[list[tuple[float, Segment]], ...] = ([], [])
        self.ends = tuple(TcpEnd(self.time, self, port, ("", 3 - port)) for port in (1, 2))
        self.lost = lost
        self.links = [HostLink(self.time, RATE, Costs(delay=delay), partial(self._come, way)) for way in (0, 1)]

    def transmit(self, segment: Segment, destination: str, left: Callable[[], None] | None) -> None:
        """See testbed.virtual.tcp.Outlet."""
        way = segment.source_port - 1
        self.links[way].enqueue(framed(HERE, THERE, segment), False, left)

    def _come(self, way: int, frame: bytes) -> None:
        segment = received_segment(frame, THERE)
        assert segment is not None
        number = len(self.seen[way])
        self.seen[way].append((self.time.now, segment))
        if self.doubled(way, number):
            self.time.after(self.late(way, number), self.ends[1 - way].arrive, segment)
        if not self.lost[way](number, segment):
            self.time.after(self.late(way, number), self.ends[1 - way].arrive, segment)

    def carry(self, *data: bytes, most: float = 600.0) -> float:
        """Send this from each end until both have ended, and all is there; the seconds that it takes until the bytes are there."""
        begun, taken = self.time.now, 0.0
        got = [bytearray(), bytearray()]
        left = [memoryview(octets) for octets in data] + [memoryview(b"")] * (2 - len(data))
        end = begun + most
        turns = list(self.ends)
        while not all(one.ended and not one.incoming for one in turns):
            for way, one in enumerate(turns):
                if left[way] and one.ready() & EVENT_WRITE:
                    left[way] = left[way][one.send([left[way]]) :]
                if not left[way]:
                    one.finish()
                room = memoryview(bytearray(1 << 20))
                while one.incoming:
                    got[1 - way] += room[: one.receive(room)]
                    taken = self.time.now - begun
            moment = self.time.now
            self.time.run(until=lambda: self.time.now > moment or self.time.now > end)  # noqa: B023
            assert self.time.now < end, "it does not end"
        assert [bytes(each) for each in got] == [bytes(each) for each in (*data, b"")[:2]]
        return taken


def once(*numbers: int) -> tuple[Lost, Lost]:
    """Of what the first end sends the segments of these numbers are lost the first time."""
    left = set(numbers)

    def lost(number: int, segment: Segment) -> bool:
        which = segment.sequence // SEGMENT
        found = bool(segment.octets) and which in left
        left.difference_update({which} if found else ())
        return found

    return lost, lambda n, segment: False


def sent_data(wire: Wire, way: int = 0) -> list[Segment]:
    return [segment for _, segment in wire.seen[way] if segment.octets]


@given(st.integers(0, 1 << 30), st.integers(0, 60_000), st.integers(0, 60_000), st.sampled_from([0.0, 0.02, 0.2, 0.4]))
def test_bytes_come_whole_and_in_order_whatever_is_lost(seed: int, forth: int, back: int, loss: float) -> None:
    rng = random.Random(seed)

    def lost(number: int, segment: Segment) -> bool:
        return rng.random() < loss

    wire = Wire((lost, lost))
    wire.carry(rng.randbytes(forth), rng.randbytes(back), most=10_000)
    for one in wire.ends:
        assert one.segments().again == 0 or loss
        assert not one.incoming and one.broken is None


@given(st.integers(0, 1 << 30), st.integers(0, 60_000), st.integers(0, 60_000), st.sampled_from([0.0, 0.05]))
def test_bytes_come_whole_and_in_order_in_whatever_order_segments_come(seed: int, forth: int, back: int, loss: float) -> None:
    rng = random.Random(seed)

    def lost(number: int, segment: Segment) -> bool:
        return rng.random() < loss

    wire = Wire((lost, lost))
    wire.late = lambda way, number: rng.choice([0.0, 0.0, 0.0, 0.003, 0.05])
    wire.doubled = lambda way, number: rng.random() < 0.1
    wire.carry(rng.randbytes(forth), rng.randbytes(back), most=10_000)
    assert all(not one.incoming and one.broken is None for one in wire.ends)


def test_where_segments_come_out_of_order_all_the_time_it_learns_to_wait() -> None:
    """Every fourth comes as late as five others take; Linux then reduces its window no more than once or twice."""
    size = 800 * SEGMENT
    plain, wire = Wire(delay=0.02), Wire(delay=0.02)
    wire.late = lambda way, number: 0.006 if way == 0 and number % 4 == 0 else 0.0
    took = wire.carry(bytes(size)) / plain.carry(bytes(size))
    again = wire.ends[0].segments().again
    assert took < 1.1 and again < 40
    assert wire.ends[0].disordered and not plain.ends[0].disordered
    assert plain.ends[0].steps == 1


@pytest.mark.parametrize("seconds", [0.03, 0.05])
def test_a_window_that_was_reduced_needlessly_is_put_back(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is late, once: time stamps tell it where it comes before what was sent again, a duplicate where it comes behind that."""

    def threshold() -> float:
        wire = Wire(delay=0.02)
        wire.late = lambda way, number: seconds if way == 0 and number == 200 else 0.0
        wire.carry(bytes(800 * SEGMENT))
        assert wire.ends[0].segments().again == 1
        return wire.ends[0].cubic.threshold

    assert threshold() == float("inf")
    monkeypatch.setattr(TcpEnd, "_undo", lambda end: None)
    assert threshold() < 100


def test_copies_that_the_network_makes_tell_nothing_of_losses() -> None:
    """A window that was reduced for a loss stays so. What is overtaken is waited for longer only by copies of what was sent again."""

    def took(doubled: float) -> float:
        rng, copies = random.Random(3), random.Random(4)
        wire = Wire((lambda n, segment: bool(segment.octets) and rng.random() < 0.02, lambda n, segment: False), delay=0.02)
        wire.doubled = lambda way, number: copies.random() < doubled
        seconds = wire.carry(bytes(1500 * SEGMENT))
        assert doubled == 0 or wire.ends[0].steps < 10
        return seconds

    assert took(0.3) > 0.7 * took(0.0)


def test_without_losses_it_takes_the_links_time_and_sends_nothing_twice() -> None:
    size = 500 * SEGMENT
    wire = Wire()
    bound = TCP_OVERHEAD * 8 * size / (RATE * 1e6)
    assert bound < wire.carry(bytes(size)) < 1.03 * bound
    assert len(sent_data(wire)) == 500 and wire.ends[0].segments().again == 0
    assert len(wire.seen[1]) == pytest.approx(250 + 10, abs=10)  # every second segment is acknowledged, and the first ones each


def test_both_ways_at_once_acknowledgments_ride_on_data() -> None:
    size = 500 * SEGMENT
    wire = Wire()
    bound = TCP_OVERHEAD * 8 * size / (RATE * 1e6)
    assert bound < wire.carry(bytes(size), bytes(size)) < 1.08 * bound


def test_a_long_way_limits_the_first_round_trips_to_the_initial_window() -> None:
    wire = Wire(delay=0.05)
    wire.carry(bytes(40 * SEGMENT))
    first = [segment for when, segment in wire.seen[0] if when - wire.time.now + 1 and segment.octets]
    moments = [when for when, segment in wire.seen[0] if segment.octets]
    assert len(first) == 40
    assert moments[int(INITIAL)] - moments[int(INITIAL) - 1] > 0.07  # until the first is acknowledged


def test_a_lost_segment_is_sent_again_after_a_round_trip_and_not_a_timeout() -> None:
    without = Wire().carry(bytes(100 * SEGMENT))
    wire = Wire(once(50))
    assert wire.carry(bytes(100 * SEGMENT)) < without + 0.05
    assert wire.ends[0].segments().again == 1


def test_of_few_segments_a_lost_one_is_noticed_by_what_comes_behind_it() -> None:
    """RACK: one segment behind it is enough, after a quarter of a round trip."""
    wire = Wire(once(42))
    assert wire.carry(bytes(44 * SEGMENT)) < Wire().carry(bytes(44 * SEGMENT)) + 0.05


def test_a_lost_tail_is_probed_for() -> None:
    """Two round trips later, and not a timeout of 200 ms."""
    without = Wire().carry(bytes(44 * SEGMENT))
    wire = Wire(once(42, 43))
    assert without + 0.01 < wire.carry(bytes(44 * SEGMENT)) < without + 0.15


def test_lost_acknowledgments_cost_little() -> None:
    without = Wire().carry(bytes(100 * SEGMENT))
    wire = Wire((lambda n, segment: False, lambda n, segment: n % 3 == 0))
    assert wire.carry(bytes(100 * SEGMENT)) < 1.1 * without


def test_when_nothing_comes_timeouts_double_until_patience_ends() -> None:
    wire = Wire((lambda n, segment: True, lambda n, segment: False))
    end = wire.ends[0]
    end.notice_silence(8.0)
    end.send([b"lost"])
    begun = wire.time.now
    wire.time.run(until=lambda: end.broken is not None)
    assert end.broken is not None and end.broken.errno == errno.ETIMEDOUT
    moments = [when - begun for when, _ in wire.seen[0]]
    gaps = [after - before for before, after in pairwise(moments)]
    assert gaps == sorted(gaps) and 8 < wire.time.now - begun < 32
    with pytest.raises(OSError, match="timed out"):
        end.receive(memoryview(bytearray(1)))


def test_a_silent_connection_asks_whether_the_other_end_is_there_and_ends_when_it_is_not() -> None:
    wire = Wire()
    one, other = wire.ends
    one.notice_silence(6.0)
    begun = wire.time.now
    wire.time.run(until=lambda: wire.time.now > begun + 20)
    assert one.broken is None and len(wire.seen[0]) == len(wire.seen[1]) == pytest.approx(20 / 2, abs=2)
    wire.lost = (lambda n, segment: True, wire.lost[1])
    wire.time.run(until=lambda: one.broken is not None)
    assert one.broken is not None and one.broken.errno == errno.ETIMEDOUT
    other.send([b"hello?"])  # the end that has given up says so
    wire.lost = (lambda n, segment: False, wire.lost[1])
    wire.time.run(until=lambda: other.broken is not None)
    assert isinstance(other.broken, ConnectionResetError)


def test_a_single_segment_is_acknowledged_later() -> None:
    wire = Wire()
    wire.carry(bytes(100 * SEGMENT))  # past the beginning, in which each is acknowledged at once
    wire = Wire()
    for end in wire.ends:
        end.quick = 0
    wire.ends[0].send([b"one"])
    wire.time.run(until=lambda: bool(wire.seen[1]))
    came, answered = wire.seen[0][0][0], wire.seen[1][0][0]
    assert answered - came == pytest.approx(DELAYED + DELAY, rel=0.1)


def test_a_paced_connection_leaves_room_between_segments() -> None:
    wire = Wire()
    wire.ends[0].pace(1e5)
    taken = wire.carry(bytes(50 * SEGMENT))
    assert taken == pytest.approx(49 * SEGMENT / 1e5, rel=0.02)
    assert wire.links[0].queues == (type(wire.links[0].queues[0])(),) * 2


def test_what_is_not_sent_yet_is_limited_where_it_is_to_be() -> None:
    end = Wire(delay=1.0).ends[0]
    end.limit_unsent(3 * SEGMENT)
    while True:
        try:
            end.send([bytes(SEGMENT)])
        except BlockingIOError:
            break
    assert end.unsent() == 3 * SEGMENT and not end.ready() & EVENT_WRITE


def test_closing_what_was_not_read_resets_the_connection() -> None:
    wire = Wire()
    one, other = wire.ends
    one.send([b"nobody reads this"])
    wire.time.run(until=lambda: bool(other.incoming))
    other.close()
    wire.time.run(until=lambda: one.broken is not None)
    assert isinstance(one.broken, ConnectionResetError)
    with pytest.raises(ConnectionResetError):
        one.send([b"more"])


def test_what_is_sent_to_who_has_left_resets_the_connection() -> None:
    wire = Wire()
    one, other = wire.ends
    other.close()
    wire.time.run(until=lambda: one.ended)
    assert one.receive(memoryview(bytearray(1))) == 0
    one.send([b"too late"])
    wire.time.run(until=lambda: one.broken is not None)
    assert isinstance(one.broken, ConnectionResetError)


def test_a_loss_lowers_the_window_to_seven_tenths_and_it_grows_back_as_cubic_does() -> None:
    cubic = Cubic()
    cubic.window = cubic.threshold = 100.0
    cubic.shortest = 0.2  # on a shorter way Reno would be faster
    cubic.lost()
    assert cubic.threshold == pytest.approx(70)
    cubic.window = cubic.threshold
    now = 0.0
    while cubic.window < 100:
        cubic.acknowledged(int(cubic.window), now)
        now += 0.2
    assert now == pytest.approx((30 / 0.4) ** (1 / 3), rel=0.1)  # K of RFC 9438


def test_a_window_halves_while_nothing_is_sent() -> None:
    cubic = Cubic()
    cubic.window = 80.0
    cubic.paused(0.1, 0.2)
    assert cubic.window == 80
    cubic.paused(0.5, 0.2)
    assert cubic.window == 20
    cubic.paused(5.0, 0.2)
    assert cubic.window == INITIAL


# --- frames


def test_a_segment_comes_as_it_was_sent_and_scapy_agrees() -> None:
    given_ = Segment(40000, 48865, (1 << 32) - 5, 77, ACK | PSH, [(5, 9), (20, 30)], b"payload", 1234, 987)
    frame = framed(HERE, THERE, given_)
    assert received_segment(frame, THERE) == given_ and received(frame, THERE) is None
    packet = Ether(src=HERE.mac, dst=THERE.mac) / IP(src=HERE.ip, dst=THERE.ip, id=0, flags="DF")
    options = [("NOP", None), ("NOP", None), ("Timestamp", (1234, 987)), ("NOP", None), ("NOP", None), ("SAck", (5, 9, 20, 30))]
    packet /= TCP(sport=40000, dport=48865, seq=(1 << 32) - 5, ack=77, flags="PA", window=0xFFFF, chksum=0, options=options)
    assert bytes(packet / b"payload") == frame
    del packet[TCP].chksum
    assert received_segment(bytes(packet / b"payload"), THERE) == given_  # with a checksum
    wrong = bytearray(bytes(packet / b"payload"))
    wrong[-1] ^= 1
    assert received_segment(bytes(wrong), THERE) is None
    assert received_segment(frame[:50], THERE) is None


def test_no_more_blocks_are_told_than_fit() -> None:
    many = Segment(1, 2, 0, 0, ACK, [(10 * n, 10 * n + 5) for n in range(5)], b"")
    found = received_segment(framed(HERE, THERE, many), THERE)
    assert found is not None and len(found.blocks) == MOST_BLOCKS


# --- what its users see


def pair() -> tuple[VirtualTime, dict[int, Waitable], tuple[VirtualConnection, VirtualConnection]]:
    time = VirtualTime()
    ends = ReliableEnd.pair(time, 0.5)
    for number, end in enumerate(ends):
        end.descriptor = number
    return time, dict(enumerate(ends)), ends


def test_a_selector_waits_until_something_can_be_read_or_its_time_is_over() -> None:
    time, known, (one, other) = pair()
    seen: list[object] = []

    def reads() -> None:
        selector = VirtualSelector(time, known)
        selector.register(other, EVENT_READ, "other")
        seen.append((selector.select(0.2), time.now))
        ((key, events),) = selector.select()
        seen.append((key.data, events, time.now))
        selector.modify(other, EVENT_READ | EVENT_WRITE, "both")
        seen.append([(key.data, events) for key, events in selector.select(0)])
        selector.unregister(other)
        seen.append(selector.select(0.1))
        selector.close()

    begun = time.now
    time.start(reads)
    time.after(0.3, lambda: one.send([b"hello", b" there"]))
    time.run(until=lambda: len(seen) == 4)
    assert seen == [([], begun + 0.2), ("other", EVENT_READ, begun + 0.8), [("both", EVENT_READ | EVENT_WRITE)], []]
    room = bytearray(20)
    assert room[: other.receive(memoryview(room))] == b"hello there"
    with pytest.raises(BlockingIOError):
        other.receive(memoryview(room))


def test_nodes_meet_when_both_are_there_and_who_is_not_is_named() -> None:
    time, met = VirtualTime(), list[object]()

    def connect(own: str, peer: str, port: int) -> tuple[Connection, Connection]:
        return ReliableEnd.pair(time, 0.0)

    meetings, peers = Meetings(time, 1, connect), ["a", "b", "c"]

    def worker(rank: int, later: float) -> None:
        time.sleep(later)
        met.append((rank, sorted(meetings.meet(rank, {0, 1, 2} - {rank}, 2, peers, 7, 5.0, 1).connections)))

    def server() -> None:
        found = meetings.await_group(2, [0, 1], peers, 7, 5.0, lambda: False)
        assert found is not None
        met.append((2, sorted(found.connections)))

    time.start(lambda: worker(0, 0.0))
    time.start(lambda: worker(1, 1.0))
    time.start(server)
    time.run(until=lambda: len(met) == 3)
    assert sorted(met, key=str) == [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])]
    time.start(lambda: meetings.reach(0, [2], peers, 7, 5.0, 1))
    with pytest.raises(MeetingError, match="node 2 cannot be reached"):
        time.run(until=lambda: False)


def test_an_end_is_a_byte_that_is_acknowledged() -> None:
    wire = Wire((lambda n, segment: n == 0, lambda n, segment: False))
    wire.ends[0].finish()
    wire.time.run(until=lambda: wire.ends[1].ended)
    assert [segment.flags & FIN for _, segment in wire.seen[0]] == [FIN, FIN]
    wire.time.run(until=lambda: not wire.ends[0].flying)
    wire.ends[1].finish()
    wire.time.run(until=lambda: wire.ends[0].ended)
