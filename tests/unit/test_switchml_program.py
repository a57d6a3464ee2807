"""p4/switchml.p4 by example: restarts, queries, strangers, garbage and full racks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.switchml import wire
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.forwarding import Station
from tests.packets import EPOCH, PARENT, PARENT_PORT, SWITCH, TestJob, frame, program, read, vector, worker_station
from tests.properties import examples
from tests.unit.test_switchml_interleavings import Group, stranger, switch

SLOTS = 3
ROUNDS = 5


def test_a_restart_takes_nothing_over() -> None:
    """5 + 7 after a group that had added 100 and 6 to the same chunk, and what that group sends later is counted."""
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        made.send(0, job.update(0, 0, 0, vector(100), epoch=40))
        made.send(1, job.update(1, 0, 0, vector(6), epoch=40))
        made.send(0, job.update(0, 1, 1, vector(9), epoch=40))
        assert made.send(0, job.update(0, 0, 0, vector(5), epoch=41)) == []
        assert made.send(1, job.update(1, 0, 0, vector(100), epoch=40)) == []
        assert made.counter("outdated_packets", 0) == 1
        sent = made.send(1, job.update(1, 0, 0, vector(7), epoch=41))
        assert [(port, read(data).epoch, read(data).vector[0]) for port, data in sent] == [(0, 41, 12), (1, 41, 12)]
        made.send(0, job.update(0, 1, 1, vector(1), epoch=41))
        ((_, data), _) = made.send(1, job.update(1, 1, 1, vector(2), epoch=41))
        assert read(data).vector == vector(3)


def test_only_workers_begin_an_epoch() -> None:
    job = TestJob(2, SLOTS, has_parent=True)
    with switch(job) as made:
        made.send(0, job.update(0, 0, 0, vector(1), epoch=40))
        for kind in (wire.KIND_RESULT, wire.KIND_STATUS):
            header = {"job": 0, "kind": kind, "slot": 0, "chunk": 0, "epoch": 50}
            assert made.send(PARENT_PORT, frame(PARENT, SWITCH, header, vector(9) if kind == wire.KIND_RESULT else [])) == []
        ((port, data),) = made.send(1, job.update(1, 0, 0, vector(2), epoch=40))
        assert (port, read(data).epoch, read(data).vector) == (PARENT_PORT, 40, vector(3))
        query = {"job": 0, "worker": 0, "kind": wire.KIND_QUERY, "slot": 0, "chunk": 0, "epoch": 50}
        ((port, data),) = made.send(0, frame(worker_station(0), SWITCH, query, []))
        assert (port, read(data).kind, read(data).epoch, read(data).seen) == (0, wire.KIND_STATUS, 50, 0)
        assert made.send(1, job.update(1, 0, 0, vector(2), epoch=40)) == []


def test_the_chunk_behind_the_last_number_opens_a_round() -> None:
    job = TestJob(1, SLOTS)
    with switch(job) as made:
        for chunk in (2**31 - 3, 2**31, 2**32 - 3, 0, 3):
            ((_, data),) = made.send(0, job.update(0, 0, chunk, vector(chunk % 1000)))
            assert (read(data).chunk, read(data).vector) == (chunk, vector(chunk % 1000))
        assert made.send(0, job.update(0, 0, 2**32 - 3, vector(8))) == []
        assert made.counter("stale", 0) == 1


@pytest.mark.parametrize("how", ["fragment", "options"])
def test_fragments_and_options_are_turned_away(how: str) -> None:
    job = TestJob(2, SLOTS)
    group = Group(job, EPOCH, 0)
    with switch(job) as made:
        port, data = stranger(job, group.update(0, 0, 0), how)
        assert made.send(port, data) == []
        assert made.counter("rejected", MALFORMED) == 1
        assert not any(made.registers("bitmap_checker.seen"))


def test_a_query_of_an_earlier_group_learns_of_the_newer_one() -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        made.send(0, job.update(0, 0, 0, vector(1), epoch=40))
        made.send(1, job.update(1, 0, 0, vector(1), epoch=44))
        query = {"job": 0, "worker": 0, "kind": wire.KIND_QUERY, "slot": 0, "chunk": 0, "epoch": 40}
        ((port, data),) = made.send(0, frame(worker_station(0), SWITCH, query, []))
        assert (port, read(data).kind, read(data).epoch, read(data).seen) == (0, wire.KIND_STATUS, 44, 0)


def test_a_query_about_a_chunk_that_nobody_sent_finds_nobody() -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for w in range(2):
            made.send(w, job.update(w, 0, 0, vector(1)))
        query = {"job": 0, "worker": 0, "kind": wire.KIND_QUERY, "slot": 0, "chunk": 2 * SLOTS}
        ((_, data),) = made.send(0, frame(worker_station(0), SWITCH, query, []))
        assert (read(data).kind, read(data).seen) == (wire.KIND_STATUS, 0)
        assert made.send(1, job.update(1, 0, 0, vector(1)))  # and has not touched the round that is there


def test_delayed_packet_never_enters_a_later_round() -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for turn in range(4):
            for w in range(2):
                last = made.send(w, job.update(w, 0, turn * SLOTS, vector(turn), version=turn % 2))
            assert len(last) == 2
        # worker 0's packet of round 1 arrives again, two rounds late, in the set that round 3 has completed
        assert made.send(0, job.update(0, 0, SLOTS, vector(99), version=1)) == []
        assert made.counter("stale", job.slots + 0) == 1
        ((port, data),) = made.send(1, job.update(1, 0, 3 * SLOTS, vector(3), version=1))
        assert port == 1
        assert read(data).vector == vector(6)


def test_pools_of_jobs_are_apart() -> None:
    jobs = [TestJob(2, SLOTS), TestJob(3, SLOTS, number=1, base=2 * SLOTS)]
    with switch(jobs[0]) as made:
        for line in jobs[1].commands(jobs[0].commands()):
            made.command(line)
        for w in range(2):
            first = made.send(w, jobs[0].update(w, 0, 0, vector(1)))
        for w in range(3):
            second = made.send(w, jobs[1].update(w, 0, 0, vector(10)))
        assert [read(data).vector for _, data in first] == [vector(2)] * 2
        assert [read(data).vector for _, data in second] == [vector(30)] * 3


UNKNOWN_JOB, WRONG_SOURCE, BAD_SLOT, MALFORMED = range(4)


@pytest.mark.parametrize(
    ("port", "change", "reason"),
    [
        (0, {"job": 5}, UNKNOWN_JOB),
        (0, {"worker": 1}, WRONG_SOURCE),
        (1, {}, WRONG_SOURCE),
        (0, {"worker": 31}, WRONG_SOURCE),
        (0, {"worker": 200}, WRONG_SOURCE),
        (0, {"slot": SLOTS}, BAD_SLOT),
        (0, {"slot": 65535}, BAD_SLOT),
        (0, {"version": 2}, MALFORMED),
        (0, {"kind": 77}, MALFORMED),
        (0, {"epoch": 0}, MALFORMED),
        (0, {"kind": wire.KIND_RESULT}, WRONG_SOURCE),
    ],
)
def test_strangers_touch_no_slot(port: int, change: dict[str, int], reason: int) -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        assert made.send(port, job.update(0, 0, 0, vector(7), change=change)) == []
        assert made.counter("rejected", reason) == 1
        assert set(made.command("register_read seen").split("=")[1].replace(",", "").split()) == {"0"}


def test_another_source_address_is_turned_away() -> None:
    job = TestJob(2, SLOTS)
    stranger = Station("02:00:00:00:00:01", "10.0.0.77")
    header = {"job": 0, "worker": 0, "kind": wire.KIND_UPDATE, "slot": 0, "chunk": 0}
    with switch(job) as made:
        assert made.send(0, frame(stranger, SWITCH, header, vector(1))) == []
        assert made.counter("rejected", WRONG_SOURCE) == 1


def test_garbage_is_survived_and_counted() -> None:
    job = TestJob(2, SLOTS)
    good = job.update(0, 0, 0, vector(5))

    @examples(60)
    @given(
        st.one_of(
            st.binary(max_size=200),
            st.integers(0, len(good) - 1).map(lambda n: good[:n]),
            st.binary(min_size=1, max_size=9).map(lambda t: good + t),
        )
    )
    def run(data: bytes) -> None:
        with switch(job) as made:
            made.send(0, data)
            if data.startswith(good):  # padding behind a whole packet is no harm (Ethernet pads too)
                return
            assert made.command("register_read count 0").endswith("= 0\n")
            made.send(0, good)
            ((_, first), _) = made.send(1, job.update(1, 0, 0, vector(6)))
            assert read(first).vector == vector(11)

    run()


def test_a_query_tells_whom_the_switch_has_not_seen() -> None:
    job = TestJob(3, SLOTS)
    station = Station("02:00:00:00:00:01", "10.0.0.1")
    query = {"job": 0, "worker": 0, "kind": wire.KIND_QUERY, "slot": 1, "chunk": 1}
    with switch(job) as made:
        for w in (0, 2):
            made.send(w, job.update(w, 1, 1, vector(1)))
        ((port, data),) = made.send(0, frame(station, SWITCH, query, []))
        answer = read(data)
        assert (port, answer.kind, answer.seen, answer.mark) == (0, wire.KIND_STATUS, 0b101, 0)


def test_thirty_two_workers_and_every_k() -> None:
    for k in (32, 64, 256):
        job = TestJob(32, 2)
        with OfflineSwitch(program(k), ports=32) as made:
            for line in job.commands():
                made.command(line)
            for w in range(32):
                sent = made.send(w, job.update(w, 0, 0, [w] * k))
            assert len(sent) == 32
            assert list(read(sent[31][1]).vector) == [sum(range(32))] * k
