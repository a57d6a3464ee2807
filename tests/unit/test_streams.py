"""Several workers of SwitchML with several tensors under way, at a model of the switch: sums are exact, whoever is early or late.

The workers are the real ones, on a clock and sockets of the test's. In between is a bag of packets, from which any one may come
next, twice, or never.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.collective import AggregationError, Membership, Sum
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML
from tests.fake_network import FakeNetwork, bare, driven, is_bare
from tests.properties import examples
from tests.reference import QUERY, RESULT, UPDATE, Message, ModelSwitch

K, SLOTS, EPOCH = 32, 4, 9
LENGTHS = (1, 40, 7 * K, 3 * K + 1, SLOTS * K, 2)
MOST_ROUNDS = 400  # of everything being delivered, and all timers running out, after which all must be complete


class Net:
    """Workers below one switch, and what is on its way."""

    def __init__(self, workers: int, tensors: list[list[np.ndarray]], **settings: Any) -> None:
        self.clock = FakeNetwork(self.leave)
        self.switch = ModelSwitch(workers)
        self.bag: list[tuple[int, np.ndarray]] = []  # to a worker, or to the switch: -1
        members = list(range(workers))
        self.workers = [
            driven(SwitchML(Membership(3, w, workers, [members]), EPOCH, SLOTS, K, **settings), self.clock)[0] for w in members
        ]
        self.tensors = tensors  # by worker, in their order
        self.started: list[list[Sum]] = [[] for _ in members]

    def leave(self, packet: np.ndarray, peer: int) -> list[tuple[float, np.ndarray]]:
        self.bag.append((-1, packet.copy()))
        return []

    def start(self, w: int) -> None:
        if len(self.started[w]) < len(self.tensors[w]):
            self.started[w].append(self.workers[w].start(self.tensors[w][len(self.started[w])]))

    def deliver(self, position: int, keep: bool = False) -> None:
        to, packet = self.bag[position] if keep else self.bag.pop(position)
        if to >= 0:
            socket: Any = self.workers[to].endpoint
            socket.coming.append((self.clock.now, len(socket.coming), packet))
            self.workers[to]._receive()
            return
        kind = {wire.KIND_UPDATE: UPDATE, wire.KIND_QUERY: QUERY}[int(packet["kind"])]
        fields = [int(packet[name]) for name in ("epoch", "worker", "version", "slot", "chunk", "exponent")]
        vector = (int(packet["tag"]),) if is_bare(packet) else () if kind == QUERY else tuple(map(int, packet["vector"]))
        m = Message(kind, *fields, vector, kind == QUERY)
        predicted = self.switch.update(m) if kind == UPDATE else self.switch.query(m)
        if predicted:
            where, out = predicted
            again = int(kind == QUERY or packet["mark"])
            for worker in range(len(self.workers)) if where == "all" else [m.worker]:
                self.bag.append((worker, self.packet(packet, out, again)))

    @staticmethod
    def packet(like: np.ndarray, out: Message, again: int) -> np.ndarray:
        short = out.kind == RESULT and len(out.vector) == 1
        made = bare(like) if short else like.copy()
        made["exponent"], made["epoch"] = out.exponent, out.epoch
        if out.kind == RESULT:
            made["kind"], made["mark"] = wire.KIND_RESULT, again
            made["tag" if short else "vector"] = out.vector[0] if short else out.vector
        else:
            made["kind"], made["mark"] = wire.KIND_STATUS, 0
            made["vector"][0] = sum(1 << w for w in out.seen)
        return made

    def tick(self, seconds: float) -> None:
        """Time passes: timers run out."""
        self.clock.now += seconds
        for worker in self.workers:
            worker.core.expired(self.clock.now)
            worker._send()

    def finish(self) -> None:
        for w in range(len(self.workers)):
            while len(self.started[w]) < len(self.tensors[w]):
                self.start(w)
        for _ in range(MOST_ROUNDS):
            while self.bag:
                self.deliver(0)
            if all(s.total is not None for started in self.started for s in started):
                return
            self.tick(1.5)
        raise AssertionError("some sums never end")


ACTIONS = ["start"] * 2 + ["deliver"] * 8 + ["first"] * 8 + ["lose", "twice", "tick"]
scripts = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 999)), max_size=250)


def values(rng: np.random.Generator, length: int, floats: bool) -> np.ndarray:
    if floats:
        return (rng.standard_normal(length) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
    return rng.integers(-(2**29), 2**29, length).astype(np.int32)


@pytest.mark.parametrize("recovery", ["ask", "paper"])
@pytest.mark.parametrize("workers", [1, 3])
def test_sums_are_exact_whoever_is_early(workers: int, recovery: str) -> None:
    @examples(40)
    @given(scripts, st.integers(0, 999), st.lists(st.tuples(st.sampled_from(LENGTHS), st.booleans()), min_size=1, max_size=6))
    def run(script: list[tuple[str, int]], seed: int, kinds: list[tuple[int, bool]]) -> None:
        rng = np.random.default_rng(seed)
        tensors = [[values(rng, *kind) for kind in kinds] for _ in range(workers)]
        net = Net(workers, tensors, recovery=recovery)
        for action, n in script:
            if action == "start":
                net.start(n % workers)
            elif action == "tick":
                net.tick(n / 2000)
            elif net.bag:
                if action == "lose":
                    net.bag.pop(n % len(net.bag))
                else:
                    net.deliver(0 if action == "first" else n % len(net.bag), keep=action == "twice")
        net.finish()
        for i, (length, floats) in enumerate(kinds):
            totals = [net.started[w][i].total for w in range(workers)]
            exact = np.sum([t[i].astype(np.float64 if floats else np.int64) for t in tensors], axis=0)
            largest = max(float(np.abs(t[i]).max()) for t in tensors)
            for total in totals:
                assert total is not None and total.shape == (length,) and total.dtype == tensors[0][i].dtype
                np.testing.assert_array_equal(total, totals[0])
                np.testing.assert_allclose(total, exact, rtol=0, atol=largest * 1e-6 if floats else 0)

    run()


def test_tensors_that_are_known_ahead_pay_for_one_window_of_exponents() -> None:
    """A stream of small sums: behind the first window each sum has one packet more than it has chunks."""
    sums, chunks = 20, 3
    tensors = [[np.full(chunks * K, 1.5 + i, np.float32) for i in range(sums)] for _ in range(2)]
    net = Net(2, tensors)
    for w in (0, 1):
        for _ in range(sums):
            net.start(w)
    net.finish()
    assert [w.counters.sent for w in net.workers] == [SLOTS + sums * (chunks + 1) - min(SLOTS, 2)] * 2
    assert all(w.counters.retransmissions == 0 for w in net.workers)


def test_a_worker_that_starts_a_sum_late_costs_exponents_and_nothing_else() -> None:
    tensors = [[np.full(SLOTS * K, 2.0, np.float32)] * 2 for _ in range(2)]
    net = Net(2, tensors)
    for w in (0, 0, 1):
        net.start(w)
    while net.bag:
        net.deliver(0)
    assert net.started[0][0].total is not None and net.started[0][1].total is None
    net.start(1)
    net.finish()
    assert [w.counters.sent for w in net.workers] == [4 * SLOTS] * 2
    for started in net.started:
        np.testing.assert_array_equal(started[1].total, np.full(SLOTS * K, 4.0, np.float32))


def test_tensors_in_another_order_are_refused() -> None:
    a, b = np.ones(5 * K, np.float32), np.ones(9 * K, np.float32)
    net = Net(2, [[a, b], [b, a]])
    with pytest.raises(AggregationError, match="the workers sum different tensors"):
        for w in (0, 0, 1, 1):
            net.start(w)
        net.finish()


def test_an_empty_tensor_against_another_is_refused() -> None:
    """Both workers' sums of tensors with elements are of equal length: without a word, one's would be added to the other's."""
    a, nothing = np.ones(5 * K, np.float32), np.ones(0, np.float32)
    net = Net(2, [[nothing, a], [a, nothing]])
    with pytest.raises(AggregationError, match="160 elements of float32 behind 1 empty tensors"):
        net.finish()


@pytest.mark.parametrize("recovery", ["ask", "paper"])
def test_a_group_whose_first_packets_are_all_lost_begins_nevertheless(recovery: str) -> None:
    """The switch has served an earlier group; the first that it hears of this one is a query."""
    net = Net(2, [[np.ones(3, np.int32)]] * 2, recovery=recovery)
    net.switch.update(Message(UPDATE, EPOCH - 1, 0, 0, 0, 0, 0, (7,) * K))
    for w in (0, 1):
        net.start(w)
    net.bag.clear()
    net.finish()
    for (started,) in net.started:
        np.testing.assert_array_equal(started.total, [2, 2, 2])
