"""p4/atp.p4: what leaves is counted by job and port, marks are set at the depth that is deep, and a saturation is kept."""

from __future__ import annotations

import time

from inalab.hosts.atp import wire
from inalab.switches import atp
from inalab.switches.embedded.offline import OfflineSwitch
from tests.atp_packets import SERVER_PORT, AtpJob, program, read
from tests.packets import vector, worker_station

LARGEST = 2**31 - 1
PACKETS_A_SECOND = 4


def switch(job: AtpJob) -> OfflineSwitch:
    made = OfflineSwitch(program())
    for line in job.commands():
        made.command(line)
    return made


def test_copies_of_a_result_are_counted_by_job_and_port() -> None:
    job = AtpJob(3, number=2)
    with switch(job) as made:
        made.send(0, job.gradient(0, 0, vector(1)))
        for _ in range(2):
            assert len(made.send(SERVER_PORT, job.answer(0, vector(1)))) == 3
        ports = 64  # MAX_PORTS
        assert [made.counter("addresser.sent", 2 * ports + port) for port in range(4)] == [2, 2, 2, 0]
        assert made.counter("addresser.sent", 0) == 0


def test_a_packet_is_marked_from_the_depth_on_that_is_deep() -> None:
    """Four gradients wait for a slow link; each finds one more before it than the one before, but for the first, which leaves."""
    job = AtpJob(2)
    marks: dict[int, int] = {}
    with switch(job) as made:
        for line in [*atp.settings(lifetime=0, deep=2), f"set_queue_rate {PACKETS_A_SECOND} {SERVER_PORT}"]:
            made.command(line)

        def send(port: int, packet: bytes) -> None:
            marks.update({read(data).sequence: read(data).ecn for out, data in made.send(port, packet) if out == SERVER_PORT})

        for sequence in range(4):
            send(0, job.gradient(0, sequence, vector(1), resend=1))
        until = time.monotonic() + 20
        while len(marks) < 4 and time.monotonic() < until:
            time.sleep(0.05)
            send(SERVER_PORT, job.answer(9, vector(1), to=worker_station(1)))
    assert marks == {0: 0, 1: 0, 2: 0, 3: 1}


def test_a_saturation_is_kept_whatever_comes_after() -> None:
    job = AtpJob(4)
    with switch(job) as made:
        for worker, value in enumerate((LARGEST, 1, -5)):
            assert made.send(worker, job.gradient(worker, 0, vector(value))) == []
        ((_, data),) = made.send(3, job.gradient(3, 0, vector(1)))
        assert (read(data).overflow, list(read(data).vector)) == (1, vector(LARGEST - 4))


def test_a_saturation_is_told_when_the_aggregator_is_let_go() -> None:
    """Worker 1 sends again what is in already, and the sum so far leaves with its mark."""
    job = AtpJob(3)
    with switch(job) as made:
        for worker in range(2):
            made.send(worker, job.gradient(worker, 0, vector(LARGEST)))
        ((_, data),) = made.send(1, job.gradient(1, 0, vector(LARGEST), resend=1))
        assert (read(data).overflow, list(read(data).vector)) == (1, vector(LARGEST))
        ((_, data),) = made.send(2, job.gradient(2, 0, vector(1), resend=1))
        assert read(data).overflow == 0


def test_the_first_packet_of_the_next_chunk_brings_its_own_overflow() -> None:
    job = AtpJob(2)
    with switch(job) as made:
        for worker in range(2):
            made.send(worker, job.gradient(worker, 0, vector(LARGEST)))
        made.send(SERVER_PORT, job.answer(0, vector(1)))
        made.send(0, job.gradient(0, 1, vector(1)))
        ((_, data),) = made.send(1, job.gradient(1, 1, vector(2)))
        assert (read(data).overflow, list(read(data).vector)) == (0, vector(3))


def test_who_comes_when_others_of_the_chunk_were_refused_claims_nothing() -> None:
    """Worker 0 of chunk 5 finds the aggregator taken and goes on alone; for worker 1 it is free, but nobody would join it."""
    job = AtpJob(2)
    with switch(job) as made:
        assert made.send(0, job.gradient(0, 0, vector(1))) == []
        ((_, data),) = made.send(0, job.gradient(0, 5, vector(2)))
        assert read(data).collision == 1
        made.send(SERVER_PORT, job.answer(0, vector(1)))
        ((port, data),) = made.send(1, job.gradient(1, 5, vector(3)))
        assert (port, read(data).collision, list(read(data).vector)) == (SERVER_PORT, 1, vector(3))
        assert made.register("aggregator.bitmap", 0) == 0
        assert made.send(1, job.gradient(1, 6, vector(4))) == []  # a chunk of which nobody was refused


def test_a_job_that_is_over_claims_nothing() -> None:
    job = AtpJob(2)
    with switch(job) as made:
        assert made.send(0, job.gradient(0, 0, vector(1))) == []
        ((_, data),) = made.send(SERVER_PORT, job.answer(0, [], kind=wire.KIND_RELEASE))
        assert read(data).kind == wire.KIND_RELEASED
        ((port, data),) = made.send(0, job.gradient(0, 1, vector(2)))
        assert (port, read(data).collision, list(read(data).vector)) == (SERVER_PORT, 0, vector(2))
        assert made.register("aggregator.bitmap", 0) == 0
