"""The scenarios of SwitchML's earlier PTF suite, by scapy against the running switch on real interfaces.

Each for 1, 2 and 3 workers on a switch of its own, and below a parent (the second level is played by the test).
"""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest

from hosts import wire
from switches.sockets import socket_path
from switches.target import Target, on_interfaces, tell
from tests.interfaces import far_end
from tests.packets import PARENT, PARENT_PORT, SWITCH, TestJob, frame, read, vector
from topologies import isolation

SILENCE = 0.05  # seconds after which nothing more is expected
PATIENCE = 2.0


def isolated_test(work: Callable[[], Any]) -> None:
    """Run a test's body in namespaces of its own; its failure is this test's."""
    receiver, sender = Pipe(duplex=False)

    def inside() -> int:
        try:
            work()
            sender.send("")
        except BaseException:
            sender.send(traceback.format_exc())
        return 0

    pid = isolation.start(inside)
    sender.close()
    try:
        failure = receiver.recv()
    finally:
        isolation.wait(pid)
    if failure:
        pytest.fail(failure, pytrace=False)


class Bench:
    """A running switch with a raw socket at the far end of every port."""

    def __init__(self, job: TestJob, target: Target) -> None:
        self.job = job
        self.ports = [*range(job.workers), *([PARENT_PORT] if job.has_parent else [])]
        self.sockets = {port: far_end(port) for port in self.ports}
        interfaces = {port: f"s{port}" for port in self.ports}
        self.switch = on_interfaces(target.switch("s", Path("/run"), seed=0), interfaces)
        self.control = tell(self.switch, job.commands())

    def send(self, worker: int, slot: int, chunk: int, value: int, version: int = 0) -> None:
        self.sockets[worker].send(self.job.update(worker, slot, chunk, vector(value), version))

    def expect(self, port: int, kind: int, slot: int, chunk: int, value: int) -> None:
        """The next packet at a port is this one."""
        self.sockets[port].settimeout(PATIENCE)
        got = read(self.sockets[port].recv(4096))
        assert (got.kind, got.slot, got.chunk, list(got.vector)) == (kind, slot, chunk, vector(value))

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
        self.sockets[PARENT_PORT].send(frame(PARENT, SWITCH, header, vector(value)))

    def expect_silence(self) -> None:
        for port in self.ports:
            self.sockets[port].settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                self.sockets[port].recv(4096)

    def round(self, slot: int, chunk: int, base: int = 1) -> int:
        """All workers send base, base + 1, …; the sum, which everybody gets."""
        version = chunk // self.job.slots % 2
        for worker in range(self.job.workers):
            self.send(worker, slot, chunk, base + worker, version)
        total = sum(base + w for w in range(self.job.workers))
        self.expect_result(slot, chunk, total)
        return total


@contextmanager
def bench(job: TestJob, target: Target) -> Iterator[Bench]:
    made = Bench(job, target)
    try:
        yield made
    finally:
        assert made.switch.dataplane() is not None
        made.switch.stop(deleteIntfs=False)


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
        assert b.control.register("seen", 0) == (1 << (b.job.workers - 1)) - 1
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
    assert b.control.counter("stale", 0) == 1
    b.round(0, 3 * b.job.slots, base=9)


SCENARIOS = [
    basic_reduction, retransmission_after_reduction, reduction_in_the_other_set, both_sets, slot_reuse, ignored_retransmissions,
    retransmission_from_the_previous_set, slot_reuse_and_retransmission, reordering,
]  # fmt: skip


@pytest.mark.parametrize("has_parent", [False, True], ids=["one-level", "two-levels"])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_scenario(scenario: Callable[[Bench], None], workers: int, has_parent: bool, small_target: Target) -> None:
    def body() -> None:
        with bench(TestJob(workers, has_parent=has_parent), small_target) as b:
            scenario(b)

    isolated_test(body)


def test_lost_partial_sum_is_sent_up_again(small_target: Target) -> None:
    def body() -> None:
        with bench(TestJob(2, has_parent=True), small_target) as b:
            b.send(0, 0, 0, 1)
            b.send(1, 0, 0, 2)
            b.expect(PARENT_PORT, wire.KIND_UPDATE, 0, 0, 3)
            b.send(0, 0, 0, 1)  # nothing came down: whoever asks makes the switch ask above
            b.expect(PARENT_PORT, wire.KIND_UPDATE, 0, 0, 3)
            b.from_parent(0, 0, 40)
            b.from_parent(0, 0, 40)  # the second copy changes nothing
            for worker in range(2):
                b.expect(worker, wire.KIND_RESULT, 0, 0, 40)
            b.send(1, 0, 0, 2)
            b.expect(1, wire.KIND_RESULT, 0, 0, 40)
            b.from_parent(0, 99, 5)  # of a chunk that nobody has sent
            b.expect_silence()

    isolated_test(body)


def test_several_jobs(small_target: Target) -> None:
    def body() -> None:
        first, second = TestJob(2), TestJob(2, number=1, base=8, first_node=2)
        with bench(first, small_target) as b:
            for line in second.commands():
                b.control.command(line)
            for worker in range(2):
                b.sockets[worker].send(first.update(worker, 0, 0, vector(1)))
                b.sockets[worker].send(second.update(worker, 0, 0, vector(100)))
            for worker in range(2):
                b.expect(worker, wire.KIND_RESULT, 0, 0, 2)
                b.expect(worker, wire.KIND_RESULT, 0, 0, 200)

    isolated_test(body)


def test_the_switch_as_a_command() -> None:
    """python -m switches.embedded prints ready, takes commands by name, and ends cleanly on SIGTERM."""

    def body() -> None:
        subprocess.run(["ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1"], check=True)
        subprocess.run(["ip", "link", "set", "a0", "up"], check=True)
        commands = Path("/run/commands.txt")
        commands.write_text("# a comment\n\nset_queue_depth 128\nregister_write seen 3 5\n")
        words = [
            sys.executable,
            "-m",
            "switches.embedded",
            "p4/switchml.p4",
            "-i",
            "0@a0",
            "-D",
            "K=32",
            "--commands",
            str(commands),
        ]
        switch = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert switch.stdout is not None
        assert switch.stdout.readline() == "ready\n"
        tell = [sys.executable, "-m", "switches.cli", "switchml"]
        done = subprocess.run([*tell, "register_read seen 3", "register_read seen 4"], capture_output=True, text=True, check=True)
        assert done.stdout == "seen[3]= 5\nseen[4]= 0\n"
        refused = subprocess.run([*tell, "register_read seen 99999"], capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: 99999 is not a cell of")
        again = subprocess.run([*words], capture_output=True, text=True, check=False)
        assert again.returncode == 1
        assert "a switch called switchml is running" in again.stderr
        switch.terminate()
        assert switch.wait(5) == 0
        assert not socket_path("switchml").exists()
        commands.write_text("register_write seen 3 5\ntable_add nosuch x 1 =>\n")
        wrong = subprocess.run(words, capture_output=True, text=True, check=False)
        assert wrong.returncode == 1
        assert "commands.txt:2: error: there is no table nosuch" in wrong.stderr

    isolated_test(body)
