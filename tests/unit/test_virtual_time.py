"""Processes that live by a clock of their own, and switches that take theirs from outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from inalab.hosts.drivers.virtual_time import FOR_EVER, START, Event, StuckError, VirtualTime
from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import LoadedSwitch, OfflineSwitch
from inalab.switches.forwarding import Station
from inalab.testbed.virtual.frames import headers, received

MIRROR = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> value; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    register<bit<8>>(1) last;
    apply { bit<8> was; last.read(was, 0); last.write(0, h.h.value); h.h.value = was; s.egress_spec = 1; }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_processes_run_in_the_order_of_their_moments_and_then_of_their_plans() -> None:
    time, seen = VirtualTime(), list[tuple[str, float]]()

    def sleeper(name: str, seconds: float) -> None:
        for _ in range(2):
            time.sleep(seconds)
            seen.append((name, time.now - START))

    for name, seconds in (("a", 2.0), ("b", 1.0), ("c", 2.0)):
        time.start(lambda name=name, seconds=seconds: sleeper(name, seconds))  # type: ignore[misc]
    time.run(until=lambda: len(seen) == 6)
    assert seen == [("b", 1), ("a", 2), ("c", 2), ("b", 2), ("a", 4), ("c", 4)]


def test_an_event_ends_the_waits_for_it_and_a_wait_ends_with_its_time() -> None:
    time, seen = VirtualTime(), list[object]()
    event = Event(time)
    time.start(lambda: seen.append((event.wait(1.0), time.now - START)))
    time.start(lambda: seen.append((event.wait(), time.now - START)))
    time.after(3.0, event.set)
    time.run(until=lambda: len(seen) == 2)
    assert seen == [(False, 1.0), (True, 3.0)] and event.is_set()


def test_a_wake_up_for_an_earlier_wait_is_void() -> None:
    time, woken = VirtualTime(), list[float]()

    def waits() -> None:
        wake = time.waker()
        time.after(2.0, wake)
        time.wait_until(START + 1)
        time.wait_until(START + 5)
        woken.append(time.now - START)

    time.start(waits)
    time.run(until=lambda: bool(woken))
    assert woken == [5.0]


def test_what_a_process_raises_is_raised_and_nothing_to_wait_for_is_an_error() -> None:
    time = VirtualTime()
    time.start(lambda: time.wait_until(FOR_EVER))
    with pytest.raises(StuckError, match="all processes wait for ever"):
        time.run(until=lambda: False)
    time.start(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        time.run(until=lambda: False)


def test_processes_that_wait_end_with_the_time() -> None:
    time, ended = VirtualTime(), list[str]()

    def waits() -> None:
        try:
            time.sleep(1.0)
        finally:
            ended.append("cleaned up")

    time.start(waits)
    time.after(0.5, lambda: None)
    time.run(until=lambda: time.now > START)
    time.end()
    assert ended == ["cleaned up"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("mirror") / "mirror.p4"
    source.write_text(MIRROR)
    return source


def test_a_loaded_switch_does_what_a_running_one_does_and_each_has_a_state_of_its_own(program: Path) -> None:
    first, second = (LoadedSwitch(build(program, library=True)) for _ in range(2))
    with OfflineSwitch(build(program)) as running:
        for value in (5, 6, 7):
            packet = bytes([value, 1, 2])
            assert first.send(0, packet) == running.send(0, packet)
        assert second.send(0, b"\x09") == [(1, b"\x00")]
        assert first.registers("last") == running.registers("last") == [7]
        assert first.ports()[1] == running.ports()[1]


def test_queues_with_rates_send_by_the_clock_that_is_set(program: Path) -> None:
    made = LoadedSwitch(build(program, library=True))
    made.at(0)
    made.command("set_queue_rate 1000 1")
    made.command("set_queue_depth 2 1")
    arriving = [(0, bytes([value])) for value in (1, 2, 3, 4)]
    sent, due = made.at(1_000_000, *arriving)
    assert sent == [(1, b"\x00")] and due == 2_000_000  # two wait, and the queue has no room for the fourth
    assert made.at(1_999_999) == ([], 2_000_000)
    assert made.at(2_000_000) == ([(1, b"\x01")], 3_000_000)
    assert made.at(3_000_000) == ([(1, b"\x02")], None)
    assert made.ports()[1]["queue_drops"] == 1


def test_a_loaded_switch_takes_no_more_than_a_packet_at_a_time(program: Path) -> None:
    made = LoadedSwitch(build(program, library=True), [0, 1])
    with pytest.raises(ControlError, match="longer than a switch takes"):
        made.at(1000, (0, bytes(1 << 20)))
    assert made.send(5, b"\x01") == []  # which is no port
    assert set(made.ports()) == {0, 1}


# --- frames, as a host's kernel takes them


SENDER, HOST = Station("02:00:00:00:00:01", "10.0.0.1"), Station("02:00:00:00:00:02", "10.0.0.2")


def frame_of(data: bytes = b"payload!") -> bytearray:
    return bytearray(headers(SENDER, 5000, HOST, 6000, len(data)) + data)


def test_a_datagram_comes_as_it_was_sent_and_scapy_agrees() -> None:
    frame = bytes(frame_of())
    assert received(frame, HOST) == (b"payload!", ("10.0.0.1", 5000), 6000)
    assert received(frame + bytes(9), HOST) == (b"payload!", ("10.0.0.1", 5000), 6000)  # Ethernet may pad
    packet = Ether(src=SENDER.mac, dst=HOST.mac) / IP(src=SENDER.ip, dst=HOST.ip, id=0, flags="DF") / UDP(sport=5000, dport=6000)
    assert received(bytes(packet / b"payload"), HOST) == (b"payload", ("10.0.0.1", 5000), 6000)  # with a checksum
    del packet[UDP].chksum
    assert bytes(packet / b"payload!")[:40] == frame[:40]


@pytest.mark.parametrize(
    ("offset", "value"),
    [(5, 9), (12, 9), (14, 0x46), (17, 200), (20, 0x20), (23, 6), (25, 9), (33, 9), (38, 9), (39, 99), (41, 9)],
    ids=[
        "MAC",
        "type",
        "options",
        "total length",
        "fragment",
        "protocol",
        "checksum",
        "IP",
        "length",
        "UDP length",
        "UDP checksum",
    ],
)
def test_a_frame_that_a_kernel_drops_does_not_come(offset: int, value: int) -> None:
    frame = frame_of()
    frame[offset] = value
    assert received(bytes(frame), HOST) is None
    assert received(bytes(frame_of())[:30], HOST) is None
