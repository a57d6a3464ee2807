"""p4/switchml.p4 against the independent model, over random interleavings of loss, duplication and reordering."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hosts import wire
from switches.embedded.offline import OfflineSwitch
from switches.forwarding import Station
from tests.packets import PARENT, PARENT_PORT, SWITCH, TestJob, frame, program, read, vector
from tests.reference import RESULT, UPDATE, Message, ModelSwitch

SLOTS = 3
ROUNDS = 5


def switch(job: TestJob) -> OfflineSwitch:
    made = OfflineSwitch(program())
    for line in job.commands():
        made.command(line)
    return made


def as_message(data: bytes, kind: str) -> Message:
    h = read(data)
    return Message(kind, h.worker, h.version, h.slot, h.chunk, h.exponent, tuple(h.vector))


def values(worker: int, chunk: int) -> list[int]:
    """Numbers that tell workers and chunks apart, near the ends of int32 too."""
    return vector(worker * 1000 + chunk, 2**31 - 1 - worker, -(2**31) + chunk, -worker - 1)


def expect(job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message) -> None:
    """Send one update to both; the same must come out."""
    sent = made.send(m.worker, job.update(m.worker, m.slot, m.chunk, list(m.vector), m.version, m.exponent))
    predicted = model.update(m)
    if predicted is None:
        assert sent == []
        return
    where, out = predicted
    if where == "up":
        ((port, data),) = sent
        assert port == PARENT_PORT
        assert as_message(data, UPDATE) == Message(UPDATE, 0, out.version, out.slot, out.chunk, out.exponent, out.vector)
        assert read(data).kind == wire.KIND_UPDATE
        return
    receivers = range(job.workers) if where == "all" else [m.worker]
    assert [port for port, _ in sent] == list(receivers)
    for port, data in sent:
        assert read(data).kind == wire.KIND_RESULT
        assert as_message(data, RESULT) == Message(RESULT, port, out.version, out.slot, out.chunk, out.exponent, out.vector)


def update(worker: int, slot: int, turn: int) -> Message:
    chunk = turn * SLOTS + slot
    return Message(UPDATE, worker, turn % 2, slot, chunk, (worker * 37 + chunk * 11) % 256, tuple(values(worker, chunk)))


# each step of an interleaving: a worker sends the current round of a slot, or something old arrives once more
steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, SLOTS - 1), st.integers(0, 9)), max_size=120)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("has_parent", [False, True])
def test_random_interleavings(workers: int, has_parent: bool) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps)
    def run(script: list[tuple[int, int, int]]) -> None:
        job = TestJob(workers, SLOTS, has_parent=has_parent)
        model = ModelSwitch(workers, has_parent)
        turn = {(w, s): 0 for w in range(workers) for s in range(SLOTS)}
        with switch(job) as made:
            for w, slot, how in script:
                worker = w % workers
                now = turn[worker, slot]
                # a worker advances once its round is complete everywhere; how < 3 replays something older instead
                cell = model.cells.get((now % 2, slot))
                finished = cell is not None and cell.chunk == now * SLOTS + slot and len(cell.seen) == workers
                if has_parent and finished and cell is not None and not cell.final:
                    chunk, total = cell.chunk, tuple(v ^ 1 for v in cell.total)
                    down = Message(RESULT, 0, now % 2, slot, chunk, 200, total)
                    deliver_result(job, made, model, down, twice=how == 9)
                elif how < 3:
                    expect(job, made, model, update(worker, slot, max(0, now - how)))
                elif finished and now + 1 < ROUNDS:
                    turn[worker, slot] += 1
                    expect(job, made, model, update(worker, slot, now + 1))
                else:
                    expect(job, made, model, update(worker, slot, now))

    run()


def deliver_result(job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message, twice: bool) -> None:
    header = {
        "job": job.number, "worker": 0, "kind": wire.KIND_RESULT, "version": m.version, "slot": m.slot, "chunk": m.chunk,
        "exponent": m.exponent,
    }  # fmt: skip
    for _ in range(1 + twice):
        sent = made.send(PARENT_PORT, frame(PARENT, SWITCH, header, list(m.vector)))
        predicted = model.result(m)
        assert [port for port, _ in sent] == (list(range(job.workers)) if predicted else [])
        for port, data in sent:
            got = as_message(data, RESULT)
            assert (got.worker, got.vector, got.exponent) == (port, m.vector, m.exponent)


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
    jobs = [TestJob(2, SLOTS), TestJob(3, SLOTS, number=1, base=2 * SLOTS, first_node=2)]
    with switch(jobs[0]) as made:
        for line in jobs[1].commands():
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

    @settings(max_examples=60, deadline=None)
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
