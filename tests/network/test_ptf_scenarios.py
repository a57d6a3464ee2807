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

from inalab.hosts.switchml import wire
from inalab.switches.sockets import socket_path
from inalab.switches.target import Target, on_interfaces, tell
from inalab.topologies import isolation
from tests.interfaces import far_end
from tests.packets import PARENT_PORT, TestJob, read, vector
from tests.ptf import SCENARIOS, Bench

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


class RunningBench(Bench):
    """A running switch with a raw socket at the far end of every port."""

    def __init__(self, job: TestJob, target: Target) -> None:
        super().__init__(job)
        self.sockets = {port: far_end(port) for port in self.ports}
        interfaces = {port: f"s{port}" for port in self.ports}
        self.switch = on_interfaces(target.switch("s", Path("/run"), seed=0), interfaces)
        self.control = tell(self.switch, job.commands())

    def put(self, port: int, packet: bytes) -> None:
        self.sockets[port].send(packet)

    def expect(self, port: int, kind: int, slot: int, chunk: int, value: int) -> None:
        self.sockets[port].settimeout(PATIENCE)
        got = read(self.sockets[port].recv(4096))
        assert (got.kind, got.slot, got.chunk, list(got.vector)) == (kind, slot, chunk, vector(value))

    def expect_silence(self) -> None:
        for port in self.ports:
            self.sockets[port].settimeout(SILENCE)
            with pytest.raises(TimeoutError):
                self.sockets[port].recv(4096)

    def expect_state(self, kind: str, name: str, cell: int, value: int) -> None:
        assert getattr(self.control, kind)(name, cell) == value


@contextmanager
def bench(job: TestJob, target: Target) -> Iterator[RunningBench]:
    made = RunningBench(job, target)
    try:
        yield made
    finally:
        assert made.switch.dataplane() is not None
        made.switch.stop(deleteIntfs=False)


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
        first, second = TestJob(2), TestJob(2, number=1, base=8)
        with bench(first, small_target) as b:
            for line in second.commands(first.commands()):
                b.control.command(line)
            for worker in range(2):
                b.sockets[worker].send(first.update(worker, 0, 0, vector(1)))
                b.sockets[worker].send(second.update(worker, 0, 0, vector(100)))
            for worker in range(2):
                b.expect(worker, wire.KIND_RESULT, 0, 0, 2)
                b.expect(worker, wire.KIND_RESULT, 0, 0, 200)

    isolated_test(body)


def test_the_switch_as_a_command() -> None:
    """python -m inalab.switches.embedded prints ready, takes commands by name, and ends cleanly on SIGTERM."""

    def body() -> None:
        subprocess.run(["ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1"], check=True)
        subprocess.run(["ip", "link", "set", "a0", "up"], check=True)
        commands = Path("/run/commands.txt")
        commands.write_text("# a comment\n\nset_queue_depth 128\nregister_write seen 3 5\n")
        words = [
            sys.executable,
            "-m",
            "inalab.switches.embedded",
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
        tell = [sys.executable, "-m", "inalab.switches.cli", "switchml"]
        done = subprocess.run([*tell, "register_read seen 3", "register_read seen 4"], capture_output=True, text=True, check=True)
        assert done.stdout == "seen[3]= 5\nseen[4]= 0\n"
        refused = subprocess.run([*tell, "register_read seen 99999"], capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: register_read seen 99999: 99999 is not a cell of")
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
