"""Egress queues offline: depths, rates and delays that change while packets wait, with a check for leaks at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.unit.test_runtime import PROBE, QUEUES, probe

MINUTE = 60_000_000  # microseconds; as long as the switch takes


@pytest.fixture
def switch() -> Iterator[OfflineSwitch]:
    """The program that tells of its queue, built with sanitizers; it must end without a leak."""
    with OfflineSwitch(build(QUEUES, sanitize=True)) as made:
        yield made
    assert made.process.returncode == 0


def depths(packets: list[tuple[int, bytes]]) -> list[int]:
    return [PROBE.unpack(data[14:])[1] for _, data in packets]


def test_what_waits_on_a_link_is_delivered_when_its_delay_ends(switch: OfflineSwitch) -> None:
    switch.command(f"set_queue_delay {MINUTE} 1")
    for _ in range(100):  # more than a queue holds: on the link there is room for 4096
        assert switch.send(0, probe(0)) == []
    assert switch.ports()[1]["queued"] == 100
    switch.command("set_queue_delay 0 1")
    assert len(switch.send(0, probe(0))) == 101
    assert switch.ports()[1] == {**switch.ports()[1], "sent": 101, "queued": 0, "queue_drops": 0}


def test_a_delay_holds_and_ends(switch: OfflineSwitch) -> None:
    switch.command("set_queue_delay 50000 1")
    begun = time.monotonic()
    assert switch.send(0, probe(0)) == []
    out: list[tuple[int, bytes]] = []
    switch.command("table_add by_op to 1 => 2")
    while not out:
        out = [packet for packet in switch.send(0, probe(1)) if packet[0] == 1]
        time.sleep(0.001)
    assert time.monotonic() - begun >= 0.05


def test_a_shorter_delay_holds_for_what_waits(switch: OfflineSwitch) -> None:
    switch.command(f"set_queue_delay {MINUTE} 1")
    switch.send(0, probe(0))
    switch.command("set_queue_delay 1000 1")
    time.sleep(0.002)
    assert len(switch.send(7, probe(0))) == 1


def test_a_queue_that_waits_for_its_rate_keeps_its_packets(switch: OfflineSwitch) -> None:
    switch.command("set_queue_rate 1 1")
    out = [switch.send(0, probe(0)) for _ in range(10)]
    assert [len(sent) for sent in out] == [1, *[0] * 9]
    switch.command("set_queue_depth 4 1")  # shorter than what waits: nothing of it is lost
    assert switch.send(0, probe(0)) == []
    assert switch.ports()[1] == {**switch.ports()[1], "queued": 9, "queue_drops": 1}
    switch.command("set_queue_depth 11 1")
    assert switch.send(0, probe(0)) == []
    assert switch.ports()[1] == {**switch.ports()[1], "queued": 10, "queue_drops": 1}


def test_depth_is_set_again_and_again_on_a_delayed_port(switch: OfflineSwitch) -> None:
    switch.command(f"set_queue_delay {MINUTE}")
    for turn in range(300):
        switch.command(f"set_queue_depth {turn * 37 % 129} 1")
        switch.send(0, probe(0))
    refused = switch.ports()[1]["queue_drops"]
    assert refused == sum(turn * 37 % 129 == 0 for turn in range(300))
    switch.command("set_queue_delay 0")
    assert len(switch.send(0, probe(0))) == 300 - refused + 1


def test_a_link_has_room_for_4096(switch: OfflineSwitch) -> None:
    switch.command(f"set_queue_delay {MINUTE} 1")
    switch.batch([(0, probe(0))] * 4100)
    shown = switch.ports()[1]
    assert (shown["queued"], shown["queue_drops"]) == (4096, 4)


def test_a_queue_without_depth_takes_nothing(switch: OfflineSwitch) -> None:
    switch.command("set_queue_depth 0 1")
    assert switch.send(0, probe(0)) == []
    assert switch.ports()[1]["queue_drops"] == 1
    switch.command("set_queue_depth 1 1")
    assert depths(switch.send(0, probe(0))) == [0]


def test_settings_of_one_port_leave_the_others(switch: OfflineSwitch) -> None:
    switch.command("table_add by_op to 1 => 2")
    switch.command("set_queue_depth 0 2")
    assert switch.send(0, probe(1)) == []
    assert len(switch.send(0, probe(0))) == 1
    switch.command("set_queue_depth 0")
    assert switch.send(0, probe(0)) == []


@pytest.mark.parametrize(
    "line",
    ["set_queue_depth -1", "set_queue_depth 1048577", f"set_queue_delay {MINUTE + 1}", "set_queue_rate 1000000001", "set_queue_rate 1 511",
     "set_queue_rate", "set_queue_rate 1 2 3"],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(switch: OfflineSwitch, line: str) -> None:
    with pytest.raises(ControlError):
        switch.command(line)
    assert len(switch.send(0, probe(0))) == 1


def test_packets_that_still_wait_at_the_end_are_no_leak(switch: OfflineSwitch) -> None:
    switch.command(f"set_queue_delay {MINUTE}")
    switch.batch([(0, probe(0))] * 200)


def test_the_build_under_test_has_the_sanitizers() -> None:
    assert b"__asan_init" in build(QUEUES, sanitize=True).read_bytes()
    assert b"__asan_init" not in build(QUEUES).read_bytes()
