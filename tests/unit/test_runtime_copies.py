"""What one packet may cause: clones of clones, resubmissions and recirculations without end, and their bound."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.scenarios import ETHERNET

ENDLESS = Path("tests/programs/endless.p4")
RESUBMITTED, RECIRCULATED, CLONED, MULTICAST_CLONED, CLONED_TO_GROUP, CLONED_AT_INGRESS = range(1, 7)
GROUPS = [
    "mirroring_add 100 1", "mc_mgrp_create 5", "mc_node_create 1 1 2 3", "mc_node_associate 5 0", "mirroring_add_mc 101 5",
]  # fmt: skip


def endless(op: int, left: int = 0) -> bytes:
    """A packet that begins anew 65535 times, or `left` - 1 times."""
    return ETHERNET + struct.pack(">BH", op, left)


def switch(most_copies: int | None = None) -> OfflineSwitch:
    made = OfflineSwitch(build(ENDLESS, sanitize=True), most_copies=most_copies)
    for line in GROUPS:
        made.command(line)
    return made


def counters(made: OfflineSwitch) -> dict[str, str]:
    return dict(word.split("=") for word in made.command("show_copies").split())


@pytest.mark.parametrize(
    ("op", "sent"),
    [
        (RESUBMITTED, 0),  # the last is resubmitted, and refused
        (RECIRCULATED, 0),
        (CLONED, 101),
        (MULTICAST_CLONED, 103),
        (CLONED_TO_GROUP, 101),
    ],
)
def test_a_packet_causes_no_more_than_the_bound(op: int, sent: int) -> None:
    with switch(most_copies=100) as made:
        for turn in range(1, 3):
            assert len(made.send(0, endless(op))) == sent
            shown = counters(made)
            assert shown["most_copies"] == "100"
            assert int(shown["refused"]) >= turn
            assert shown["input_drops"] == "0"
        assert all(port["queued"] == 0 for port in made.ports().values())


@pytest.mark.parametrize("op", [RESUBMITTED, RECIRCULATED, CLONED])
def test_as_many_as_the_bound_are_allowed(op: int) -> None:
    with switch(most_copies=100) as made:
        made.send(0, endless(op, 101))  # begins anew 100 times
        assert counters(made)["refused"] == "0"
        made.send(0, endless(op, 102))
        assert counters(made)["refused"] == "1"


def test_no_copies_at_all() -> None:
    with switch(most_copies=0) as made:
        assert [port for port, _ in made.send(0, endless(CLONED_AT_INGRESS, 1))] == [1]
        assert made.send(0, endless(RESUBMITTED)) == []
        assert counters(made)["refused"] == "2"


def test_the_offline_switch_ends_by_default() -> None:
    with switch() as made:
        for op in (RESUBMITTED, RECIRCULATED, CLONED, MULTICAST_CLONED, CLONED_TO_GROUP):
            made.send(0, endless(op))
        assert counters(made)["most_copies"] == "4096"
        assert [port for port, _ in made.send(0, endless(CLONED_AT_INGRESS, 1))] == [1, 1]


def test_clones_between_many_ports_keep_the_queues_whole() -> None:
    """Queues become empty and active again, many times while they are drained."""
    with OfflineSwitch(build(ENDLESS, sanitize=True), ports=300, most_copies=5000) as made:
        ports = " ".join(map(str, range(300)))
        for line in ("mc_mgrp_create 5", f"mc_node_create 1 {ports}", "mc_node_associate 5 0", "mirroring_add_mc 101 5"):
            made.command(line)
        out = made.send(0, endless(CLONED_TO_GROUP))
        dropped = sum(port["queue_drops"] for port in made.ports().values())
        assert len(out) + dropped == 5001
        assert {port for port, _ in out} == set(range(300))


def test_a_reached_bound_is_written_once(tmp_path: Path) -> None:
    records = b"".join(struct.pack(">HI", 0, len(p)) + p for p in [endless(RESUBMITTED)] * 3)
    command = [build(ENDLESS, sanitize=True), "--offline", "2", "--most-copies", "7"]
    done = subprocess.run(command, input=records, capture_output=True, check=True)
    assert done.stderr.decode().count("--most-copies") == 1
    assert b"7 clones, resubmissions and recirculations" in done.stderr


@pytest.mark.parametrize("words", [["--most-copies", "-1"], ["--most-copies", "many"], ["--most-copies"]])
def test_a_bound_that_is_no_number_is_refused(words: list[str]) -> None:
    done = subprocess.run([build(ENDLESS), "--offline", "2", *words], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2


def test_a_batch_takes_packets_and_commands_in_order() -> None:
    with switch() as made:
        records = [(0, endless(CLONED_AT_INGRESS, 1)), (0xFFF0, b"mirroring_delete 100"), (0, endless(CLONED_AT_INGRESS, 1))] * 3000
        results = made.batch([*records, (0xFFF0, b"nosuch"), (600, b"no such port")])
        assert [len(r) for r in results[:3]] == [2, 1, 1]
        assert [len(r) for r in results[3:6]] == [1, 1, 1]
        assert results[-2][0][0] == 0xFFF2
        assert results[-1] == []
        assert made.ports()[0]["received"] == 6000


def test_a_batch_tells_of_a_switch_that_has_ended() -> None:
    made = switch()
    made.process.kill()
    with pytest.raises(ControlError, match="ended"):
        made.batch([(0, bytes(1000))] * 1000)
    made.close()
