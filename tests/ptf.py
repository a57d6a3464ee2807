"""The scenarios of SwitchML's earlier PTF suite: what workers send to one switch, and what they must see.

Each is a function of a Bench: a running switch (tests/network/test_ptf_scenarios.py), or a script that only writes down
what is sent (tests/scenarios.py), for BMv2's answers to be recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from inalab.hosts.switchml import wire
from tests.packets import PARENT, PARENT_PORT, SWITCH, TestJob, frame, vector


class Bench(ABC):
    """A job at a switch: packets go in, and are expected to come out."""

    def __init__(self, job: TestJob) -> None:
        self.job = job
        self.ports = [*range(job.workers), *([PARENT_PORT] if job.has_parent else [])]

    @abstractmethod
    def put(self, port: int, packet: bytes) -> None:
        """Let a packet arrive at a port."""

    @abstractmethod
    def expect(self, port: int, kind: int, slot: int, chunk: int, value: int) -> None:
        """The next packet at a port is this one."""

    @abstractmethod
    def expect_silence(self) -> None:
        """Nothing more comes out."""

    @abstractmethod
    def expect_state(self, kind: str, name: str, cell: int, value: int) -> None:
        """A cell of a "register" or "counter" holds this."""

    def send(self, worker: int, slot: int, chunk: int, value: int, version: int = 0) -> None:
        self.put(worker, self.job.update(worker, slot, chunk, vector(value), version))

    def expect_result(self, slot: int, chunk: int, value: int, workers: list[int] | None = None) -> None:
        """A result at each of these workers (all of them by default); below a parent, by way of it."""
        everybody = workers is None
        if self.job.has_parent and everybody:
            self.expect(PARENT_PORT, wire.KIND_UPDATE, slot, chunk, value)
            self.from_parent(slot, chunk, value)
        for worker in range(self.job.workers) if workers is None else workers:
            self.expect(worker, wire.KIND_RESULT, slot, chunk, value)

    def from_parent(self, slot: int, chunk: int, value: int, version: int | None = None) -> None:
        version = chunk // self.job.slots % 2 if version is None else version
        header = {"job": 0, "worker": 0, "kind": wire.KIND_RESULT, "version": version, "slot": slot, "chunk": chunk}
        self.put(PARENT_PORT, frame(PARENT, SWITCH, header, vector(value)))

    def round(self, slot: int, chunk: int, base: int = 1) -> int:
        """All workers send base, base + 1, …; the sum, which everybody gets."""
        version = chunk // self.job.slots % 2
        for worker in range(self.job.workers):
            self.send(worker, slot, chunk, base + worker, version)
        total = sum(base + w for w in range(self.job.workers))
        self.expect_result(slot, chunk, total)
        return total


class Script(Bench):
    """Writes down what is sent; expects nothing."""

    def __init__(self, job: TestJob) -> None:
        super().__init__(job)
        self.packets: list[tuple[int, bytes]] = []

    def put(self, port: int, packet: bytes) -> None:
        self.packets.append((port, packet))

    def expect(self, port: int, kind: int, slot: int, chunk: int, value: int) -> None:
        """Nothing to look at."""

    def expect_silence(self) -> None:
        """Nothing to look at."""

    def expect_state(self, kind: str, name: str, cell: int, value: int) -> None:
        """Nothing to look at."""


def basic_reduction(b: Bench) -> None:
    b.round(0, 0)
    b.expect_silence()


def retransmission_after_reduction(b: Bench) -> None:
    total = b.round(0, 0)
    b.send(0, 0, 0, 1)
    b.expect_result(0, 0, total, workers=[0])
    b.expect_silence()


def reduction_in_the_other_set(b: Bench) -> None:
    b.round(1, b.job.slots + 1)
    b.expect_silence()


def both_sets(b: Bench) -> None:
    b.round(0, 0)
    b.round(0, b.job.slots, base=10)
    b.expect_silence()


def slot_reuse(b: Bench) -> None:
    for turn in range(4):
        b.round(2, turn * b.job.slots + 2, base=100 * turn)
    b.expect_silence()


def ignored_retransmissions(b: Bench) -> None:
    for worker in range(b.job.workers - 1):
        for _ in range(3):
            b.send(worker, 0, 0, worker + 1)
    if b.job.workers > 1:
        b.expect_silence()
        b.expect_state("register", "seen", 0, (1 << (b.job.workers - 1)) - 1)
    b.send(b.job.workers - 1, 0, 0, b.job.workers)
    b.expect_result(0, 0, sum(range(1, b.job.workers + 1)))


def retransmission_from_the_previous_set(b: Bench) -> None:
    total = b.round(0, 0)
    b.send(0, 0, b.job.slots, 5, version=1)  # worker 0 is one round ahead, and asks for the last once more
    if b.job.workers > 1:
        b.send(0, 0, 0, 1)
        b.expect_result(0, 0, total, workers=[0])
        b.expect_silence()


def slot_reuse_and_retransmission(b: Bench) -> None:
    for turn in range(3):
        total = b.round(0, turn * b.job.slots, base=turn + 1)
        last = b.job.workers - 1
        b.send(last, 0, turn * b.job.slots, turn + 1 + last, turn % 2)
        b.expect_result(0, turn * b.job.slots, total, workers=[last])
    b.expect_silence()


def reordering(b: Bench) -> None:
    for turn in range(3):
        b.round(0, turn * b.job.slots, base=turn + 1)
    b.send(0, 0, 0, 77)  # of round 0, in the set of round 2
    b.expect_silence()
    b.expect_state("counter", "stale", 0, 1)
    b.round(0, 3 * b.job.slots, base=9)


SCENARIOS = [
    basic_reduction, retransmission_after_reduction, reduction_in_the_other_set, both_sets, slot_reuse, ignored_retransmissions,
    retransmission_from_the_previous_set, slot_reuse_and_retransmission, reordering,
]  # fmt: skip
