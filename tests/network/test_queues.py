"""Egress queues of the running switch: a depth that drops, a rate that delays, and metadata that tells of both."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from inalab.switches.embedded.target import EmbeddedTarget
from inalab.switches.target import on_interfaces, tell
from tests.interfaces import far_end
from tests.network.test_ptf_scenarios import isolated_test
from tests.unit.test_runtime import PROBE, QUEUES, probe


@pytest.mark.parametrize(("depth", "sent"), [(8, 20), (64, 20)])
def test_depth_and_rate(depth: int, sent: int) -> None:
    rate = 20  # packets a second: slow enough that all are sent before the first has its turn, on a busy machine too
    target = EmbeddedTarget(QUEUES, {})

    def body() -> None:
        sockets = [far_end(port) for port in (0, 1)]
        commands = [f"set_queue_depth {depth} 1", f"set_queue_rate {rate} 1"]
        switch = on_interfaces(target.switch("q", Path("/run"), seed=0), {0: "s0", 1: "s1"})
        control = tell(switch, commands)
        for _ in range(sent):
            sockets[0].send(probe(0))
        sockets[1].settimeout(1.0)
        passed = min(sent, depth + 1)  # the first leaves at once, the others fill the queue
        seen = []
        for _ in range(passed):
            seen.append(PROBE.unpack(sockets[1].recv(4096)[14:]))
        sockets[1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            sockets[1].recv(4096)
        assert [enq for _, enq, _, _, _ in seen] == [0, *range(passed - 1)]
        assert [deq for _, _, deq, _, _ in seen[1:]] == list(range(passed - 2, -1, -1))
        assert seen[-1][3] == pytest.approx(1e6 * (passed - 1) / rate, rel=0.3)  # microseconds in the queue
        assert control.ports()[1]["queue_drops"] == sent - passed
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_what_waits_on_a_delayed_link_leaves_when_the_delay_ends() -> None:
    """No further packet is needed for it."""
    target = EmbeddedTarget(QUEUES, {})

    def body() -> None:
        sockets = [far_end(port) for port in (0, 1)]
        switch = on_interfaces(target.switch("q", Path("/run"), seed=0), {0: "s0", 1: "s1"})
        control = tell(switch, ["set_queue_depth 8 1", "set_queue_delay 60000000 1"])
        for _ in range(100):  # more than the queue holds: they wait on the link behind it
            sockets[0].send(probe(0))
        end = time.monotonic() + 5
        while control.ports()[1]["queued"] < 100 and time.monotonic() < end:
            time.sleep(0.01)
        sockets[1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            sockets[1].recv(4096)
        control.command("set_queue_delay 20000 1")
        sockets[1].settimeout(2.0)
        for _ in range(100):
            sockets[1].recv(4096)
        sockets[0].send(probe(0))
        begun = time.monotonic()
        sockets[1].recv(4096)
        assert time.monotonic() - begun >= 0.015
        control.command("set_queue_delay 60000000 1")
        sockets[0].send(probe(0))
        while not control.ports()[1]["queued"]:
            time.sleep(0.01)
        control.command("set_queue_delay 0 1")
        sockets[1].recv(4096)
        assert control.ports()[1]["queue_drops"] == 0
        switch.stop(deleteIntfs=False)

    isolated_test(body)
