"""p4/esa.p4 by example: who takes an aggregator from whom, what leaves then, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from inalab.hosts.atp import wire
from inalab.switches.atp import rack_bit
from inalab.switches.embedded.offline import OfflineSwitch
from tests.atp_packets import RACK, SERVER, SERVER_PORT, UPLINK, AtpJob, read
from tests.packets import vector, worker_station
from tests.unit.test_atp_program import switch

LOW, HIGH = 8, 100  # priorities
LARGEST = 2**31 - 1


def jobs(level: int = 1, workers: int = 2) -> list[AtpJob]:
    return [AtpJob(workers, level, number=number) for number in (0, 1)]


@pytest.fixture(name="made")
def of_one_level() -> Iterator[tuple[OfflineSwitch, AtpJob, AtpJob]]:
    both = jobs()
    with switch(*both, name="esa") as made:
        yield made, *both


@pytest.mark.parametrize("level", [0, 1])
def test_what_was_gathered_leaves_to_its_own_server_in_its_workers_name(level: int) -> None:
    one, two = both = jobs(level, workers=3)
    with switch(*both, name="esa") as made:
        for w in (1, 2):
            assert made.send(w, one.gradient(w, 5, vector(w), next_index=LOW, ecn=w - 1)) == []
        urgent = bytearray(two.gradient(0, 6, vector(40), next_index=HIGH))
        urgent[34:36] = (9).to_bytes(2, "big")  # from another port
        ((port, data),) = made.send(0, bytes(urgent))
        h = read(data)
        assert (port, h.job, h.sequence, list(h.vector)) == (SERVER_PORT if level else UPLINK, 0, 5, vector(3))
        assert (h.bitmap0, h.bitmap1) == ((0, 0b110) if level else (0b110, rack_bit(RACK)))
        assert (h.edge_switch, h.collision, h.resend, h.asked, h.ecn, h.overflow, h.next_index) == (1, 1, 0, 0, 1, 0, LOW)
        assert (Ether(data).src, Ether(data)[IP].src) == (worker_station(1).mac, worker_station(1).ip)  # who had claimed it
        assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)
        assert (Ether(data)[UDP].sport, Ether(data)[IP].ttl, Ether(data)[IP].tos, Ether(data)[IP].flags) == (
            wire.UDP_PORT,
            64,
            0,
            "DF",
        )
        assert made.counter("preemptions", 1) == 1
        for w in (1, 2):
            answers = made.send(w, two.gradient(w, 6, vector(w), next_index=HIGH))
        assert list(read(answers[0][1]).vector) == vector(43)


def test_of_equals_the_first_one_has_it_until_its_priority_is_halved(made: tuple[OfflineSwitch, AtpJob, AtpJob]) -> None:
    running, one, two = made
    running.send(0, one.gradient(0, 0, vector(1), next_index=LOW))
    ((_, data),) = running.send(0, two.gradient(0, 0, vector(2), next_index=LOW))
    assert (read(data).job, read(data).collision) == (1, 1)
    assert running.register("preemption.priority", 0) == LOW // 2
    ((_, data),) = running.send(0, two.gradient(0, 1, vector(2), next_index=LOW))
    assert (read(data).job, list(read(data).vector)) == (0, vector(1))


def test_an_evicted_chunk_does_not_claim_again(made: tuple[OfflineSwitch, AtpJob, AtpJob]) -> None:
    """Its other part would wait for one that is at the server already."""
    running, one, two = made
    running.send(0, one.gradient(0, 0, vector(1), next_index=LOW))
    for w in (0, 1):
        running.send(w, two.gradient(w, 0, vector(2), next_index=HIGH))
    assert running.send(SERVER_PORT, two.answer(0, vector(4)))  # frees it
    assert running.register("aggregator.bitmap", 0) == 0
    ((_, data),) = running.send(1, one.gradient(1, 0, vector(3), next_index=LOW))
    assert (read(data).bitmap1, list(read(data).vector)) == (0b10, vector(3))
    assert running.register("aggregator.bitmap", 0) == 0


def test_a_sum_that_has_left_is_overwritten(made: tuple[OfflineSwitch, AtpJob, AtpJob]) -> None:
    running, one, two = made
    for w in (0, 1):
        answers = running.send(w, one.gradient(w, 0, vector(w), next_index=LOW))
    assert len(answers) == 1
    assert running.send(0, two.gradient(0, 0, vector(7), next_index=HIGH)) == []
    ((_, data),) = running.send(0, one.gradient(0, 0, [], kind=wire.KIND_QUERY))  # if that sum was lost, its server says so
    assert read(data).kind == wire.KIND_QUERY
    ((_, data),) = running.send(1, two.gradient(1, 0, vector(8), next_index=HIGH))
    assert list(read(data).vector) == vector(15)


def test_that_a_sum_saturated_leaves_with_it(made: tuple[OfflineSwitch, AtpJob, AtpJob]) -> None:
    one, two = both = jobs(workers=3)
    with switch(*both, name="esa") as own:
        for w in (0, 1):
            own.send(w, one.gradient(w, 0, vector(LARGEST), next_index=LOW))
        ((_, data),) = own.send(0, two.gradient(0, 0, vector(1), next_index=HIGH))
        assert (read(data).job, read(data).overflow) == (0, 1)
        own.send(1, two.gradient(1, 0, vector(1), next_index=HIGH))
        ((_, data),) = own.send(2, two.gradient(2, 0, vector(1), next_index=HIGH))
        assert (read(data).job, read(data).overflow, list(read(data).vector)) == (1, 0, vector(3))


@pytest.mark.parametrize("marks", [{"resend": 1}, {"exponent": 130, "vector": [7]}, {"kind": wire.KIND_RAW}])
def test_what_claims_nothing_takes_nothing(marks: dict[str, int], made: tuple[OfflineSwitch, AtpJob, AtpJob]) -> None:
    """Nor what is bare: it is of another shape."""
    running, one, two = made
    running.send(0, one.gradient(0, 0, vector(1), next_index=LOW))
    numbers = {"vector": vector(2), **marks}
    ((_, data),) = running.send(0, two.gradient(0, 0, next_index=HIGH, **numbers))  # type: ignore[arg-type]
    assert read(data).job == 1 and running.register("aggregator.bitmap", 0) == 1
