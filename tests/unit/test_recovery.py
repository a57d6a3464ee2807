"""What a worker of SwitchML does about chunks whose results do not come, moment by moment, on a network that the test plays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError, Membership
from inalab.hosts.cores import enum, ffi
from inalab.hosts.stream.retransmission import RetransmissionTimer
from inalab.hosts.stream.stream import QUERY_PATIENCE
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML
from tests.fake_network import FakeNetwork, driven, is_bare
from tests.inside import INSIDE

K, SLOTS, EPOCH = 32, 16, 77
RTT = 0.02
GAP, LONGEST_WAIT = 3, 1.0  # recovery.c
APART = 0.0005  # seconds between two packets on the link
PAIR = Membership(3, 1, 2, [[0, 1]])
Decision = Callable[[np.ndarray], bool]  # about a packet


class Played:
    """A switch with this worker and another one, whose part it has whenever `other` says so; a link with a queue each way."""

    def __init__(self, lost: Decision, lost_result: Decision, other: Decision) -> None:
        self.clock = FakeNetwork(self.answer)
        self.lost, self.lost_result, self.other = lost, lost_result, other
        self.updates: dict[int, np.ndarray] = {}
        self.free = 0.0
        self.core = SwitchML(PAIR, EPOCH, SLOTS, K)
        self.worker, self.net = driven(self.core, self.clock, pulse=lambda: None)

    def answer(self, packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        self.free = max(self.free + APART, self.clock.now + RTT)
        if self.lost(packet):
            return []
        chunk = int(packet["chunk"])
        if packet["kind"] == wire.KIND_UPDATE:
            self.updates[chunk] = packet.copy()
        seen = (chunk in self.updates) << 1 | self.other(packet)
        made = result_of(self.updates.get(chunk, packet)) if seen == 3 else packet.copy()
        if seen == 3:
            made["mark"] = packet["mark"] | (packet["kind"] == wire.KIND_QUERY)
            if self.lost_result(packet):
                return []
        elif packet["kind"] == wire.KIND_UPDATE:
            return []
        else:
            made["kind"], made["mark"] = wire.KIND_STATUS, 0
            made["vector"][0] = seen
        return [(self.free - self.clock.now, made)]

    def sum(self, chunks: int) -> None:
        x = np.arange(chunks * K, dtype=np.int32)
        np.testing.assert_array_equal(self.worker.all_reduce(x), x)

    def sent(self, kind: int) -> list[tuple[float, int]]:
        """When packets of a kind were sent, and about which chunks."""
        return [(when, int(p["chunk"])) for when, _, p in self.net.sent if p["kind"] == kind]


def never(packet: np.ndarray) -> bool:
    return False


def always(packet: np.ndarray) -> bool:
    return True


def once(chunk: int, kind: int = wire.KIND_UPDATE) -> Decision:
    """The first packet about a chunk."""
    left = [1]

    def decide(packet: np.ndarray) -> bool:
        return bool(packet["chunk"] == chunk and packet["kind"] == kind and left and left.pop())

    return decide


def test_nothing_is_asked_where_nothing_is_lost() -> None:
    played = Played(never, never, always)
    for _ in range(5):
        played.sum(10 * SLOTS)
    assert played.worker.counters.queries == played.worker.counters.retransmissions == 0


def test_a_lost_result_is_fetched_by_a_query() -> None:
    """Soon after three later results have come, and no packet with a vector is sent again."""
    lost = 5 * SLOTS + 3
    played = Played(never, once(lost), always)
    played.sum(10 * SLOTS)
    assert [chunk for _, chunk in played.sent(wire.KIND_QUERY)] == [lost]
    assert played.worker.counters.retransmissions == 0
    sent = {chunk: when for when, chunk in played.sent(wire.KIND_UPDATE)}
    ((asked, _),) = played.sent(wire.KIND_QUERY)
    assert asked - sent[lost] < 1.6 * RTT


def test_a_worker_that_asks_in_vain_asks_further_up_itself() -> None:
    """Another worker's queries may have been those that go up, and it may have stopped: this one waits four queries for it."""
    lost = 5 * SLOTS + 3
    played = Played(never, lambda packet: packet["chunk"] == lost and packet["mark"] != wire.MARK_INSISTS, always)
    begun = played.clock.now
    played.sum(10 * SLOTS)
    assert [p["mark"] for _, _, p in played.net.sent if p["kind"] == wire.KIND_QUERY] == [0, 1, 1, 1, wire.MARK_INSISTS]
    assert played.clock.now - begun < 2


@pytest.mark.parametrize("start", [0, 2**32 // SLOTS - 2])
def test_a_lost_update_is_sent_again_once_the_switch_says_so(start: int) -> None:
    """Also where chunk numbers have come round."""
    lost = (start + 5) * SLOTS % 2**32 + 3
    played = Played(once(lost), never, always)
    played.core.slots["round"] = start
    played.sum(10 * SLOTS)
    assert [chunk for _, chunk in played.sent(wire.KIND_QUERY)] == [lost]
    assert played.worker.counters.retransmissions == 1
    assert [chunk for _, chunk in played.sent(wire.KIND_UPDATE)].count(lost) == 2
    ((asked, _),) = played.sent(wire.KIND_QUERY)
    again = [when for when, chunk in played.sent(wire.KIND_UPDATE) if chunk == lost][1]
    assert played.net.urgently == [asked, again]  # both pass by what waits in this host's queue


def test_what_is_urgent_has_a_timeout_of_its_own() -> None:
    """What is urgent comes back in a tenth of the others' round trip, so a query that is lost is sent again sooner than they are."""
    first, second = 5 * SLOTS + 3, 7 * SLOTS + 3
    lost, unasked = [once(first), once(second)], once(second, wire.KIND_QUERY)
    played = Played(lambda packet: any(decide(packet) for decide in lost), never, always)
    usual = played.answer

    def quick(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = usual(packet, peer)
        if unasked(packet):
            return []
        return [(RTT / 10, reply) for _, reply in found] if played.net.urgent else found

    played.net.answer = quick
    played.sum(10 * SLOTS)
    (_, early, late) = (when for when, _ in played.sent(wire.KIND_QUERY))
    assert late - early < RTT
    assert played.worker.counters.retransmissions == 2


def test_at_the_end_of_a_sum_fewer_results_will_do() -> None:
    lost = 10 * SLOTS + GAP - 2  # in slots from 1 on; slot 0 has one round more, for the announcement
    played = Played(never, once(lost), always)
    played.sum(10 * SLOTS + GAP)
    ((asked, chunk),) = played.sent(wire.KIND_QUERY)
    sent = {chunk: when for when, chunk in played.sent(wire.KIND_UPDATE)}
    assert (chunk, asked - sent[lost] < 1.6 * RTT) == (lost, True)


def test_in_a_silence_one_asks_for_all_and_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other worker comes ten seconds late: few queries, each about the chunk asked about least, and nothing is sent again."""
    played = Played(never, never, always)
    played.sum(4 * SLOTS)
    begun, before = played.clock.now, len(played.net.sent)
    played.other = lambda packet: played.clock.now > begun + 10
    monkeypatch.setattr(played, "answer", played.answer)

    def late(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = played.answer(packet, peer)
        return (
            found or [(10.0 + played.free - played.clock.now, result_of(packet))] if packet["kind"] == wire.KIND_UPDATE else found
        )

    played.net.answer = late
    played.sum(2 * SLOTS)
    asked = [(when, int(p["chunk"])) for when, _, p in played.net.sent[before:] if p["kind"] == wire.KIND_QUERY]
    assert played.worker.counters.retransmissions == 0
    moments, at_once = np.unique([when for when, _ in asked if when < begun + 10], return_counts=True)
    gaps = np.diff(moments)
    assert at_once.max() == SLOTS // 8 and len(moments) < 100
    assert gaps[-1] > 3 * gaps[0] and gaps.max() <= LONGEST_WAIT
    numbers = np.unique([chunk for _, chunk in asked], return_counts=True)[1]
    assert len(numbers) == SLOTS and numbers.max() - numbers.min() <= 2
    assert asked[0][0] not in played.net.urgently  # the chunk's packet may still wait in this host's queue
    assert asked[-1][0] in played.net.urgently


def test_a_chunk_that_this_worker_alone_asks_about_has_its_turn_among_those_that_others_ask_about() -> None:
    """Its packet and the first query are lost. Statuses of all other chunks come for three seconds, as often as others ask."""
    lost, packets = 5 * SLOTS + 11, []

    def twice(packet: np.ndarray) -> bool:
        packets.extend([packet] if packet["chunk"] == lost else [])
        return packet["chunk"] == lost and len(packets) <= 2

    played = Played(twice, never, always)
    played.other = lambda packet: int(packet["chunk"]) < 5 * SLOTS or lost in played.updates

    def asked_by_others(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = played.answer(packet, peer)
        if packet["kind"] == wire.KIND_UPDATE and int(packet["chunk"]) // SLOTS == 5 and packet["chunk"] != lost:
            status = packet.copy()
            status["kind"], status["mark"], status["vector"][0] = wire.KIND_STATUS, 0, 2
            found += [(0.1 + n * RTT / 4, status) for n in range(600)]
        return found

    played.net.answer = asked_by_others
    begun = played.clock.now
    played.sum(7 * SLOTS)
    assert len(packets) > 2 and played.clock.now < begun + 3


def test_two_workers_that_wait_for_each_other_go_on() -> None:
    """What this worker has lost is not the oldest that it waits for, and the other worker waits for it in all chunks."""
    lost = 5 * SLOTS + 11
    played = Played(once(lost), never, always)
    played.other = lambda packet: int(packet["chunk"]) < 5 * SLOTS or lost in played.updates
    usual, held = played.net.answer, []

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = usual(packet, peer)
        if packet["kind"] == wire.KIND_UPDATE and packet["chunk"] != lost and not found:
            held.append(packet.copy())
        if packet["kind"] == wire.KIND_UPDATE and packet["chunk"] == lost and found:
            found += [(RTT, result_of(waiting)) for waiting in held]  # the other worker goes on, too
        return found

    played.net.answer = answer
    begun = played.clock.now
    played.sum(10 * SLOTS)
    assert played.worker.counters.retransmissions == 1
    assert played.clock.now - begun < 2.0


def test_an_end_that_is_lost_as_a_whole_costs_one_silence() -> None:
    """What was sent after a chunk that turns out to be lost is asked about at once."""
    played = Played(never, never, always)
    played.sum(4 * SLOTS)
    had: set[int] = set()

    def among_the_last(packet: np.ndarray) -> bool:
        known = int(packet["chunk"]) in had
        had.add(int(packet["chunk"]))
        return not known and len(had) > 4 * SLOTS + 1 - 8  # there is one round more, for the announcement

    played.lost = among_the_last
    before = len(played.net.sent)
    played.sum(4 * SLOTS)
    asked = [when for when, _, p in played.net.sent[before:] if p["kind"] == wire.KIND_QUERY]
    assert played.worker.counters.retransmissions == played.worker.counters.queries == 8
    assert asked[-1] - asked[0] < 5 * RTT


def test_what_waits_in_a_queue_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first packets of a window find an empty network and shorten the timeout, which the last ones then exceed."""
    played = Played(never, never, always)
    played.sum(40 * SLOTS)
    monkeypatch.setattr("tests.unit.test_recovery.APART", RTT / 2)
    played.sum(2 * SLOTS)
    assert played.worker.counters.queries == 0


def test_a_result_that_comes_twice_makes_nobody_ask_later() -> None:
    """It answers a query that was not needed, of this worker or another; resending alone must learn from it."""
    played = Played(never, never, always)
    played.sum(4 * SLOTS)
    timer = played.core.timers[0]
    before = timer.timeout
    INSIDE.stream_needless(ffi.addressof(played.core.core, "stream"), 3, [True], played.clock.now)
    assert timer.timeout == before
    played.core.stream.recovery = enum("stream_recovery")["RESENDING"]
    INSIDE.stream_needless(ffi.addressof(played.core.core, "stream"), 3, [True], played.clock.now)
    assert timer.timeout == 2 * before


def test_a_timeout_shorter_than_every_round_trip_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk is asked about before its result can have come, so no round trip counts, until it is doubled."""
    monkeypatch.setattr("tests.unit.test_recovery.RTT", 0.15)
    played = Played(never, never, always)
    for _ in range(20):
        played.sum(SLOTS)
    assert played.core.timers[0].srtt == pytest.approx(0.15, rel=0.1)


def test_results_that_overtake_nothing_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something of every chunk but one is sent again by the other worker; that one's packet is lost, in a stream without a gap."""
    monkeypatch.setattr("tests.unit.test_recovery.APART", RTT / SLOTS)
    lost = 5 * SLOTS + 3
    played = Played(once(lost), never, always)
    usual = played.answer

    def marked(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = usual(packet, peer)
        for _, reply in found:
            reply["mark"] |= reply["kind"] == wire.KIND_RESULT and reply["chunk"] > 4 * SLOTS
        return found

    played.net.answer = marked
    played.sum(60 * SLOTS)
    sent = {chunk: when for when, chunk in reversed(played.sent(wire.KIND_UPDATE))}
    asked = [when for when, chunk in played.sent(wire.KIND_QUERY) if chunk == lost]
    assert asked[0] - sent[lost] < 4 * RTT


def test_a_result_that_is_lost_after_an_answer_is_asked_for_soon() -> None:
    """At the end of a sum nothing more comes that could overtake: two round trips of what is urgent are enough."""
    late = 10 * SLOTS + 1  # in slots from 1 on; slot 0 has one round more
    played = Played(never, once(late, wire.KIND_UPDATE), always)
    usual, asked = played.answer, list[float]()

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY and packet["chunk"] == late:
            asked.append(played.clock.now)
            status = packet.copy()
            status["kind"], status["mark"], status["vector"][0] = wire.KIND_STATUS, 0, 2  # the other one is not in
            return [(RTT / 10, status)] if len(asked) == 1 else usual(packet, peer)
        return usual(packet, peer)

    played.net.answer = answer
    RetransmissionTimer(of=ffi.addressof(played.core.stream, "by_status")).sample(np.full(9, RTT / 10))
    played.sum(10 * SLOTS + 3)
    assert asked[1] - asked[0] < RTT


def test_queries_that_nobody_answers_wait_twice_as_long_each_time() -> None:
    """Up to the timeout of what is not urgent: their answers may wait in a queue that is longer than any round trip before."""
    lost, back = 10 * SLOTS + 1, 30.0
    played = Played(never, never, always)
    usual, begun = played.answer, played.clock.now

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = usual(packet, peer)
        return [] if packet["chunk"] == lost and played.clock.now < begun + back else found

    played.net.answer = answer
    RetransmissionTimer(of=ffi.addressof(played.core.stream, "by_status")).sample(np.full(9, RTT / 10))
    played.sum(10 * SLOTS + 3)
    asked = [when for when, chunk in played.sent(wire.KIND_QUERY) if chunk == lost]
    waits = np.diff(asked)
    longest = played.core.timers[0].timeout
    growing = waits[1:] < 0.9 * longest
    assert growing.sum() >= 2 and waits[1:][growing] / waits[:-1][growing] == pytest.approx(2, rel=0.1)
    assert waits.max() <= 1.1 * longest


def result_of(update: np.ndarray) -> np.ndarray:
    """Its values are this worker's own; the other one sums the same."""
    made = update.copy()
    made["kind"] = wire.KIND_RESULT
    if is_bare(made):
        made["tag"] *= 2
    return made


def test_an_answer_about_an_earlier_packet_is_out_of_date() -> None:
    """Two queries, then the packet is sent again for the first answer; the second one is no reason to send a third."""
    lost = 5 * SLOTS + 3
    played = Played(once(lost), never, always)
    ask = played.answer

    def twice(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        found = ask(packet, peer)
        return [*found, *((delay + RTT / 2, again) for delay, again in found)] if packet["kind"] == wire.KIND_QUERY else found

    played.net.answer = twice
    played.sum(10 * SLOTS)
    assert played.worker.counters.retransmissions == 1


def test_a_chunk_that_waits_for_long_is_asked_about_now_and_then() -> None:
    """The other worker's part of one chunk comes a minute late, while the others' results have gone past it."""
    late = 3 * SLOTS + 5
    played = Played(never, never, always)
    begun = played.clock.now
    played.other = lambda packet: packet["chunk"] != late or played.clock.now > begun + 60
    played.sum(40 * SLOTS)
    asked = [when for when, chunk in played.sent(wire.KIND_QUERY) if chunk == late]
    assert 60 <= len(asked) <= 300
    assert np.diff(asked).max() <= 1.1
    assert played.worker.counters.retransmissions == 0 and played.clock.now - begun < 62


def test_the_silence_goes_on_while_sums_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """What interrupts the wait is no sign of life of the network."""
    played = Played(always, never, always)
    w = played.worker
    w.core.patience = 1.0
    started = w.start(np.ones(K, np.int32))

    def interrupted(seconds: float, interrupt: int = -1) -> bool:
        played.clock.now += 0.2
        played.net.interrupted = interrupt != -1
        return False

    monkeypatch.setattr(played.net, "wait", interrupted)
    for _ in range(4):
        assert not w.advance(started, interrupt=7)
    silent_from = played.clock.now
    with pytest.raises(AggregationError, match="nothing arrived for 1 s; the switch of rack 0 does not answer"):
        w.advance(started)
    assert played.clock.now - silent_from < 0.5 + QUERY_PATIENCE
