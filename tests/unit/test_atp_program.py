"""p4/atp.p4 against the independent model, over random interleavings of jobs, duplicates, resends, answers and collisions."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from hosts.atp import wire
from switches import atp
from switches.embedded.offline import OfflineSwitch
from switches.forwarding import Station
from tests.atp_packets import AGGREGATORS, RACK, SERVER, SERVER_PORT, UPLINK, AtpJob, frame, program, read
from tests.atp_reference import Gradient, ModelAtpSwitch
from tests.packets import vector, worker_station

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


def as_gradient(data: bytes) -> Gradient:
    h = read(data)
    assert h.kind == wire.KIND_GRADIENT and h.edge_switch == 1
    flags = (bool(h.resend), bool(h.collision), bool(h.overflow), bool(h.ecn))
    return Gradient((h.job, h.sequence), h.index, bits(h.bitmap0), bits(h.bitmap1), tuple(h.vector), *flags)


def values(worker: int, sequence: int) -> list[int]:
    """Numbers that tell workers and chunks apart, some of which saturate together."""
    return vector(worker * 1000 + sequence, (2**31 - 1) // (1 + worker), -(2**31) + sequence, (-1) ** worker * 2**30)


KINDS = ("gradient", "gradient", "gradient", "duplicate", "resend", "result", "release")
steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=100
)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("level", [0, 1])
def test_random_interleavings(workers: int, level: int) -> None:
    other = OTHER_RACK if level else 0

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps)
    def run(script: list[tuple[str, int, int, int, bool]]) -> None:
        jobs = [AtpJob(workers, level, other, number) for number in (0, 1)]
        model = ModelAtpSwitch(level, jobs[0].fan_in1 if level else workers)
        with switch(*jobs) as made:
            for kind, number, w, sequence, flag in script:
                job, index = jobs[number], (7 * number + 5 * sequence) % TABLE
                if kind == "result":
                    sent = made.send(SERVER_PORT if level else UPLINK, job.answer(sequence, vector(sequence), index))
                    model.result((number, sequence), index)
                    assert [port for port, _ in sent] == [*range(workers), *([UPLINK] if other else [])]
                    assert all(list(read(data).vector) == vector(sequence) for _, data in sent)
                elif kind == "release" and flag:
                    port = SERVER_PORT if level else UPLINK
                    ((back, data),) = made.send(port, job.answer(0, [], index, kind=wire.KIND_RELEASE))
                    model.release(number, index)
                    assert (back, read(data).kind) == (port, wire.KIND_RELEASED)
                else:
                    gradient(job, made, model, w % (workers + (other > 0)), sequence, index, kind == "resend", flag)
            for index in range(TABLE):
                held = model.table.get(index)
                assert made.register("aggregator.bitmap", index) == (sum(1 << i for i in held.seen) if held else 0)
                if held:
                    assert made.register("aggregator.owner", index) == held.owner[0] << 24 | held.owner[1]

    run()


def gradient(
    job: AtpJob, made: OfflineSwitch, model: ModelAtpSwitch, w: int, sequence: int, index: int, resend: bool, flag: bool
) -> None:
    """Send one gradient to both; the same must come out. Beyond the workers, w is the other rack, whole or (flag) in part."""
    numbers = values(w, sequence)
    if w < job.workers:
        port, data = w, job.gradient(w, sequence, numbers, index, resend=int(resend), ecn=int(flag))
        who = frozenset({w})
        workers, children = (frozenset[int](), who) if job.level else (who, bits(atp.rack_bit(RACK)))
    else:
        part = 0b10 if flag else 0
        port = UPLINK
        data = job.from_rack(sequence, numbers, index, bitmap0=part, resend=int(resend), collision=int(flag), ecn=int(flag))
        workers, children = bits(part), bits(atp.rack_bit(RACK))
    g = Gradient((job.number, sequence), index, workers, children, tuple(numbers), resend, w >= job.workers and flag, False, flag)
    sent, predicted = made.send(port, data), model.gradient(g)
    if predicted is None:
        assert sent == []
        return
    ((out, data),) = sent
    assert out == (SERVER_PORT if job.level else UPLINK)
    assert as_gradient(data) == predicted
    assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)


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
        (0, {"index": 65535}, INDEX), (0, {"kind": 9}, MALFORMED), (0, {"kind": wire.KIND_RESULT}, SOURCE),
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
    forged = frame(STRANGER, SERVER, {"bitmap1": 1, "edge_switch": 1, "fan_in1": 2}, vector(1))

    @settings(max_examples=60, deadline=None)
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
