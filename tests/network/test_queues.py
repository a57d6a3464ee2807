"""Egress queues of the running switch: a depth that drops, a rate that delays, and metadata that tells of both."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from switches.embedded.target import EmbeddedTarget
from switches.target import on_interfaces, tell
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
        begun, seen = time.monotonic(), []
        for _ in range(passed):
            seen.append(PROBE.unpack(sockets[1].recv(4096)[14:]))
        took = time.monotonic() - begun
        sockets[1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            sockets[1].recv(4096)
        assert took == pytest.approx((passed - 1) / rate, rel=0.3)
        assert [enq for _, enq, _, _, _ in seen] == [0, *range(passed - 1)]
        assert [deq for _, _, deq, _, _ in seen[1:]] == list(range(passed - 2, -1, -1))
        assert seen[-1][3] == pytest.approx(1e6 * (passed - 1) / rate, rel=0.3)  # microseconds in the queue
        assert control.ports()[1]["queue_drops"] == sent - passed
        switch.stop(deleteIntfs=False)

    isolated_test(body)
