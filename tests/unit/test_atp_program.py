"""p4/atp.p4 against the independent model, over random interleavings of jobs, duplicates, resends, answers and collisions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, IPOption
from scapy.layers.l2 import Ether

from hosts.atp import wire
from switches import atp
from switches.embedded.offline import OfflineSwitch
from switches.forwarding import Station
from tests.atp_packets import AGGREGATORS, RACK, REMOTE, SERVER, SERVER_PORT, UPLINK, AtpHeader, AtpJob, frame, program, read
from tests.atp_reference import Gradient, ModelAtpSwitch, Query, Status
from tests.packets import vector, worker_station
from tests.properties import examples

TABLE = 3  # aggregators that the interleavings fight for
OTHER_RACK = 2


def switch(*jobs: AtpJob) -> OfflineSwitch:
    made = OfflineSwitch(program())
    node = 1
    for job in jobs:
        for line in (commands := job.commands(node)):
            made.command(line)
        node += sum(line.startswith("mc_node_create") for line in commands) - (node == 1)
    return made


def bits(word: int) -> frozenset[int]:
    return frozenset(i for i in range(32) if word >> i & 1)


def word(numbers: frozenset[int]) -> int:
    return sum(1 << n for n in numbers)


def as_gradient(data: bytes) -> Gradient:
    h = read(data)
    assert h.kind == wire.KIND_GRADIENT and h.edge_switch == 1
    flags = (bool(h.resend), bool(h.collision), bool(h.overflow), bool(h.ecn), bool(h.asked))
    return Gradient(h.epoch, (h.job, h.sequence), h.index, bits(h.bitmap0), bits(h.bitmap1), tuple(h.vector), *flags)


def values(worker: int, sequence: int) -> list[int]:
    """Numbers that tell workers and chunks apart, some of which saturate together."""
    return vector(worker * 1000 + sequence, (2**31 - 1) // (1 + worker), -(2**31) + sequence, (-1) ** worker * 2**30)


@dataclass(frozen=True)
class Step:
    """What happens next: who does it (a job, one of its workers), with which chunk, and a choice."""

    kind: str
    number: int
    w: int
    sequence: int
    flag: bool
    n: int


KINDS = (
    "gradient", "gradient", "gradient", "gradient", "resend", "again", "query", "query", "status", "status", "result", "release",
    "late", "late", "stranger", "restart",
)  # fmt: skip
steps = st.lists(
    st.builds(
        Step, st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 3), st.integers(0, 4), st.booleans(), st.integers(0, 999)
    ),
    max_size=100,
)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("level", [0, 1])
def test_random_interleavings(workers: int, level: int) -> None:
    @examples(30)
    @given(steps, st.sampled_from([1, 2**31 - 2, 2**32 - 3]))
    def run(script: list[Step], epoch: int) -> None:
        jobs = [AtpJob(workers, level, OTHER_RACK if level else 0, number) for number in (0, 1)]
        with switch(*jobs) as made:
            Interleaving(jobs, made, epoch).play(script)

    run()


class Interleaving:
    """Two jobs at a switch and at the model of one; the same must come out of both, and be held by both."""

    def __init__(self, jobs: list[AtpJob], made: OfflineSwitch, epoch: int) -> None:
        self.jobs, self.made = jobs, made
        self.model = ModelAtpSwitch(jobs[0].level, jobs[0].fan_in, min(bits(atp.rack_bit(RACK))))
        self.epochs = [epoch, epoch]
        self.toward = SERVER_PORT if jobs[0].level else UPLINK
        self.history: list[tuple[Step, int]] = []  # with the epoch they were of

    def play(self, script: list[Step]) -> None:
        for step in script:
            epoch = self.epochs[step.number]
            if step.kind == "restart":
                self.epochs[step.number] = (epoch + step.n % 3) % (2**32 - 1) + 1
            elif step.kind == "stranger":
                self.stranger(step, epoch)
            elif step.kind == "late" and self.history:
                self.take(*self.history[step.n % len(self.history)])
            else:
                self.history.append((step, epoch))
                self.take(step, epoch)
        for index in range(TABLE):
            held = self.model.table.get(index)
            assert self.made.register("aggregator.bitmap", index) == (sum(1 << i for i in held.seen) if held else 0)
            if held:
                assert self.made.register("aggregator.owner", index) == held.epoch << 32 | held.owner[0] << 24 | held.owner[1]

    def index(self, step: Step) -> int:
        return (7 * step.number + 5 * step.sequence) % TABLE

    def take(self, step: Step, epoch: int) -> None:
        job, index = self.jobs[step.number], self.index(step)
        if step.kind == "result":
            sent = self.made.send(self.toward, job.answer(step.sequence, vector(step.sequence), index, epoch=epoch))
            passes = self.model.result(epoch, (step.number, step.sequence), index)
            everybody = [*range(job.workers), *([UPLINK] if job.other_rack else [])]
            assert [port for port, _ in sent] == (everybody if passes else [])
            assert all(list(read(data).vector) == vector(step.sequence) for _, data in sent)
        elif step.kind == "release" and step.flag:
            ((back, data),) = self.made.send(self.toward, job.answer(0, [], index, kind=wire.KIND_RELEASE, epoch=epoch))
            self.model.release(epoch, step.number, index)
            assert (back, read(data).kind, read(data).epoch) == (self.toward, wire.KIND_RELEASED, epoch)
        elif step.kind == "query":
            self.query(step, epoch)
        elif step.kind == "status":
            self.status(step, epoch)
        else:
            self.gradient(step, epoch)

    def child(self, step: Step) -> tuple[int, frozenset[int], frozenset[int]]:
        """The number of who sends: of a worker or, beyond those, of the other rack, whole or (flag) in part; and its bits."""
        job = self.jobs[step.number]
        w = step.w % (job.workers + (job.other_rack > 0))
        if w >= job.workers:
            return w, frozenset({1} if step.flag else ()), bits(atp.rack_bit(RACK))
        return w, frozenset(() if job.level else {w}), frozenset({w}) if job.level else bits(atp.rack_bit(RACK))

    def send(self, step: Step, epoch: int, numbers: list[int], **fields: int) -> list[tuple[int, bytes]]:
        """Send a child's packet."""
        job, index = self.jobs[step.number], self.index(step)
        w, who, _ = self.child(step)
        if w < job.workers:
            return self.made.send(w, job.gradient(w, step.sequence, numbers, index, epoch=epoch, **fields))
        part = word(who)
        return self.made.send(UPLINK, job.from_rack(step.sequence, numbers, index, bitmap0=part, epoch=epoch, **fields))

    def query(self, step: Step, epoch: int) -> None:
        asked, raw = step.n % 2, step.n % 5 == 0
        w, who, children = self.child(step)
        fields = {"kind": wire.KIND_QUERY, "asked": asked, "raw": int(raw), "next_index": step.n}
        sent = self.send(step, epoch, [], **fields)
        owner, index = (step.number, step.sequence), self.index(step)
        predicted = self.model.query(Query(epoch, owner, index, who, children, bool(asked), raw))
        if predicted is None:
            assert sent == []
            return
        ((port, data),) = sent
        h = read(data)
        assert (h.epoch, (h.job, h.sequence), h.index, h.next_index, h.raw) == (epoch, owner, index, step.n, raw)
        assert (bits(h.bitmap0), bits(h.bitmap1)) == (predicted.workers, predicted.children)
        if isinstance(predicted, Query):
            assert (port, h.kind, h.edge_switch, h.asked) == (self.toward, wire.KIND_QUERY, 1, asked)
            assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)
            return
        inside = w < self.jobs[step.number].workers
        station = worker_station(w) if inside else REMOTE
        assert (port, h.kind, h.resend, h.asked) == (w if inside else UPLINK, wire.KIND_STATUS, 1, 1)
        assert (Ether(data).dst, Ether(data)[IP].dst) == (station.mac, station.ip)
        assert (Ether(data).src, Ether(data)[IP].src) == (SERVER.mac, SERVER.ip)

    def status(self, step: Step, epoch: int) -> None:
        """A server's, or of the switch next to it, which has been given its addresses."""
        job, index, asked, raw = self.jobs[step.number], self.index(step), step.n % 2, step.n % 7 == 0
        w = step.w % job.workers
        workers, children = bits(step.n % 16), bits((0, 1, atp.rack_bit(RACK), atp.rack_bit(RACK) | 2, atp.rack_bit(5))[step.n % 5])
        fields = {"kind": wire.KIND_STATUS, "bitmap0": word(workers), "bitmap1": word(children), "next_index": step.n}
        marks = {"asked": asked, "raw": int(raw), "resend": int(step.flag), "ecn": int(step.n % 3 == 0), "epoch": epoch}
        sent = self.made.send(self.toward, job.answer(step.sequence, [], index, worker_station(w), **fields, **marks))
        predicted = self.model.status(
            Status(epoch, (step.number, step.sequence), index, workers, children, bool(asked), raw, step.n % 3 == 0, step.flag)
        )
        if predicted is None:
            assert sent == []
            return
        ((port, data),) = sent
        if isinstance(predicted, Status):
            h = read(data)
            assert (port, h.kind, h.bitmap0, h.bitmap1, h.asked) == (w, wire.KIND_STATUS, word(workers), word(children), asked)
            return
        assert port == self.toward and as_gradient(data) == predicted
        assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)
        assert (Ether(data).src, Ether(data)[IP].src) == (worker_station(w).mac, worker_station(w).ip)

    def gradient(self, step: Step, epoch: int) -> None:
        index, flag = self.index(step), step.flag
        resend = step.kind in ("resend", "again")
        w, who, children = self.child(step)
        outside = w >= self.jobs[step.number].workers
        numbers = [v ^ epoch & 0xFF for v in values(w, step.sequence)]
        asked = step.kind == "again" or (not resend and step.n % 4 == 0)
        marks = {"resend": int(resend), "asked": int(asked), "collision": int(outside and flag), "ecn": int(flag)}
        sent = self.send(step, epoch, numbers, **marks)
        owner = (step.number, step.sequence)
        predicted = self.model.gradient(
            Gradient(epoch, owner, index, who, children, tuple(numbers), resend, outside and flag, False, flag, asked)
        )
        if predicted is None:
            assert sent == []
            return
        ((out, data),) = sent
        assert out == self.toward
        assert as_gradient(data) == predicted
        assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)

    def stranger(self, step: Step, epoch: int) -> None:
        """A frame that claims to be a gradient, a result or a release, and must change nothing."""
        job, w = self.jobs[step.number], step.w % self.jobs[0].workers
        kinds = (wire.KIND_GRADIENT, wire.KIND_RESULT, wire.KIND_RELEASE, wire.KIND_RELEASED, wire.KIND_QUERY, wire.KIND_STATUS)
        kind = kinds[step.n % len(kinds)]
        numbers = vector(99) if kind in (wire.KIND_GRADIENT, wire.KIND_RESULT) else []
        later = epoch % (2**32 - 1) + 1
        data = job.gradient(w, step.sequence, numbers, self.index(step), kind=kind, epoch=later)
        packet = Ether(data)
        if kind not in (wire.KIND_GRADIENT, wire.KIND_QUERY):
            port = w  # servers and switches send these
        elif step.flag:
            port = w + 1 if w + 1 < job.workers else 5
        else:
            port = w
            if step.n % 3:
                packet[IP].flags = "MF"
            else:
                packet[IP].options = [IPOption(b"\x01" * 4)]
                del packet[IP].ihl, packet[IP].len
            del packet[IP].chksum
        assert self.made.send(port, bytes(packet)) == []


def test_a_restart_takes_no_aggregator_over() -> None:
    """Also when an aggregator's lifetime has no end: 5 + 7 after a group that left 118 behind."""
    job = AtpJob(2)
    with switch(job) as made:
        made.send(0, job.gradient(0, 0, vector(118), epoch=40))
        assert made.send(0, job.gradient(0, 0, vector(5), epoch=41)) == []
        assert made.send(1, job.gradient(1, 0, vector(100), epoch=40)) == []
        assert made.counter("outdated_packets", 0) == 1
        ((_, data),) = made.send(1, job.gradient(1, 0, vector(7), epoch=41))
        assert (read(data).epoch, list(read(data).vector)) == (41, vector(12))
        assert made.send(SERVER_PORT, job.answer(0, vector(118), epoch=40)) == []  # nor does its server's answer pass
        assert made.register("aggregator.bitmap", 0) == 0b11


def test_a_release_frees_what_its_group_or_an_earlier_one_holds_and_nothing_later() -> None:
    job = AtpJob(2)
    release = {"kind": wire.KIND_RELEASE}
    with switch(job) as made:
        made.send(0, job.gradient(0, 0, vector(1), index=0, epoch=40))
        made.send(0, job.gradient(0, 1, vector(1), index=1, epoch=41))
        for index, epoch, held in ((1, 40, 1), (0, 41, 0), (1, 41, 0)):
            assert made.send(SERVER_PORT, job.answer(0, [], index, epoch=epoch, **release))
            assert made.register("aggregator.bitmap", index) == held
        made.send(SERVER_PORT, job.answer(0, [], 1, epoch=40, **release))  # comes late, and opens nothing again
        ((_, data),) = made.send(0, job.gradient(0, 2, vector(3), index=2, epoch=41))  # the group is over: claims no more
        assert (list(read(data).vector), read(data).collision) == (vector(3), 0)
        assert made.send(0, job.gradient(0, 2, vector(3), index=2, epoch=42)) == []  # but the next one does


@pytest.mark.parametrize("level", [0, 1])
def test_a_gradient_that_comes_after_its_result_claims_nothing(level: int) -> None:
    """It would wait for workers that have the result, and so would its sender if it has lost the result."""
    job = AtpJob(2, level)
    with switch(job) as made:
        for worker in range(2):
            made.send(worker, job.gradient(worker, 0, vector(1)))
        made.send(SERVER_PORT if level else UPLINK, job.answer(0, vector(2)))
        assert len(made.send(1, job.gradient(1, 0, vector(1)))) == 1 and made.register("aggregator.bitmap", 0) == 0
        assert ask(made, job, 1).kind == wire.KIND_QUERY
        assert made.send(1, job.gradient(1, 64, vector(1))) == [] and made.register("aggregator.bitmap", 0) != 0


def ask(made: OfflineSwitch, job: AtpJob, worker: int, **fields: int) -> AtpHeader:
    """What becomes of a worker's query about chunk 0."""
    ((_, data),) = made.send(worker, job.gradient(worker, 0, [], kind=wire.KIND_QUERY, **fields))
    return read(data)


def tell(made: OfflineSwitch, job: AtpJob, **fields: int) -> AtpHeader:
    """What becomes of a status about chunk 0 for worker 0."""
    toward = SERVER_PORT if job.level else UPLINK
    ((_, data),) = made.send(toward, job.answer(0, [], to=worker_station(0), kind=wire.KIND_STATUS, **fields))
    return read(data)


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("level", [0, 1])
def test_a_sum_that_was_lost_further_up_is_sent_again(level: int, late: int) -> None:
    job = AtpJob(3, level)
    whole = (0, 0b111) if level else (0, atp.rack_bit(RACK))
    with switch(job) as made:
        for worker in range(3):
            again = int(worker == late)
            out = made.send(worker, job.gradient(worker, 0, vector(worker + 1), asked=again, resend=again))
            assert len(out) == (worker == 2)
        h = read(out[0][1])
        assert (h.bitmap0, h.bitmap1, h.resend, h.asked) == (*whole, 0, 1)  # claims further up, and tells of the late part
        first, second = ask(made, job, 0), ask(made, job, 1)
        assert (first.kind, first.bitmap0, first.bitmap1) == (wire.KIND_QUERY, *whole)
        assert (second.kind, second.bitmap1 if level else second.bitmap0) == (wire.KIND_STATUS, 0b111)  # the first one's will do
        assert ask(made, job, 1, asked=1).kind == wire.KIND_QUERY  # or it will not
        for resend in (0, 1, 1):
            repaired = tell(made, job, resend=resend)
            assert (repaired.kind, repaired.bitmap0, repaired.bitmap1) == (wire.KIND_GRADIENT, *whole)
            assert (repaired.resend, repaired.asked, list(repaired.vector)) == (resend, 1, vector(6))
        assert ask(made, job, 1).kind == wire.KIND_QUERY  # the answer to the one before has passed
        passed = tell(made, job, asked=1, resend=1, bitmap1=whole[1])  # a switch's: the sum is there, others are missing
        assert passed.kind == wire.KIND_STATUS and made.register("aggregator.bitmap", 0) == 0b111
        passed = tell(made, job, resend=1, bitmap0=0b10, bitmap1=whole[1])  # the server's: a part of it came alone
        assert passed.kind == wire.KIND_STATUS and made.register("aggregator.bitmap", 0) == 0


@pytest.mark.parametrize("level", [0, 1])
def test_what_waits_for_a_part_that_went_past_it_is_sent_to_the_server(level: int) -> None:
    job = AtpJob(2, level)
    with switch(job) as made:
        made.send(1, job.gradient(1, 0, vector(5)))
        assert tell(made, job, resend=1, bitmap1=1 << 7).kind == (wire.KIND_GRADIENT if level else wire.KIND_STATUS)
        made.send(1, job.gradient(1, 0, vector(5)))  # at level 0 a duplicate
        there = {"bitmap0": 0, "bitmap1": 1} if level else {"bitmap0": 1, "bitmap1": atp.rack_bit(RACK)}
        assert tell(made, job, asked=1, resend=1, **there).kind == wire.KIND_STATUS  # a switch's says nothing of the server
        given_up = tell(made, job, resend=1, **there)
        part = (0, 0b10) if level else (0b10, atp.rack_bit(RACK))
        assert (given_up.kind, given_up.bitmap0, given_up.bitmap1, list(given_up.vector)) == (wire.KIND_GRADIENT, *part, vector(5))
        assert made.register("aggregator.bitmap", 0) == 0


def test_a_worker_cannot_pass_as_its_whole_rack() -> None:
    """How many children there are is for the control plane to say, whatever a bitmap has."""
    job = AtpJob(2, level=0)
    with switch(job) as made:
        assert made.send(0, job.gradient(0, 0, vector(1))) == []
        for bitmap0 in (0, 0b11, 0b10):
            assert made.send(0, job.gradient(0, 0, vector(1), bitmap0=bitmap0)) == []
        ((_, data),) = made.send(1, job.gradient(1, 0, vector(1)))
        assert (read(data).bitmap0, list(read(data).vector)) == (0, vector(2))


def test_an_untouched_aggregator_is_respected_for_its_lifetime_only() -> None:
    one, two = AtpJob(2), AtpJob(2, number=1)
    with switch(one, two) as made:
        assert made.send(0, one.gradient(0, 1, vector(1))) == []
        ((_, data),) = made.send(0, two.gradient(0, 9, vector(5)))
        assert read(data).collision == 1
        made.command("register_write aggregator.lifetime 0 1")  # a microsecond, which has passed
        ((_, data),) = made.send(1, two.gradient(1, 9, vector(5)))
        assert read(data).collision == 1  # another packet of the same chunk was turned away, and is at the server
        assert made.send(0, two.gradient(0, 10, vector(5))) == []
        made.command("register_write aggregator.lifetime 0 60000000")
        ((_, data),) = made.send(1, one.gradient(1, 1, vector(1)))
        assert read(data).collision == 1
        ((_, data),) = made.send(1, two.gradient(1, 10, vector(6)))
        assert list(read(data).vector) == vector(11)


def test_a_result_for_one_worker_is_only_passed_on() -> None:
    job = AtpJob(3)
    with switch(job) as made:
        made.send(0, job.gradient(0, 4, vector(1)))
        ((port, data),) = made.send(SERVER_PORT, job.answer(4, vector(9), to=worker_station(1)))
        assert (port, list(read(data).vector)) == (1, vector(9))
        assert made.register("aggregator.bitmap", 0) == 1


def test_raw_values_pass_and_free() -> None:
    job = AtpJob(2)
    with switch(job) as made:
        made.send(0, job.gradient(0, 4, vector(1)))
        ((port, data),) = made.send(1, job.gradient(1, 4, vector(77), kind=wire.KIND_RAW, resend=1))
        assert (port, read(data).kind, list(read(data).vector)) == (SERVER_PORT, wire.KIND_RAW, vector(77))
        assert made.register("aggregator.bitmap", 0) == 0


STRANGER = Station("02:00:00:00:00:09", "10.0.0.9")
SOURCE, INDEX, MALFORMED = range(3)


@pytest.mark.parametrize(
    ("port", "fields", "reason"),
    [
        (1, {}, SOURCE), (0, {"job": 3}, SOURCE), (0, {"job": 200}, INDEX), (0, {"bitmap1": 2}, SOURCE), (0, {"bitmap1": 3}, SOURCE),
        (0, {"bitmap0": 1}, SOURCE), (0, {"edge_switch": 0}, SOURCE), (0, {"index": AGGREGATORS}, INDEX),
        (0, {"index": 65535}, INDEX), (0, {"kind": 9}, MALFORMED), (0, {"epoch": 0}, MALFORMED), (0, {"kind": wire.KIND_RESULT}, SOURCE),
        (UPLINK, {"bitmap1": atp.rack_bit(RACK), "bitmap0": 0b100}, SOURCE),
    ],
)  # fmt: skip
def test_strangers_touch_no_aggregator(port: int, fields: dict[str, int], reason: int) -> None:
    job = AtpJob(2, other_rack=OTHER_RACK)
    with switch(job) as made:
        assert made.send(port, job.gradient(0, 0, vector(7), **fields)) == []
        assert made.counter("rejected", reason) == 1
        assert not any(made.registers("aggregator.bitmap"))


def test_garbage_is_survived_and_counted() -> None:
    job = AtpJob(2)
    good = job.gradient(0, 0, vector(5))
    forged = frame(STRANGER, SERVER, {"bitmap1": 1, "edge_switch": 1}, vector(1))

    @examples(60)
    @given(
        st.one_of(
            st.binary(max_size=200),
            st.just(forged),
            st.integers(0, len(good) - 1).map(lambda n: good[:n]),
            st.binary(min_size=1, max_size=9).map(lambda t: good + t),
        )
    )
    def run(data: bytes) -> None:
        with switch(job) as made:
            made.send(0, data)
            if data.startswith(good):  # padding behind a whole packet is no harm (Ethernet pads too)
                return
            assert not any(made.registers("aggregator.bitmap"))
            made.send(0, good)
            ((_, first),) = made.send(1, job.gradient(1, 0, vector(6)))
            assert list(read(first).vector) == vector(11)

    run()


def test_a_deep_queue_marks_and_the_aggregator_keeps_the_mark() -> None:
    job = AtpJob(3)
    with switch(job) as made:
        made.send(0, job.gradient(0, 0, vector(1), ecn=1))
        made.send(1, job.gradient(1, 0, vector(1)))
        ((_, data),) = made.send(2, job.gradient(2, 0, vector(1)))
        assert read(data).ecn == 1
        made.send(SERVER_PORT, job.answer(0, vector(3)))
        made.send(0, job.gradient(0, 1, vector(1)))
        made.send(1, job.gradient(1, 1, vector(1)))
        ((_, data),) = made.send(2, job.gradient(2, 1, vector(1)))
        assert read(data).ecn == 0  # not that of the chunk before


def test_thirty_two_workers_and_every_k() -> None:
    for k in (32, 64, 256):
        job = AtpJob(32)
        with OfflineSwitch(program(k), ports=40) as made:
            for line in job.commands():
                made.command(line)
            sent: list[tuple[int, bytes]] = []
            for w in range(32):
                sent = made.send(w, job.gradient(w, 0, [w] * k))
            assert list(read(sent[0][1]).vector) == [sum(range(32))] * k
