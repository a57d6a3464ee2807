"""p4/switchml_rdma.p4 against an independent model of queue pairs over the model of the pool, and by example."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.switchml import wire
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.switchml import PARENT as UP
from tests.packets import EPOCH, PARENT_PORT, SWITCH, vector, worker_station
from tests.properties import examples
from tests.rdma_packets import BYTES, RdmaJob, immediate, integers, words
from tests.reference import RESULT, UPDATE, Message, ModelSwitch
from tests.roce import FIRST, LAST, MIDDLE, ONLY, Reth, Roce, read

SHAPE, ICRC, QUEUE_PAIR, KEY, LENGTH, SEQUENCE = range(6)


def values(worker: int, turn: int, i: int) -> list[int]:
    """Numbers that tell workers, rounds and packets apart, near the ends of int32 too."""
    return vector(worker * 1000 + turn * 10 + i, 2**31 - 1 - worker, -(2**31) + turn, -i - 1)


def message(job: RdmaJob, worker: int, pair: int, turn: int, **of: int) -> list[Roce]:
    return job.write(worker, pair, turn, [values(worker, turn, i) for i in range(job.message)], **of)  # type: ignore[arg-type]


def added(job: RdmaJob, turn: int, i: int) -> tuple[int, ...]:
    """What all workers' values are together."""
    sums = [sum(of) for of in zip(*(values(w, turn, i) for w in range(job.workers)), strict=True)]
    return tuple((v + 2**31) % 2**32 - 2**31 for v in sums)


def connected(job: RdmaJob) -> OfflineSwitch:
    made = job.switch()
    for worker in range(job.workers):
        for pair in range(job.pairs):
            assert job.send(made, worker, job.connect(worker, pair, psn=1000)) == []
    return made


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_result_is_a_message_to_each_workers_memory(size: int) -> None:
    job = RdmaJob(3, size)
    opcodes = [ONLY] if size == 1 else [FIRST, *[MIDDLE] * (size - 2), LAST]
    with connected(job) as made:
        for turn in range(3):
            for worker in range(2):
                for packet in message(job, worker, 1, turn, psn=7):
                    assert job.send(made, worker, packet) == []
            sent = [job.send(made, 2, packet) for packet in message(job, 2, 1, turn, psn=2**24 - 2)]
            for worker in range(3):
                number, key, address = job.end(worker, 1)
                found = [read(copies[worker][1]) for copies in sent]
                assert [copies[worker][0] for copies in sent] == [worker] * size
                assert [p.opcode for p in found] == opcodes
                assert [p.psn for p in found] == [1000 + turn * size + i for i in range(size)]
                assert {p.queue_pair for p in found} == {number}
                assert [integers(p.payload) for p in found] == [added(job, turn, i) for i in range(size)]
                assert found[0].reth == Reth(address + (turn & 1) * size * BYTES, key, size * BYTES)
                assert found[-1].immediate == immediate(turn=turn)


def test_exponents_are_the_largest_of_each_quarter() -> None:
    job = RdmaJob(3)
    told = [(1, 127, 5, 0), (2, 3, 64, 0), (0, 126, 6, 9)]
    with connected(job) as made:
        sent = [job.send(made, w, p) for w in range(3) for p in message(job, w, 0, 0, exponents=told[w])]  # type: ignore[arg-type]
        assert {read(data).immediate for _, data in sent[-1]} == {immediate((2, 127, 64, 9))}
        again = [job.send(made, 1, p) for p in message(job, 1, 0, 0, exponents=told[1], again=True)]  # type: ignore[arg-type]
        ((port, data),) = again[-1]
        assert (port, read(data).immediate) == (1, immediate((2, 127, 64, 9), again=True))


def test_a_gap_costs_the_rest_of_the_message() -> None:
    job = RdmaJob(2)
    with connected(job) as made:
        first, _, third, last = message(job, 0, 0, 0)
        for packet in (first, third, last):
            assert job.send(made, 0, packet) == []
        assert made.counter("roce_receiver.refused", SEQUENCE) == 2
        sent = [job.send(made, 1, packet) for packet in message(job, 1, 0, 0)]
        assert [[read(data).opcode for _, data in copies] for copies in sent] == [[FIRST, FIRST], [], [], []]
        sent = [job.send(made, 0, packet) for packet in message(job, 0, 0, 0, psn=40)]
        assert [[port for port, _ in copies] for copies in sent] == [[0], [0, 1], [0, 1], [0, 1]]
        assert [[read(data).psn for _, data in copies] for copies in sent] == [[1004], [1005, 1001], [1006, 1002], [1007, 1003]]


def test_a_worker_that_has_not_connected_gets_nothing() -> None:
    job = RdmaJob(2, 1)
    with job.switch() as made:
        job.send(made, 1, job.connect(1, 0))
        job.send(made, 0, message(job, 0, 0, 0)[0])
        ((port, _),) = job.send(made, 1, message(job, 1, 0, 0)[0])
        assert (port, made.counter("unconnected", 0)) == (1, 1)
        job.send(made, 0, job.connect(0, 0, psn=5))
        ((port, data),) = job.send(made, 0, message(job, 0, 0, 0, psn=1)[0])
        assert (port, read(data).psn, integers(read(data).payload)) == (0, 5, added(job, 0, 0))


def test_a_round_that_goes_ahead_is_one_packet() -> None:
    job = RdmaJob(2)
    with connected(job) as made:
        tag = (30).to_bytes(4, "big")
        assert job.send(made, 0, job.short(0, 1, 4, wire.KIND_UPDATE, tag, exponents=(1, 2, 3, 4))) == []
        copies = job.send(made, 1, job.short(1, 1, 4, wire.KIND_UPDATE, tag, exponents=(4, 3, 2, 1)))
        for worker, (port, data) in enumerate(copies):
            result = read(data)
            number, key, address = job.end(worker, 1)
            assert (port, result.opcode, result.queue_pair) == (worker, ONLY, number)
            assert result.reth == Reth(address + 2 * job.message * BYTES, key, 20)
            assert result.immediate == immediate((4, 3, 3, 4), turn=4)
            told = dict(zip(("job", "worker", "kind", "version", "slot"), result.payload, strict=False))
            assert (told["kind"], told["version"], result.payload[16:]) == (wire.KIND_RESULT, 0, (60).to_bytes(4, "big"))
        for worker in range(2):
            sent = [job.send(made, worker, packet) for packet in message(job, worker, 1, 5)]
        assert [len(copies) for copies in sent] == [2, 2, 2, 2]


def test_a_query_learns_who_is_in() -> None:
    job = RdmaJob(3)
    with connected(job) as made:
        job.send(made, 1, message(job, 1, 0, 0)[0])
        for i, seen in ((0, 0b10), (3, 0)):
            ((port, data),) = job.send(made, 2, job.short(2, 0, 0, wire.KIND_QUERY, bytes(4), i))
            answer = read(data)
            assert (port, answer.payload[2], answer.payload[5], answer.payload[16:]) == (
                2,
                wire.KIND_STATUS,
                i,
                seen.to_bytes(4, "big"),
            )


def test_results_of_two_rounds_are_not_mixed() -> None:
    """A first packet of the round before comes late, and its result between those of a later round: numbers tell them apart."""
    job = RdmaJob(2, 2)
    with connected(job) as made:
        for worker in range(2):
            for packet in message(job, worker, 0, 0):
                job.send(made, worker, packet)
        late = message(job, 0, 0, 0, psn=90)[0]
        for packet in message(job, 0, 0, 1, psn=10):
            job.send(made, 0, packet)
        first, last = message(job, 1, 0, 1, psn=10)
        (_, data), _ = job.send(made, 1, first)
        assert (read(data).opcode, read(data).psn) == (FIRST, 1002)
        ((_, data),) = job.send(made, 0, late)
        assert (read(data).opcode, read(data).psn) == (FIRST, 1004)
        (_, data), _ = job.send(made, 1, last)
        assert (read(data).opcode, read(data).psn) == (LAST, 1003)


def test_no_packet_leaves_whose_message_has_not_begun() -> None:
    """A late packet of round 0 begins a message again; then the parent's sum of round 2 comes for the second slot alone."""
    job = RdmaJob(2, 2, has_parent=True)
    with connected(job) as made:
        for turn in (0, 1, 2):
            for worker in (0, 1):
                for packet in message(job, worker, 0, turn, psn=2 * turn):
                    job.send(made, worker, packet)
            if turn < 2:
                for packet in job.write(UP, 0, turn, [vector(turn), vector(turn)], psn=2 * turn):
                    assert len(job.send(made, UP, packet)) == 2
            if turn == 1:
                ((_, data),) = job.send(made, 0, message(job, 0, 0, 0, psn=70)[0])
                assert read(data).opcode == FIRST
        place = Reth(EPOCH << 32 | job.chunk(0, 2) + 1, 1, BYTES)
        alone = Roce(ONLY, job.queue_pair(UP, 0), 90, words(vector(5)), place, immediate(turn=2))
        assert job.send(made, UP, alone) == []
        assert made.registers("workers_counter.final_sum")[1] == 1
        sent = [job.send(made, 0, packet) for packet in message(job, 0, 0, 2, psn=95)]
        assert [[read(data).opcode for port, data in copies if port == 0] for copies in sent] == [[], []]


def test_with_messages_of_one_packet_no_first_one_goes_on() -> None:
    """It would walk through the pool, into other jobs' slots."""
    job, other = RdmaJob(2, 1), RdmaJob(2, 1, number=1, base=4)
    with connected(job) as made:
        for line in other.commands():
            if "admission.jobs" in line or "messages" in line:
                made.command(line)
        first = replace(message(job, 0, 0, 0)[0], opcode=FIRST, immediate=None)
        for psn, packet in enumerate([first, *[replace(first, opcode=MIDDLE, reth=None)] * 6]):
            assert job.send(made, 0, replace(packet, psn=psn)) == []
        assert not any(made.registers("bitmap_checker.seen"))


# --- what is turned away


def refused(made: OfflineSwitch) -> dict[str, list[int]]:
    counted = {
        name: [made.counter(name, reason) for reason in range(6)] for name in ("queue_pair.refused", "roce_receiver.refused")
    }
    return {name: list_ for name, list_ in counted.items() if any(list_)}


def one(reason: int) -> list[int]:
    return [int(n == reason) for n in range(6)]


def test_a_wrong_icrc_is_turned_away() -> None:
    job = RdmaJob(1)
    with connected(job) as made:
        for packet in (message(job, 0, 0, 0)[0], job.connect(0, 0), job.short(0, 0, 0, wire.KIND_QUERY, bytes(4))):
            assert job.send(made, 0, packet, break_icrc=True) == []
        assert refused(made) == {"queue_pair.refused": [0, 3, 0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"opcode": MIDDLE}, "queue_pair", SHAPE),  # with the header of a first one: its length is another's
        ({"payload": bytes(BYTES - 4)}, "queue_pair", SHAPE),
        ({"queue_pair": 2 << 16}, "queue_pair", QUEUE_PAIR),  # of another job
        ({"queue_pair": 1 << 16 | 1}, "queue_pair", QUEUE_PAIR),  # between two
        ({"queue_pair": 0}, "queue_pair", QUEUE_PAIR),
        ({"queue_pair": 1 << 21 | 1 << 16}, "queue_pair", QUEUE_PAIR),
        ({"reth": Reth(EPOCH << 32, 1, 4 * BYTES)}, "roce_receiver", KEY),
        ({"reth": Reth(EPOCH << 32, 4, 4 * BYTES)}, "roce_receiver", KEY),
        ({"reth": Reth(EPOCH << 32, 1 << 17, 4 * BYTES)}, "roce_receiver", KEY),
        ({"reth": Reth(0, 0, 4 * BYTES)}, "roce_receiver", KEY),
        ({"opcode": ONLY, "immediate": 0, "reth": Reth(EPOCH << 32, 4, BYTES)}, "roce_receiver", KEY),  # of the next queue pair
        ({"reth": Reth(EPOCH << 32, 0, 3 * BYTES)}, "roce_receiver", LENGTH),
        ({"reth": Reth(EPOCH << 32, 0, 0)}, "roce_receiver", LENGTH),
    ],
)
def test_a_packet_that_is_wrong_is_turned_away(change: dict[str, object], where: str, reason: int) -> None:
    job = RdmaJob(1)
    with connected(job) as made:
        packet = replace(message(job, 0, 0, 0)[0], **change)  # type: ignore[arg-type]
        assert job.send(made, 0, packet) == []
        assert refused(made) == {f"{where}.refused": one(reason)}
        assert not any(made.registers("bitmap_checker.seen"))
        sent = [job.send(made, 0, p) for p in message(job, 0, 0, 0)]
        assert [len(copies) for copies in sent] == [1, 1, 1, 1]


def test_slots_beyond_the_pool_are_turned_away() -> None:
    job = RdmaJob(1)
    with connected(job) as made:
        packet = replace(message(job, 0, 0, 0)[0], queue_pair=job.queue_pair(0, job.pairs))
        assert job.send(made, 0, packet) == []
        assert made.counter("admission.rejected", 2) == 1


def test_a_stranger_cannot_write() -> None:
    """Neither for another worker, nor as the parent, nor from another port."""
    job = RdmaJob(2, has_parent=True)
    with connected(job) as made:
        packet = message(job, 0, 0, 0)[0]
        for port, source, its in ((1, 1, packet), (1, 0, packet), (1, 1, replace(packet, queue_pair=job.queue_pair(UP, 0)))):
            assert made.send(port, its.framed(worker_station(source), SWITCH)) == []
        assert made.counter("admission.rejected", 1) == 3
        assert not any(made.registers("bitmap_checker.seen"))
        assert not any(made.registers("roce_receiver.expected"))


def test_what_is_between_hosts_is_forwarded_as_it_came() -> None:
    job = RdmaJob(2)
    with connected(job) as made:
        made.command(f"table_add forwarder.stations forward {worker_station(1).mac} => 1")
        for packet in (*message(job, 0, 0, 0), Roce(0x0A, 9, 9, bytes(50)), job.connect(0, 0)):
            data = packet.framed(worker_station(0), worker_station(1), break_icrc=True)
            assert made.send(0, data) == [(1, data)]


# --- against the model


@dataclass
class Incoming:
    """The switch's end of a queue pair, of what comes."""

    expected: int | None = None
    turn: int = 0
    i: int = 0


@dataclass
class Outgoing:
    """And of what leaves."""

    next: int = 0
    first: dict[int, tuple[int, int]] = field(default_factory=dict)  # by set: the number, and the round


def sent(copies: list[tuple[int, Roce | None]]) -> list[tuple[int, Roce]]:
    """Those that leave."""
    return [(port, packet) for port, packet in copies if packet is not None]


class ModelRdma:
    """Queue pairs over a ModelSwitch, whose slots and chunks are those of packets."""

    def __init__(self, job: RdmaJob) -> None:
        self.job, self.pool = job, ModelSwitch(job.workers, job.has_parent)
        links = [*range(job.workers), UP]
        self.incoming = {(link, pair): Incoming() for link in links for pair in range(job.pairs)}
        self.outgoing = {(link, pair): Outgoing(0 if link == UP else 1000) for link in links for pair in range(job.pairs)}

    def arrives(self, link: int, pair: int, turn: int, i: int, psn: int, exponent: int, again: bool) -> list[tuple[int, Roce]]:
        """What leaves when the i-th packet of a message comes."""
        m, q = self.job.message, self.incoming[link, pair]
        if i == 0:
            q.turn, q.i = turn, 0
        elif q.expected != psn or q.i != i:
            q.expected = None
            return []
        turn = q.turn
        q.expected, q.i = None if i == m - 1 else (psn + 1) % 2**24, i + 1
        exponent, mark = (exponent, again) if i == m - 1 else (0, False)
        total = tuple(values(link, turn, i)) if link != UP else tuple(vector(turn, i))
        of = Message(
            UPDATE if link != UP else RESULT,
            EPOCH,
            link,
            turn & 1,
            pair * m + i,
            self.job.chunk(pair, turn) + i,
            exponent,
            total,
            mark,
        )
        cell = self.pool._current(of)
        repeated = cell is not None and link in cell.seen
        predicted = self.pool.update(of) if link != UP else self.pool.result(of)
        if predicted is None:
            return []
        where, out = predicted
        if where == "up":
            return sent([(PARENT_PORT, self._leaves(UP, pair, turn, i, out, mark, alone=repeated))])
        receivers = range(self.job.workers) if where == "all" else [link]
        return sent([(to, self._leaves(to, pair, turn, i, out, mark, alone=False)) for to in receivers])

    def _leaves(self, link: int, pair: int, turn: int, i: int, out: Message, mark: bool, alone: bool) -> Roce | None:
        job, m, q = self.job, self.job.message, self.outgoing[link, pair]
        alone |= m == 1
        begins = alone or i == 0
        number, key, address = job.end(link, pair) if link != UP else (1 << 16 | 3 << 11 | pair * m, 0, 0)
        if begins:
            psn, q.next = q.next, q.next + (1 if alone else m)
            if not alone:
                q.first[turn & 1] = psn, turn
        else:
            psn, begun = q.first.get(turn & 1, (0, None))
            if begun != turn:
                return None
            psn += i
        place = Reth(address + (turn & 1) * m * BYTES, key, m * BYTES)
        if link == UP:
            place = Reth(EPOCH << 32 | out.chunk, (turn & 1) << 16 | out.slot, BYTES if alone else m * BYTES)
        last = alone or i == m - 1
        told = immediate((out.exponent, 0, 0, 0), turn % 8 if i == m - 1 else 0, mark)
        opcode = ONLY if alone else FIRST if i == 0 else LAST if i == m - 1 else MIDDLE
        return Roce(opcode, number, psn, words(out.vector), place if begins else None, told if last else None)


WHAT = [*["whole"] * 6, "again", "without one", "twice", "out of order", "one"]
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 999)), min_size=20, max_size=60)


def arranged(what: str, m: int, n: int) -> list[int]:
    """The places in their message of the packets that come, in their order."""
    whole = list(range(m))
    if what == "without one":
        whole.pop(n % m)
    elif what == "twice":
        whole.insert(n % m, whole[n // m % m])
    elif what == "out of order":
        random.Random(n).shuffle(whole)
    elif what == "one":
        whole = [n % m]
    return whole


@pytest.mark.parametrize("has_parent", [False, True], ids=["the root", "a rack's switch"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_queue_pairs_are_as_the_model_has_them(size: int, has_parent: bool) -> None:
    """Packets of messages in any order, some twice and some never, of rounds before and after the current one."""

    job = RdmaJob(3, size, has_parent=has_parent)
    links = [*range(job.workers), *([UP] if has_parent else [])]
    left: set[tuple[int, bool]] = set()  # operation, and whether by the link to the parent, of what the switch has sent

    @given(STEPS)
    @examples(60)
    def run(steps: list[tuple[str, int]]) -> None:
        model, psns = ModelRdma(job), dict[tuple[int, int], int]()
        with connected(job) as made:
            for number, (what, n) in enumerate(steps):
                round_, place = divmod(number, len(links) * job.pairs)
                pair, link = place // len(links), links[place % len(links)]
                turn = max(0, round_ - (n % 5 == 0))  # now and then of the round before
                begin, exponent, again = psns.get((link, pair), n), n % 128, what == "again"
                psns[link, pair] = begin + size
                vectors = [vector(turn, i) if link == UP else values(link, turn, i) for i in range(size)]
                packets = job.write(link, pair, turn, vectors, begin, exponents=(exponent, 0, 0, 0), again=again)
                for i in arranged(what, size, n):
                    came = [(port, read(data)) for port, data in job.send(made, link, packets[i])]
                    assert came == model.arrives(link, pair, turn, i, begin + i, exponent, again)
                    left.update((packet.opcode, port == PARENT_PORT) for port, packet in came)

    run()
    down = {ONLY} if size == 1 else {FIRST, LAST} if size == 2 else {FIRST, MIDDLE, LAST}
    up = down | {ONLY} if has_parent else set()
    assert left == {(opcode, False) for opcode in down} | {(opcode, True) for opcode in up}
