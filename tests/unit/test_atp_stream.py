"""When ATP's worker sends what, moment by moment, on a network that the test plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp import wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.control import ServerConnections
from inalab.hosts.atp.tree import Tree
from inalab.hosts.atp.worker import AtpWorker
from inalab.hosts.collective import AggregationError, Membership
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.stream.stream import Absence, Inquiry, Outlook
from tests.fake_network import Answer, FakeNetwork, FakeSocket, arrived, driven, is_bare

K, WINDOW, EPOCH = 32, 8, 77
RTT = 0.02
ALONE = Membership(3, 0, 1, [[0]])
NO_ONE = 0xFFFFFFFF  # no sequence number
MOST_WAITS = 16  # worker.c


def result(gradient: np.ndarray, **change: int) -> np.ndarray:
    made = gradient.copy()
    made["kind"], made["flags"] = wire.KIND_RESULT, 0
    made["next_index"] = gradient["index"]
    made["bitmap0"] = made["bitmap1"] = NO_ONE
    for name, value in change.items():
        made[name] = value
    return made


def worker(answer: Answer, servers: int = 1, window: int = WINDOW, **settings: Any) -> tuple[StreamDriver, FakeSocket, FakeNetwork]:
    network = FakeNetwork(answer)
    made, net = driven(AtpWorker(ALONE, EPOCH, [0] * servers, window, K, 64, **settings), network)
    made.control = ServerConnections(network, ALONE, ["", *[""] * servers], 1.0, EPOCH)
    return made, net, network


def begin_at(made: Any, start: int) -> None:
    """Let the stream begin with this chunk."""
    made.stream.position = start
    made.places["next"] = start + (np.arange(made.count) - start) % made.count


def sequence(packet: np.ndarray) -> int:
    return int(packet["owner"]) & 0xFFFFFF


def test_three_later_results_make_atp_resend_once() -> None:
    lost = WINDOW + 2
    answered = False

    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        nonlocal answered
        if sequence(gradient) == lost and not gradient["flags"] & wire.RESEND:
            return []
        if sequence(gradient) == lost and not answered:
            answered = True
            return [(10 * RTT, result(gradient))]
        return [(RTT + 0.001 * sequence(gradient), result(gradient))]

    made, net, _ = worker(answer, congestion="none", recovery="paper")
    x = np.arange(4 * WINDOW * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    sent = [(when, bool(p["flags"] & wire.RESEND)) for when, _, p in net.sent if sequence(p) == lost]
    assert [again for _, again in sent][:2] == [False, True]
    third = sorted(when for when, _, p in net.sent if lost < sequence(p) <= lost + 3)[0] + RTT + 0.001 * (lost + 3)
    assert sent[1][0] == pytest.approx(third, abs=0.006)  # not later, by a timeout
    assert not [p for _, _, p in net.sent if sequence(p) != lost and p["flags"] & wire.RESEND]


def test_the_less_is_left_the_more_urgent_is_a_gradient() -> None:
    """Of all tensors under way, in chunks (priority.c); and where switches do not pre-empt nothing is said."""

    def priorities(**settings: Any) -> list[int]:
        made, net, _ = worker(lambda gradient, peer: [(RTT, result(gradient))], window=1, **settings)
        made.all_reduce(np.zeros(9 * K, np.int32))
        return [int(packet["next_index"]) for _, _, packet in net.sent if packet["kind"] == wire.KIND_GRADIENT]

    assert priorities(prioritizes=True) == [65535 // (left + 1) for left in range(10, 0, -1)]
    assert priorities() == [0] * 10


def test_a_deadline_is_never_over_when_it_is_set() -> None:
    """Each path has timeouts of its own; a deadline in the past would be looked at again and again."""
    made, net, clock = worker(lambda packet, peer: [], servers=2, recovery="paper")
    made.start(np.arange(4 * WINDOW * K, dtype=np.int32))
    core, sent = made.core, len(net.sent)
    core.rows["sent_at"], core.rows["deadline"], core.stream.heard_at = clock.now - 1, np.inf, clock.now - 0.3
    core.timers[0].timeouts[:], core.timers[1].timeouts[:] = 0.01, 0.5
    core.rows["deadline"][:2], core.stream.soonest = clock.now, clock.now
    core.expired(clock.now)
    made._send()
    assert [sequence(packet) for _, _, packet in net.sent[sent:]] == [0]
    assert core.rows["deadline"][1] == pytest.approx(clock.now + 0.2)


def status(query: np.ndarray, flags: int, seen: bool) -> np.ndarray:
    made = query.copy()
    made["kind"], made["flags"], made["bitmap1"] = wire.KIND_STATUS, flags, int(seen)
    return made


@pytest.mark.parametrize(
    ("flags", "marks"),
    [
        (wire.RESEND | wire.ASKED | wire.EDGE_SWITCH, wire.RESEND | wire.ASKED),  # a switch's
        (wire.ASKED, wire.ASKED),  # a server's that has nobody
        (wire.RESEND, wire.RESEND),  # a server's that has others
    ],
)
@pytest.mark.parametrize("start", [0, 2**24 - WINDOW])
def test_atp_asks_before_it_sends_again_as_the_answer_says(flags: int, marks: int, start: int) -> None:
    """Also where sequence numbers come round; an answer to an earlier query is out of date."""
    lost = (start + WINDOW + 2) % 2**24
    left = [1]

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            return [(RTT, status(packet, flags, False)), (2 * RTT, status(packet, flags, False))]
        if sequence(packet) == lost and left and left.pop():
            return []
        return [(RTT + 0.001 * ((sequence(packet) - start) % 2**24), result(packet))]

    made, net, _ = worker(answer)
    begin_at(made.core, start)
    x = np.arange(4 * WINDOW * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    about = [packet for _, _, packet in net.sent if sequence(packet) == lost]
    assert [int(p["kind"]) for p in about] == [wire.KIND_GRADIENT, wire.KIND_QUERY, wire.KIND_GRADIENT]
    assert int(about[2]["flags"]) & (wire.RESEND | wire.ASKED) == marks
    assert not int(about[1]["flags"]) & (wire.ASKED | wire.RAW) and about[1]["next_index"] == 0
    others = [p for _, _, p in net.sent if sequence(p) != lost]
    assert all(p["kind"] == wire.KIND_GRADIENT and not p["flags"] & (wire.RESEND | wire.ASKED) for p in others)
    assert (made.counters.retransmissions, made.counters.queries) == (1, 1)


@pytest.mark.parametrize("named", [True, False])
def test_a_result_that_is_known_to_be_lost_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """As soon as the next one names it; where none does, when three others have come, and the query says that nothing is known."""
    lost, left = WINDOW + 2, [1]

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        q = sequence(packet)
        if packet["kind"] == wire.KIND_GRADIENT and q == lost and left and left.pop():
            return []
        if packet["kind"] == wire.KIND_QUERY:
            return [(0.004, result(packet, flags=wire.RESEND))]
        return [(RTT + 0.001 * q, result(packet, **({"bitmap0": lost} if named and q == lost + 1 else {})))]

    made, net, _ = worker(answer)
    monkeypatch.setattr(made.core, "_check_announcement", lambda total, tensor: None)
    made.all_reduce(np.arange(4 * WINDOW * K, dtype=np.int32))
    (query,) = [packet for _, _, packet in net.sent if packet["kind"] == wire.KIND_QUERY]
    (asked,) = net.urgently
    assert sequence(query) == lost
    assert bool(query["flags"] & wire.RESEND) == named
    sent = {sequence(packet): when for when, _, packet in net.sent if packet["kind"] == wire.KIND_GRADIENT}
    seen = lost + (1 if named else 3)  # the chunk whose result shows it
    assert asked == pytest.approx(sent[seen] + RTT + 0.001 * seen, abs=0.006)


def test_results_of_one_batch_are_not_lost_because_they_name_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        q = sequence(packet)
        return [(RTT, result(packet, **({"bitmap0": q - 1} if q else {})))]

    made, _, _ = worker(answer)
    monkeypatch.setattr(made.core, "_check_announcement", lambda total, tensor: None)
    made.all_reduce(np.arange(4 * WINDOW * K, dtype=np.int32))
    assert made.counters.queries == 0


def test_a_chunk_that_atp_lacks_holds_back_its_place_alone() -> None:
    """Its result comes when all others of the sum have theirs."""
    late = WINDOW + 2
    waiting: list[np.ndarray] = []

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            return [(RTT, status(packet, wire.RESEND | wire.ASKED, True))]
        if sequence(packet) == late:
            waiting.append(packet.copy())
            return []
        place = sequence(packet) % WINDOW == late % WINDOW
        others = {sequence(p) for _, _, p in net.sent if sequence(p) % WINDOW != late % WINDOW}
        done = [(2 * RTT, result(waiting.pop()))] if waiting and len(others) == 6 * (WINDOW - 1) and not place else []
        return [(RTT, result(packet)), *done]

    made, net, _ = worker(answer)
    x = np.arange((6 * WINDOW - 1) * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    assert made.counters.retransmissions == 0


def test_atp_waits_where_others_are_missing() -> None:
    lost = WINDOW + 2
    asked: list[int] = []

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            asked.append(int(packet["flags"]))
            if len(asked) < 3:
                return [(RTT, status(packet, wire.RESEND | wire.ASKED, True))]
            total = result(packet)
            total["vector"] = np.arange(K) + (lost - 1) * K
            return [(RTT, total)]
        return [(RTT + 0.001 * sequence(packet), result(packet))] if sequence(packet) != lost else []

    made, _, _ = worker(answer)
    x = np.arange(4 * WINDOW * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    assert made.counters.retransmissions == 0
    assert [bool(flags & wire.ASKED) for flags in asked] == [False, True, True]


def test_atp_flushes_what_lacks_others_for_too_long() -> None:
    """The others may have the result, and the switch not know it."""
    lost = WINDOW + 2

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            return [(RTT, status(packet, wire.RESEND | wire.ASKED, True))]
        return [(RTT, result(packet))] if sequence(packet) != lost or packet["flags"] & wire.RESEND else []

    made, net, _ = worker(answer)
    x = np.arange(4 * WINDOW * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    (again,) = [p for _, _, p in net.sent if p["kind"] == wire.KIND_GRADIENT and p["flags"] & wire.RESEND]
    assert (sequence(again), int(again["flags"]) & wire.ASKED, made.counters.queries) == (lost, 0, MOST_WAITS)


def test_atp_sends_the_oldest_chunk_whatever_the_window() -> None:
    """All others are under way, and the window is cut: other workers may wait for that one alone."""
    made, net, clock = worker(lambda packet, peer: [])
    made.start(np.arange(4 * WINDOW * K, dtype=np.int32))

    def come(*chunks: int) -> list[int]:
        """Their results do; what is sent then."""
        before = len(net.sent)
        packets = {sequence(packet): packet for _, _, packet in net.sent if packet["kind"] == wire.KIND_GRADIENT}
        made.core.received(arrived([result(packets[chunk]) for chunk in chunks], net.sender.record), clock.now)
        made._send()
        return [sequence(packet) for _, _, packet in net.sent[before:] if packet["kind"] == wire.KIND_GRADIENT]

    assert come(*range(1, WINDOW)) == list(range(WINDOW + 1, 2 * WINDOW))
    made.core.core.window.size = 4.0
    assert come(0) == [WINDOW]
    assert come(WINDOW + 1) == []  # what follows it is younger than what is under way


def test_a_silent_path_is_asked_about_while_another_moves() -> None:
    """One chunk of server 1 and the first queries about it are lost; server 0 answers all that it gets."""
    lost, queries = 1, []

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY and sequence(packet) == lost:
            queries.append(clock.now)
            return [(RTT, status(packet, wire.RESEND | wire.ASKED, False))] if len(queries) > 2 else []
        return [(RTT, result(packet))] if sequence(packet) != lost or packet["flags"] & wire.RESEND else []

    made, _, clock = worker(answer, servers=2, window=2)
    begun = clock.now
    made.all_reduce(np.zeros(4000 * K, np.int32))
    assert len(queries) == 3 and queries[-1] - begun < 2.0


def test_atp_tells_what_a_switch_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that a switch holds: the server has not seen what is held there, so the switch is asked first."""
    silent = WINDOW + 2

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            return [(RTT, status(packet, wire.RESEND | wire.ASKED | wire.EDGE_SWITCH, True))]
        return [(RTT, result(packet))] if sequence(packet) != silent else []

    made, _, _ = worker(answer, patience=2.0)
    monkeypatch.setattr(made.core, "trees", [Tree(Membership(3, 0, 4, [[0, 1], [2, 3]]), 0)])
    made.core.membership = Membership(3, 0, 4, [[0, 1], [2, 3]])
    monkeypatch.setattr(made.core, "_check_announcement", lambda total, tensor: None)
    what = r"chunk 10 .* the switch of rack 0 has not seen worker 1; rack 1 \(workers 2, 3\)"
    with pytest.raises(AggregationError, match=what) as caught:
        made.all_reduce(np.ones(4 * WINDOW * K, np.int32))
    assert (caught.value.incomplete, caught.value.missing) == (True, (1, 2, 3))


def test_a_racks_switch_knows_of_its_own_workers_alone() -> None:
    """Of four workers, the third has sent nothing: the fourth, whose rack is not the server's, misses that one."""
    made, _, _ = worker(lambda packet, peer: [])
    made.core.membership = member = Membership(3, 3, 4, [[0, 1], [2, 3]])
    tree = Tree(member, 0)
    held = made.core.places[0]
    held["zero"], held["one"] = tree.bitmaps(3)
    found = made.core._described(held, tree)
    assert (found.text, found.outlook, found.missing) == ("the switch of rack 1 has not seen worker 2", Outlook.OTHERS, (2,))


def test_what_recovery_mends_is_given_up_after_another_patience_alone() -> None:
    """A slow worker's packet arrives at the moment at which another one's, given up meanwhile, has to come again."""
    core = worker(lambda packet, peer: [])[0].core
    core.watched = True

    def overdue(outlook: Outlook, chunk: int) -> None:
        core.rows["chunk"][0] = chunk
        core.inquiry = Inquiry(0, chunk, f"chunk {chunk}", None, until=1.0, due=1.0)
        core._conclude(Absence("the switch has not seen worker 0", outlook), now=1.0)

    for chunk in (10, 20):
        for _ in range(2):
            overdue(Outlook.OTHERS, chunk)
        overdue(Outlook.RECOVERY, chunk)
    with pytest.raises(AggregationError, match="chunk 20 cannot be completed"):
        overdue(Outlook.RECOVERY, 20)
    with pytest.raises(AggregationError, match="chunk 30 cannot be completed"):
        overdue(Outlook.NONE, 30)


def test_atp_asks_for_the_index_that_the_server_hands_back() -> None:
    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        chunk = sequence(gradient)
        return [(RTT, result(gradient, **({"next_index": 60 + chunk} if chunk in (1, 3) else {})))]

    made, net, _ = worker(answer)
    made.all_reduce(np.zeros(3 * WINDOW * K, np.int32))
    first = beginning(3, WINDOW, 64)[0]
    for _, _, packet in net.sent:
        chunk = sequence(packet)
        place = chunk % WINDOW
        assert packet["index"] == (60 + place if place in (1, 3) and chunk >= WINDOW else first[place]), chunk
        assert (int(packet["epoch"]), int(packet["owner"]) >> 24, packet["kind"]) == (EPOCH, 3, wire.KIND_GRADIENT)


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_atp_spreads_chunks_and_loses_on_each_path_alone(servers: int) -> None:
    """Results of one server overtake nothing of another; a window need not be a multiple of the servers."""

    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        return [(RTT if peer else 2 * RTT, result(gradient))]

    made, net, _ = worker(answer, servers, window=7)
    x = np.arange(40 * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    assert all(peer == sequence(packet) % servers for _, peer, packet in net.sent)
    assert made.counters.retransmissions == made.counters.queries == 0


@pytest.mark.parametrize("start", [2**24 - 3, 2**24, 2**32 - 2, 2**40 - 1])
def test_atp_sequence_numbers_come_round(start: int) -> None:
    made, net, _ = worker(lambda gradient, peer: [(RTT, result(gradient))], servers=2)
    begin_at(made.core, start)
    x = np.arange(12 * K, dtype=np.int32)
    for _ in range(2):
        np.testing.assert_array_equal(made.all_reduce(x), x)
    assert {sequence(packet) for _, _, packet in net.sent} == {(start + i) % 2**24 for i in range(26)}
    assert all(peer == (start + (sequence(p) - start) % 2**24) % 2 for _, peer, p in net.sent)


@pytest.mark.parametrize(("scaling", "value"), [(1e8, 1e30), (None, np.inf), (None, np.nan)])
def test_atp_sends_raw_values_where_integers_will_not_do(scaling: float | None, value: float) -> None:
    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if gradient["kind"] == wire.KIND_GRADIENT and gradient["flags"] & wire.OVERFLOW:
            return [(RTT, result(gradient, flags=wire.OVERFLOW))]
        raw = gradient["kind"] == wire.KIND_RAW
        return [(RTT, result(gradient, flags=wire.OVERFLOW | wire.RAW if raw else 0))]

    made, net, _ = worker(answer, scaling=scaling)
    x = np.zeros(3 * K, np.float32)
    x[K : 2 * K] = value
    np.testing.assert_array_equal(made.all_reduce(x), x)
    raw = [packet for _, _, packet in net.sent if packet["kind"] == wire.KIND_RAW]
    assert [sequence(packet) for packet in raw] == [2]
    np.testing.assert_array_equal(raw[0]["vector"].astype(np.int32).view(np.float32), np.full(K, value, np.float32))
    assert raw[0]["flags"] & wire.RESEND and not raw[0]["flags"] & wire.INTEGER


@pytest.mark.parametrize("largest", [1e-30, 1e-6, 1.0, 21.5, 1e30])
def test_every_tensor_has_a_factor_of_its_own(largest: float) -> None:
    """None is so large that it overflows, nor so small that it vanishes."""
    made, net, _ = worker(lambda gradient, peer: [(RTT, result(gradient))])
    for scale in (1.0, 8.0, 1 / 64):
        x = (np.linspace(-1, 1, 5 * K) * largest * scale).astype(np.float32)
        np.testing.assert_allclose(made.all_reduce(x), x, rtol=0, atol=2.0**-30 * largest * scale)
    assert {int(packet["kind"]) for _, _, packet in net.sent} == {wire.KIND_GRADIENT}


def test_an_outlier_spoils_no_other_chunk() -> None:
    """Chunks far above or below most others are sent as they are, whatever order they come in."""
    made, net, _ = worker(
        lambda gradient, peer: [
            (
                RTT,
                result(
                    gradient,
                    flags=gradient["flags"] & wire.OVERFLOW | (wire.OVERFLOW | wire.RAW) * (gradient["kind"] == wire.KIND_RAW),
                ),
            )
        ]
    )
    x = np.linspace(-1, 1, 9 * K).astype(np.float32)
    x[2 * K : 3 * K] *= 1e20
    x[5 * K : 6 * K] *= 1e-9
    x[7 * K : 8 * K] = 0
    np.testing.assert_allclose(made.all_reduce(x), x, rtol=1e-6, atol=2.0**-30)
    np.testing.assert_array_equal(made.all_reduce(x)[5 * K : 6 * K], x[5 * K : 6 * K])
    raw = [sequence(packet) for _, _, packet in net.sent if packet["kind"] == wire.KIND_RAW]
    assert sorted(raw) == [3, 6, 13, 16]


def test_atp_refuses_results_of_another_group() -> None:
    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        forged = result(gradient, epoch=EPOCH - 1)
        forged["tag" if is_bare(forged) else "vector"] = 99
        return [(RTT / 2, forged), (RTT, result(gradient))]

    made, _, _ = worker(answer)
    x = np.arange(5 * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    assert made.counters.outdated == 6


@pytest.mark.parametrize(("scaling", "first"), [(1e8, set(range(16))), (None, {0, 1, 2, 3, 4, 7})])
def test_atp_has_several_sums_under_way(scaling: float | None, first: set[int]) -> None:
    """Of both dtypes, one with values that a fixed factor will not do for; the next ones begin before the first is over. Floats
    wait for the sums of their announcements, 4 and 7, which have their exponents."""

    def answer(gradient: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if gradient["kind"] == wire.KIND_GRADIENT and gradient["flags"] & wire.OVERFLOW:
            return [(RTT, result(gradient, flags=wire.OVERFLOW))]
        raw = gradient["kind"] == wire.KIND_RAW
        return [(RTT, result(gradient, flags=wire.OVERFLOW | wire.RAW if raw else 0))]

    made, net, _ = worker(answer, servers=2, window=16, scaling=scaling)
    tensors = [np.arange(3 * K, dtype=np.int32), np.full(2 * K, 1e30, np.float32), np.arange(20 * K, dtype=np.float32)]
    started = [made.start(x) for x in tensors]
    assert {sequence(packet) for _, _, packet in net.sent} == first
    assert [s.total is None for s in started] == [True] * 3
    for s, x in zip(started, tensors, strict=True):
        assert made.advance(s)
        np.testing.assert_allclose(s.total, x, rtol=1e-6)
    assert not made.core.under_way and not (made.core.rows["chunk"] >= 0).any()
