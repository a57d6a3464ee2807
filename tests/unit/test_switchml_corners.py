"""p4/switchml.p4 where rounds overlap, numbers end, and addresses differ from the usual ones."""

from __future__ import annotations

from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from inalab.hosts.switchml import wire
from inalab.switches.embedded.offline import OfflineSwitch
from tests.packets import PARENT_PORT, TestJob, payload, program, read, vector

SLOTS = 3
ROUND = 2 * SLOTS  # chunks from one round of a cell to its next


def switch(job: TestJob) -> OfflineSwitch:
    made = OfflineSwitch(program())
    for line in job.commands():
        made.command(line)
    return made


def sums(sent: list[tuple[int, bytes]]) -> list[tuple[int, list[int]]]:
    return [(port, list(read(data).vector)) for port, data in sent]


def test_a_stale_packet_leaves_a_half_full_round_as_it_is() -> None:
    """Worker 1's packet of the first round arrives once more when worker 0 alone is in the next one."""
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for worker in range(2):
            made.send(worker, job.update(worker, 0, 0, vector(1)))
        made.send(0, job.update(0, 0, ROUND, vector(10)))
        assert made.send(1, job.update(1, 0, 0, vector(99))) == []
        assert made.register("bitmap_checker.seen", 0) == 0b01
        assert sums(made.send(1, job.update(1, 0, ROUND, vector(20)))) == [(0, vector(30)), (1, vector(30))]


def test_chunk_numbers_go_round() -> None:
    """Rounds follow each other across 2^31 and 2^32, and what is left behind stays behind."""
    job = TestJob(2, SLOTS)
    chunks = [5, 2**30, 2**31 - 4, 2**31 + 2, 2**31 + 2**30, 2**32 - 2, 4]
    with switch(job) as made:
        for turn, chunk in enumerate(chunks):
            assert made.send(0, job.update(0, 0, chunk, vector(turn))) == []
            if turn:
                assert made.send(1, job.update(1, 0, chunks[turn - 1], vector(77))) == []
            assert sums(made.send(1, job.update(1, 0, chunk, vector(100)))) == [(w, vector(100 + turn)) for w in range(2)]
        assert made.counter("stale", 0) == len(chunks) - 1


def test_the_workers_of_a_round_are_counted() -> None:
    job = TestJob(3, SLOTS)
    with switch(job) as made:

        def count_after(worker: int, chunk: int) -> int:
            made.send(worker, job.update(worker, 0, chunk, vector(1)))
            return made.register("workers_counter.count", 0)

        assert [count_after(w, 0) for w in (2, 0, 0, 1, 2)] == [1, 2, 2, 3, 3]
        assert [count_after(w, ROUND) for w in (1, 1, 0)] == [1, 1, 2]


def test_a_result_sent_again_goes_to_the_port_that_it_was_missed_at() -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for worker in range(2):
            made.send(worker, job.update(worker, 0, 0, vector(4)))
        again = Ether(job.update(1, 0, 0, vector(4)))
        again[UDP].sport = 4000
        ((port, data),) = made.send(1, bytes(again))
        assert (port, Ether(data)[UDP].sport, Ether(data)[UDP].dport) == (1, wire.UDP_PORT, 4000)
        assert list(read(data).vector) == vector(8)


def test_the_largest_exponent_wins_in_either_order() -> None:
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for slot, exponents in enumerate([(7, 200), (200, 7)]):
            for worker, exponent in enumerate(exponents):
                sent = made.send(worker, job.update(worker, slot, slot, vector(1), exponent=exponent))
            assert [read(data).exponent for _, data in sent] == [200, 200]


def test_frames_to_nobody_are_dropped_and_counted() -> None:
    job = TestJob(2, SLOTS)
    unknown = bytes.fromhex("020000000077" + "020000000001") + b"\x88\xb5" + bytes(50)
    with switch(job) as made:
        assert made.send(0, unknown) == []
        assert made.send(0, unknown) == []
        assert made.counter("forwarder.unknown", 0) == 2


def test_epochs_go_round() -> None:
    """A group that begins behind 2^32 is newer than one that began before it, and what that one has left is stale."""
    job = TestJob(2, SLOTS)
    with switch(job) as made:
        for older, newer in ((2**31 - 2, 2**31 + 2), (2**32 - 3, 4)):
            assert made.send(0, job.update(0, 0, 0, vector(99), epoch=older)) == []
            assert made.send(0, job.update(0, 0, 0, vector(10), epoch=newer)) == []
            assert made.send(1, job.update(1, 0, 0, vector(99), epoch=older)) == []
            assert sums(made.send(1, job.update(1, 0, 0, vector(20), epoch=newer))) == [(0, vector(30)), (1, vector(30))]


def test_a_sum_that_was_lost_on_its_way_up_is_sent_up_again() -> None:
    """A rack is complete, and no result has come down: each worker's retransmission sends the rack's sum up once more."""
    job = TestJob(2, SLOTS, has_parent=True)
    with switch(job) as made:
        made.send(0, job.update(0, 0, 0, vector(1), exponent=9))
        ((port, first),) = made.send(1, job.update(1, 0, 0, vector(2)))
        assert port == PARENT_PORT
        for worker in range(2):
            ((port, again),) = made.send(worker, job.update(worker, 0, 0, vector(77)))
            assert (port, payload(again)) == (PARENT_PORT, payload(first))
        assert list(read(first).vector) == vector(3)
        assert made.counter("sender.retransmissions", 0) == 2
