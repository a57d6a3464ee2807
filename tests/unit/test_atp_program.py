"""p4/atp.p4 by example: restarts, releases, repairs, strangers, garbage, marks and full racks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.atp import wire
from inalab.switches import atp
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.forwarding import Station
from tests.atp_packets import AGGREGATORS, RACK, SERVER, SERVER_PORT, UPLINK, AtpHeader, AtpJob, admitting, frame, program, read
from tests.packets import vector, worker_station
from tests.properties import examples

TABLE = 3  # aggregators that the interleavings fight for
OTHER_RACK = 2


def switch(*jobs: AtpJob, name: str = "atp") -> OfflineSwitch:
    """That runs p4/NAME.p4, and has admitted these jobs."""
    made = OfflineSwitch(program(name=name))
    for line in admitting(jobs):
        made.command(line)
    return made


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
