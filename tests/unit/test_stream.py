"""When SwitchML's worker sends what, byte by byte and moment by moment, on a network that the test plays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inalab.hosts.collective import AggregationError, Membership, Operation
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.stream.announcement import tag
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML
from tests.fake_network import Answer, FakeNetwork, bare, driven, is_bare
from tests.floats import CODE_UNKNOWN, exponents

K, SLOTS, EPOCH = 32, 8, 77
RTT = 0.02
ALONE = Membership(3, 0, 1, [[0]])


def result(update: np.ndarray, **change: int) -> np.ndarray:
    """What the switch of a job of one worker answers."""
    made = update.copy()
    made["kind"] = wire.KIND_RESULT
    for name, value in change.items():
        made[name] = value
    return made


def echo(update: np.ndarray, peer: int = 0) -> list[tuple[float, np.ndarray]]:
    return [(RTT, result(update))] if update["kind"] == wire.KIND_UPDATE else []


def worker(
    answer: Answer, membership: Membership = ALONE, pulse: Any = None, **settings: Any
) -> tuple[StreamDriver, Any, FakeNetwork]:
    network = FakeNetwork(answer)
    return *driven(SwitchML(membership, EPOCH, SLOTS, K, **settings), network, pulse), network


def test_a_result_for_another_owner_is_no_result() -> None:
    """The part behind its vector tells whose it is."""

    def answer(update: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if is_bare(update):
            return echo(update)
        others, mine = result(update), result(update)
        others["part"]["owner"], others["vector"] = 1, 7
        return [(RTT, others), (2 * RTT, mine)]

    made, _, _ = worker(answer)
    x = np.arange(5 * K, dtype=np.int32)
    started = made.start(x, operation=Operation.SCATTER)
    made.advance(started)
    np.testing.assert_array_equal(started.total, x)
    assert made.counters.malformed == 5


def times(sent: list[Any], clock_start: float, where: Callable[[np.ndarray], bool]) -> list[float]:
    return [round(when - clock_start, 4) for when, _, packet in sent if where(packet)]


def test_the_first_window_byte_by_byte() -> None:
    made, net, _ = worker(echo)
    x = (np.arange(3 * K, dtype=np.float32) + 1) * 2.0**5
    np.testing.assert_allclose(made.all_reduce(x), x, rtol=1e-6)
    codes = exponents(x.reshape(3, K))
    packets = sorted((packet for _, _, packet in net.sent), key=lambda packet: int(packet["chunk"]))
    assert len(packets) == 6
    for i, packet in enumerate(packets):
        turn, slot = divmod(i, 3)
        assert [int(packet[name]) for name in ("job", "worker", "kind", "version", "slot", "mark", "epoch", "chunk")] == [
            3, 0, wire.KIND_UPDATE, turn, slot, 0, EPOCH, turn * SLOTS + slot,
        ]  # fmt: skip
        assert packet["exponent"] == (CODE_UNKNOWN if turn else codes[slot])
    assert all(map(is_bare, packets[:3]))
    assert [packet["tag"] for packet in packets[:3]] == [tag(x), 0, 0]
    assert (packets[3]["vector"] > 0).all()


@pytest.mark.parametrize("start", [0, 2**31 // SLOTS - 2, 2**32 // SLOTS - 2, 2**32 // SLOTS, 2**40 // SLOTS - 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_chunk_numbers_come_round(start: int, dtype: type) -> None:
    made, net, _ = worker(echo)
    made.core.slots["round"] = start
    x = np.arange(20 * K).astype(dtype)
    for _ in range(2):
        np.testing.assert_allclose(made.all_reduce(x), x, rtol=1e-6)
    for slot in range(SLOTS):
        mine = [packet for _, _, packet in net.sent if packet["slot"] == slot]
        assert len(mine) >= 5
        for turn, packet in enumerate(mine, start):
            assert (int(packet["chunk"]), packet["version"]) == ((turn * SLOTS + slot) % 2**32, turn % 2)


def test_a_lost_chunk_is_sent_again_with_a_mark_and_backs_off() -> None:
    """The last of all, so that no other result comes in the meantime."""
    lost = 10 * SLOTS
    drops = 5

    def answer(update: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        nonlocal drops
        if update["chunk"] == lost and drops:
            drops -= 1
            return []
        return echo(update)

    made, net, clock = worker(answer, recovery="paper")
    start = clock.now
    x = np.arange(10 * SLOTS * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    sent = [(when, int(packet["mark"])) for when, _, packet in net.sent if packet["chunk"] == lost]
    assert [mark for _, mark in sent] == [0, 1, 1, 1, 1, 1]
    waits = np.diff([when for when, _ in sent])
    assert waits[1:] / waits[1] == pytest.approx([1, 2, 2, 2], rel=0.1)  # twice as long, then four times: no longer
    assert 2 * RTT <= waits[0] < 4 * RTT
    np.testing.assert_array_equal(made.all_reduce(x), x)
    following = next(packet for _, _, packet in net.sent if packet["chunk"] == lost + SLOTS)
    assert following["mark"] == 0
    assert made.counters.retransmissions == 5 and made.counters.sent == len(net.sent)
    others = [packet for _, _, packet in net.sent if packet["mark"] == 1 and packet["chunk"] != lost]
    assert not others and clock.now - start < 3


def test_only_round_trips_without_any_repetition_are_samples() -> None:
    """Karn's rule, for a group: what this worker or, by the result's mark, another one has sent again tells nothing."""

    def answer(update: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        marked = int(update["chunk"]) % 2
        return [(RTT if marked else 2 * RTT, result(update, mark=marked))]

    made, _, _ = worker(answer)
    made.all_reduce(np.arange(8 * SLOTS * K, dtype=np.int32))
    assert 2 * RTT <= made.core.timers[0].srtt < 2.5 * RTT


def test_before_the_first_result_one_asks_then_two_up_to_an_eighth() -> None:
    clock = FakeNetwork(lambda update, peer: [])
    made, net = driven(SwitchML(ALONE, EPOCH, 64, K, patience=3.0, recovery="paper"), clock)
    with pytest.raises(AggregationError, match="nothing arrived for 3 s; the switch of rack 0 does not answer"):
        made.all_reduce(np.zeros(200 * K, np.int32))
    again = [(when, int(packet["chunk"])) for when, _, packet in net.sent[64:] if packet["kind"] == wire.KIND_UPDATE]
    moments = sorted({when for when, _ in again})
    assert [sum(when == moment for when, _ in again) for moment in moments][:6] == [1, 2, 4, 8, 8, 8]
    assert [chunk for when, chunk in again if when == moments[0]] == [0]
    assert clock.now - net.sent[0][0] < 5


def test_what_was_not_overtaken_waits_for_silence() -> None:
    """Nothing that was sent later has come back, and results still arrive: the chunk is only queued."""

    free = 0.0  # when the queue is empty

    def answer(update: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        nonlocal free
        if update["chunk"] // SLOTS >= 5:  # a queue: one result after another, the last ones long after the timeout
            free = max(free + 0.03, clock.now + RTT)
            return [(free - clock.now, result(update))]
        return [(RTT, result(update))]

    made, net, clock = worker(answer, recovery="paper")
    made.all_reduce(np.arange(5 * SLOTS * K + (SLOTS - 1) * K, dtype=np.int32))
    assert made.counters.retransmissions == 0, [(int(p["chunk"]), w) for w, _, p in net.sent if p["mark"]]


def test_results_of_others_are_refused_and_counted() -> None:
    """Of another group, job, slot or chunk; and a second copy of what has come."""

    def answer(update: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        wrong = [{"epoch": EPOCH - 1}, {"epoch": EPOCH + 1}, {"job": 4}, {"slot": SLOTS}, {"chunk": int(update["chunk"]) ^ 1}]
        forged = [(RTT / 2, result(update, **change)) for change in wrong]
        for _, packet in forged:
            packet["tag" if is_bare(packet) else "vector"] = 99
        return [*forged, (RTT, result(update)), (RTT, result(update))]

    made, _, _ = worker(answer)
    x = np.arange(12 * K, dtype=np.int32)
    np.testing.assert_array_equal(made.all_reduce(x), x)
    assert made.counters.outdated == 2 * 13
    assert made.counters.malformed == 2 * 13
    assert made.counters.results == 13 and made.counters.duplicates >= 13


def status(query: np.ndarray, seen: int, epoch: int = EPOCH, level: int = 0) -> np.ndarray:
    made = query.copy()
    made["kind"], made["mark"], made["epoch"] = wire.KIND_STATUS, level, epoch
    made["vector"][0] = np.array(seen, np.uint32).astype(np.int32)
    return made


PAIR = Membership(3, 1, 2, [[0, 1]])


def test_a_worker_that_is_alive_may_take_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Where somebody watches over the workers; the log says whom the sum waits for."""
    ready = 100.0
    updates = {}

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            if clock.now < begun + ready:
                return [(RTT, status(packet, 0b10))]
            return [(RTT, result(updates[int(packet["chunk"])], mark=1))]
        updates[int(packet["chunk"])] = packet.copy()
        return [(RTT, result(packet))] if clock.now > begun + ready else []

    made, _, clock = worker(answer, PAIR, patience=5.0, pulse=lambda: None)
    begun = clock.now
    x = np.arange(3 * K, dtype=np.int32)
    monkeypatch.setattr(made.core, "_check_announcement", lambda total, tensor: None)  # the other worker's is not played
    with caplog.at_level(logging.WARNING, "inalab"):
        np.testing.assert_array_equal(made.all_reduce(x), x)
    assert clock.now - begun > ready
    assert "worker 1: job 3, slot 0, chunk 0 waits: the switch of rack 0 has not seen worker 0" in caplog.text


@pytest.mark.parametrize(
    ("seen", "pulse", "sentence"),
    [
        (0b10, None, "nothing arrived for 5 s; the switch of rack 0 has not seen worker 0"),
        (0b01, lambda: None, "nothing arrived for 5 s; the switch of rack 0 has not seen worker 1"),
        (None, lambda: None, "nothing arrived for 5 s; the switch of rack 0 does not answer"),
        (
            0b11,
            lambda: None,
            "nothing arrived for 5 s; the switch of rack 0 has seen all its workers, and nothing comes from above",
        ),
        (
            0b10,
            lambda: "worker 0 was killed by SIGKILL",
            "worker 0 was killed by SIGKILL; the switch of rack 0 has not seen worker 0",
        ),
    ],
    ids=["nobody watches", "own packets are lost", "the switch is silent", "the result is lost", "the pulse knows"],
)
def test_silence_ends_a_sum(seen: int | None, pulse: Any, sentence: str) -> None:
    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        return [(RTT, status(packet, seen))] if packet["kind"] == wire.KIND_QUERY and seen is not None else []

    made, net, clock = worker(answer, PAIR, patience=5.0, pulse=pulse)
    begun = clock.now
    with pytest.raises(AggregationError) as first:
        made.all_reduce(np.zeros(K, np.int32))
    assert str(first.value) == f"worker 1: job 3, slot 0, chunk 0 cannot be completed: {sentence}"
    assert clock.now - begun < 12  # a patience, and another one where recovery might have mended it
    sent = len(net.sent)
    with pytest.raises(AggregationError, match="cannot be completed"):
        made.all_reduce(np.zeros(K, np.int32))
    assert len(net.sent) == sent  # a broken stream sends nothing


def test_a_chunk_that_never_comes_ends_a_sum_while_others_do() -> None:
    """Patience is for progress: results of other slots are no reason to wait for this one for ever."""

    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        if packet["kind"] == wire.KIND_QUERY:
            return [(RTT, status(packet, 0b11))]
        return [] if packet["chunk"] == 0 else [(RTT, result(packet))]

    patience = 100 * RTT
    made, _, clock = worker(answer, PAIR, patience=patience, pulse=lambda: None)
    begun = clock.now
    with pytest.raises(AggregationError, match=rf"its result did not come for {patience:g} s, though others did; the switch"):
        made.all_reduce(np.zeros(1000 * SLOTS * K, np.int32))
    assert clock.now - begun < 2 * patience


def test_a_newer_group_is_told_of() -> None:
    def answer(packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        return [(RTT, status(packet, 0, EPOCH + 9))] if packet["kind"] == wire.KIND_QUERY else []

    made, _, _ = worker(answer, PAIR, patience=1.0, pulse=lambda: None)
    with pytest.raises(AggregationError, match="serves a newer group of the job"):
        made.all_reduce(np.zeros(K, np.int32))


def test_an_interrupted_sum_breaks_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _ = worker(echo)
    monkeypatch.setattr(made.core, "_receive", lambda *of: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        made.all_reduce(np.zeros(K, np.int32))
    with pytest.raises(AggregationError, match="interrupted"):
        made.all_reduce(np.zeros(K, np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_an_array_that_cannot_be_written_is_summed(dtype: type) -> None:
    made, _, _ = worker(echo)
    x = np.frombuffer(np.arange(3 * K, dtype=dtype).tobytes(), dtype)
    np.testing.assert_array_equal(made.all_reduce(x), x)


def test_a_tag_is_no_sum_of_a_chunk() -> None:
    """It would leave the chunk's place in the tensor as it was."""
    made, _, _ = worker(
        lambda update, peer: [(RTT / 2, bare(result(update))), *echo(update)] if not is_bare(update) else echo(update)
    )
    x = (np.arange(5 * K, dtype=np.float32) + 1) * 2.0**5
    np.testing.assert_allclose(made.all_reduce(x), x, rtol=1e-6)
    assert made.counters.malformed == 5
