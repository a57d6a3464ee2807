"""Registers and counters as the control plane reads and writes them, groups that change, and what reset_state resets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.scenarios import ETHERNET

FORM = struct.Struct(">BBBqBB")


@pytest.fixture
def state() -> Iterator[OfflineSwitch]:
    """tests/programs/state.p4, built with sanitizers; it must end without a leak."""
    with OfflineSwitch(build(Path("tests/programs/state.p4"), sanitize=True)) as made:
        yield made
    assert made.process.returncode == 0


def packet(op: int, cell: int, tail: int = 0) -> bytes:
    return ETHERNET + FORM.pack(op, cell, 0, 0, 0, 0) + bytes(tail)


def read(switch: OfflineSwitch, op: int, cell: int) -> tuple[int, int]:
    """What the program reads in a cell, widened to 64 bits, and whether it takes that for negative."""
    ((_, data),) = switch.send(0, packet(op, cell))
    _, _, negative, wide, _, _ = FORM.unpack(data[14:])
    return wide, negative


@pytest.mark.parametrize(
    ("name", "op", "written", "shown", "seen"),
    [
        ("s8", 8, "-5", 251, -5),
        ("s8", 8, "251", 251, -5),
        ("s8", 8, "127", 127, 127),
        ("s8", 8, "-128", 128, -128),
        ("s8", 8, "0x80", 128, -128),
        ("s33", 33, "-1", 2**33 - 1, -1),
        ("s33", 33, str(2**32), 2**32, -(2**32)),
        ("s33", 33, str(2**32 - 1), 2**32 - 1, 2**32 - 1),
        ("s33", 33, str(-(2**32)), 2**32, -(2**32)),
        ("u12", 12, "4095", 4095, 4095),
        ("u12", 12, "-1", 4095, 4095),
    ],
)
def test_a_cell_is_what_was_written(state: OfflineSwitch, name: str, op: int, written: str, shown: int, seen: int) -> None:
    state.command(f"register_write {name} 1 {written}")
    assert state.register(name, 1) == shown
    assert state.registers(name)[:3] == [0, shown, 0]
    assert read(state, op, 1) == (seen, int(seen < 0))
    assert read(state, op, 0) == read(state, op, 2) == (0, 0)


@pytest.mark.parametrize(
    "line",
    ["register_write s8 1 256", "register_write s8 3 1", "register_write s8 -1 1", "register_write u12 0 4096", "register_write s8 0 x",
     "register_write s8 0 --1", "register_write s8 0", "register_read s8 3", "register_write s33 0 8589934592", "register_read 8 0",
     "register_write own 0 1", "register_read own 0", "register_reset own", "counter_read seen 4", "counter_read een 0",
     "counter_reset nosuch", "register_write s8 0 -129", "register_write s33 0 -4294967297"],
)  # fmt: skip
def test_what_does_not_fit_is_refused(state: OfflineSwitch, line: str) -> None:
    with pytest.raises(ControlError):
        state.command(line)
    assert state.registers("s8") == [0, 0, 0]
    assert state.registers("s33") == [0, 0, 0]
    assert state.registers("u12") == [0] * 5


def test_names_are_found_by_what_is_behind_a_dot(state: OfflineSwitch) -> None:
    state.command("register_write a.own 0 7")
    state.command("register_write Work.b.own 1 9")
    assert state.registers("a.own") == [7, 0]
    assert state.registers("b.own") == [0, 9]
    with pytest.raises(ControlError, match=r"own is ambiguous: Work\.a\.own or Work\.b\.own"):
        state.command("register_read own")
    ((_, data),) = state.send(0, packet(1, 0))
    assert FORM.unpack(data[14:])[4:] == (7, 0)


def test_a_register_is_reset_alone(state: OfflineSwitch) -> None:
    state.command("register_write s8 2 -1")
    state.command("register_write s33 2 -1")
    state.command("register_reset s8")
    assert state.registers("s8") == [0, 0, 0]
    assert state.register("s33", 2) == 2**33 - 1


def test_every_cell_of_a_counter_counts_its_own(state: OfflineSwitch) -> None:
    for cell in (0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 255):
        state.send(0, packet(0, cell, tail=cell))
    assert [state.counter("seen", cell) for cell in range(4)] == [1, 2, 3, 4]
    size = len(packet(0, 0))
    assert state.command("counter_read seen 3") == f"seen[3]= BmCounterValue(packets=4, bytes={4 * (size + 3)})\n"
    state.send(0, packet(12, 1))
    assert [state.counter("others", cell) for cell in range(2)] == [0, 1]
    state.command("counter_reset seen")
    assert state.command("counter_read seen 3") == "seen[3]= BmCounterValue(packets=0, bytes=0)\n"
    assert state.counter("others", 1) == 1


def test_reset_state_leaves_no_register_or_counter(state: OfflineSwitch) -> None:
    for name in ("s8", "s33", "u12", "a.own", "b.own"):
        state.command(f"register_write {name} 1 1")
    for cell in range(4):
        state.send(0, packet(12, cell))
    state.command("reset_state")
    assert [state.register(name, 1) for name in ("s8", "s33", "u12", "a.own", "b.own")] == [0] * 5
    assert [state.counter("seen", cell) for cell in range(4)] == [0] * 4
    assert [state.counter("others", cell) for cell in range(2)] == [0] * 2


REPLICATION = struct.Struct(">BBBBHHBB")
SPREAD, CLONE_INGRESS, CLONE_TO_GROUP = 1, 2, 13


@pytest.fixture
def groups() -> Iterator[OfflineSwitch]:
    """tests/programs/replication.p4 on 511 ports, with group 5 of two nodes: replication ids 11 (ports 1, 3) and 12 (port 2)."""
    with OfflineSwitch(build(Path("tests/programs/replication.p4"), sanitize=True), ports=511) as made:
        for line in (
            "mc_mgrp_create 5",
            "mc_node_create 11 1 3",
            "mc_node_create 12 2",
            "mc_node_associate 5 0",
            "mc_node_associate 5 1",
        ):
            made.command(line)
        yield made
    assert made.process.returncode == 0


def copies(switch: OfflineSwitch, op: int) -> list[tuple[int, int]]:
    """Ports and replication ids of what leaves for a packet, in order of the ports."""
    sent = switch.send(0, ETHERNET + REPLICATION.pack(op, 0, 0, 0, 0, 0, 0, 0))
    return sorted((port, REPLICATION.unpack(data[14:])[4]) for port, data in sent)


def test_a_node_that_is_updated_keeps_its_id_and_groups(groups: OfflineSwitch) -> None:
    assert copies(groups, SPREAD) == [(1, 11), (2, 12), (3, 11)]
    groups.command("mc_mgrp_create 6")
    groups.command("mc_node_associate 6 0")
    groups.command("mirroring_add_mc 101 6")
    groups.command("mc_node_update 0 4 5 6")
    assert copies(groups, SPREAD) == [(2, 12), (4, 11), (5, 11), (6, 11)]
    assert copies(groups, CLONE_TO_GROUP) == [(3, 0), (4, 11), (5, 11), (6, 11)]
    for wrong in (
        "mc_node_update 0 7 7",
        "mc_node_update 0 511",
        "mc_node_update 2 1",
        "mc_node_update 0 1 | 2",
        "mc_node_update x 1",
    ):
        with pytest.raises(ControlError):
            groups.command(wrong)
    assert copies(groups, SPREAD) == [(2, 12), (4, 11), (5, 11), (6, 11)]
    groups.command("mc_node_update 0")
    assert copies(groups, SPREAD) == [(2, 12)]
    assert "L1h=0, rid=11) -> (ports=[])" in groups.command("mc_dump")


def test_nodes_leave_a_group_by_name_or_with_their_end(groups: OfflineSwitch) -> None:
    groups.command("mc_node_dissociate 5 0")
    assert copies(groups, SPREAD) == [(2, 12)]
    for wrong in (
        "mc_node_dissociate 5 0",
        "mc_node_associate 5 1",
        "mc_node_associate 7 0",
        "mc_node_associate 5 9",
        "mc_mgrp_create 5",
    ):
        with pytest.raises(ControlError):
            groups.command(wrong)
    groups.command("mc_node_associate 5 0")
    groups.command("mc_node_destroy 1")
    assert copies(groups, SPREAD) == [(1, 11), (3, 11)]
    with pytest.raises(ControlError, match="there is no multicast node 1"):
        groups.command("mc_node_update 1 1")
    assert groups.command("mc_node_create 13 8").endswith("handle 2\n")
    groups.command("mc_mgrp_destroy 5")
    assert copies(groups, SPREAD) == []


def test_a_group_of_all_ports(groups: OfflineSwitch) -> None:
    groups.command(f"mc_node_update 0 {' '.join(map(str, range(511)))}")
    assert copies(groups, SPREAD) == sorted([*((port, 11) for port in range(511)), (2, 12)])
    counted = groups.ports()
    assert len(counted) == 511
    assert [counted[port]["sent"] for port in (0, 2, 63, 64, 255, 256, 510)] == [1, 2, 1, 1, 1, 1, 1]


def test_sessions_are_added_replaced_and_deleted(groups: OfflineSwitch) -> None:
    assert copies(groups, CLONE_INGRESS) == [(1, 0)]
    groups.command("mirroring_add 100 300")
    assert copies(groups, CLONE_INGRESS) == [(1, 0), (300, 0)]
    groups.command("mirroring_add 100 301")
    assert copies(groups, CLONE_INGRESS) == [(1, 0), (301, 0)]
    groups.command("mirroring_add_mc 100 5")
    assert copies(groups, CLONE_INGRESS) == [(1, 0), (1, 11), (2, 12), (3, 11)]
    groups.command("reset_state")  # as on BMv2, sessions stay, and the groups they name do not
    assert copies(groups, CLONE_INGRESS) == [(1, 0)]
    groups.command("mirroring_add 100 2")
    groups.command("mirroring_delete 100")
    assert copies(groups, CLONE_INGRESS) == [(1, 0)]
    for wrong in ("mirroring_delete 100", "mirroring_add 32768 1", "mirroring_add 1 511", "mirroring_add_mc 1 65536"):
        with pytest.raises(ControlError):
            groups.command(wrong)


def test_reset_state_empties_groups_and_begins_handles_anew(groups: OfflineSwitch) -> None:
    groups.command("reset_state")
    assert copies(groups, SPREAD) == []
    assert groups.command("mc_dump") == ""
    groups.command("mc_mgrp_create 5")
    assert groups.command("mc_node_create 4 9").endswith("handle 0\n")
    groups.command("mc_node_associate 5 0")
    assert copies(groups, SPREAD) == [(9, 4)]


CORNERS = struct.Struct(">BBBBBBH16sI")


def test_packets_beyond_the_longest_are_dropped_and_counted() -> None:
    with OfflineSwitch(build(Path("tests/programs/corners.p4"), sanitize=True)) as switch:
        plain, longer = (ETHERNET + CORNERS.pack(op, 0, 0, 0, 0, 0, 0, bytes(16), 0) for op in (0, 1))
        grown = len(switch.send(0, longer)[0][1]) - len(longer)
        assert grown > 0
        for head, most in ((plain, 10240), (longer, 10240 - grown)):
            ((_, data),) = switch.send(0, head.ljust(most, b"x"))
            assert len(data) == 10240
            assert data.endswith(b"xxx")
        assert switch.send(0, plain.ljust(10241, b"x")) == []
        assert switch.ports()[0]["oversize"] == 1  # at the port where it came in
        assert switch.send(0, longer.ljust(10240 - grown + 1, b"x")) == []
        assert switch.ports()[1]["oversize"] == 1  # at the port where it would have left
    assert switch.process.returncode == 0
