"""The embedded switch's commands: what entries, registers, counters and groups are after each, and which are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.scenarios import ETHERNET, PROGRAMS

TABLES = struct.Struct(">IHHBBBB")  # the probes of tests/programs/NAME.p4
QUEUES = struct.Struct(">BIIIH")
PORTS = struct.Struct(">BBHBBHH")
STATE = struct.Struct(">BBI")
STATE_PROGRAM = """
#define PROBE_FIELDS bit<8> cell; bit<8> negative; bit<32> sum;
#include "frame.p4"
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<int<12>>(4) held;
    counter(4, CounterType.packets_and_bytes) seen;
    apply {
        int<12> v;
        bit<32> cell = (bit<32>)hdr.probe.cell;
        standard.egress_spec = 1;
        seen.count(cell);
        held.read(v, cell);
        if (v < 0) { hdr.probe.negative = 1; }
        hdr.probe.sum = (bit<32>)((int<32>)v |+| (int<32>)hdr.probe.sum);
    }
}
NO_EGRESS
PACKAGE
"""


def ports(sent: list[tuple[int, bytes]]) -> list[int]:
    return [port for port, _ in sent]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a signed register and a counter."""
    source = tmp_path_factory.mktemp("program") / "state.p4"
    source.write_text(STATE_PROGRAM)
    return build(source, include_dirs=[PROGRAMS])


def test_of_two_entries_with_one_priority_the_first_added_wins() -> None:
    with OfflineSwitch(build(PROGRAMS / "tables.p4")) as switch:
        for result, priority in ((1, 20), (2, 10), (3, 10), (4, 30)):
            switch.command(f"table_add by_mask set_second 0&&&{1 << result} 0&&&0 => {result} 0 {priority}")
        ((_, data),) = switch.send(0, ETHERNET + TABLES.pack(0, 0, 0, 0, 0, 0, 0))
        assert TABLES.unpack(data[14:])[4] == 2


def test_a_table_holds_as_many_entries_as_its_size() -> None:
    with OfflineSwitch(build(PROGRAMS / "queues.p4")) as switch:
        for key in range(4):
            switch.command(f"table_add by_op to {key} => 2")
        assert switch.command("table_num_entries by_op") == "4\n"
        with pytest.raises(ControlError, match=r"table .*by_op is full: its size is 4"):
            switch.command("table_add by_op to 9 => 2")
        switch.command("table_delete by_op 1")
        assert switch.command("table_num_entries by_op") == "3\n"
        switch.command("table_add by_op to 9 => 5")
        assert ports(switch.send(0, ETHERNET + QUEUES.pack(9, 0, 0, 0, 0))) == [5]
        assert ports(switch.send(0, ETHERNET + QUEUES.pack(1, 0, 0, 0, 0))) == [1]
        switch.command("table_clear by_op")
        assert switch.command("table_num_entries by_op") == "0\n"


def test_reset_state_brings_back_what_the_program_says(state: Path) -> None:
    with OfflineSwitch(build(PROGRAMS / "queues.p4")) as switch:
        switch.command("table_set_default by_op to 6")
        switch.command("table_add by_op to 1 => 2")
        assert ports(switch.send(0, ETHERNET + QUEUES.pack(0, 0, 0, 0, 0))) == [6]
        switch.command("reset_state")
        assert [ports(switch.send(0, ETHERNET + QUEUES.pack(op, 0, 0, 0, 0))) for op in (0, 1)] == [[1], [1]]
    with OfflineSwitch(state) as switch:
        switch.command("register_write held 2 5")
        switch.send(0, ETHERNET + STATE.pack(2, 0, 0))
        switch.command("reset_state")
        assert switch.registers("held") == [0, 0, 0, 0]
        assert switch.counter("seen", 2) == 0


def test_each_cell_of_a_counter_counts_for_itself(state: Path) -> None:
    with OfflineSwitch(state) as switch:
        for cell in (1, 3, 3, 4):  # the counter has no cell 4
            switch.send(0, ETHERNET + STATE.pack(cell, 0, 0))
        length = len(ETHERNET) + STATE.size
        assert [switch.counter("seen", cell) for cell in range(4)] == [0, 1, 0, 2]
        assert switch.command("counter_read seen 3") == f"seen[3]= BmCounterValue(packets=2, bytes={2 * length})\n"
        with pytest.raises(ControlError, match="4 is not a cell"):
            switch.command("counter_read seen 4")


@pytest.mark.parametrize(("written", "value"), [("-1", -1), ("0x800", -2048), ("0x7ff", 2047), ("4095", -1), ("0", 0)])
def test_a_signed_register_is_signed_to_the_program(state: Path, written: str, value: int) -> None:
    with OfflineSwitch(state) as switch:
        switch.command(f"register_write held 1 {written}")
        assert switch.register("held", 1) == value % 2**12
        ((_, data),) = switch.send(0, ETHERNET + STATE.pack(1, 0, 10))
        _, negative, total = STATE.unpack(data[14:])
        assert (negative, total) == (value < 0, (value + 10) % 2**32)


@pytest.mark.parametrize(("base", "end"), [(-1, -(2**31)), (1, 2**31 - 1)])
def test_signed_sums_reach_both_ends_and_stay_there(state: Path, base: int, end: int) -> None:
    with OfflineSwitch(state) as switch:
        switch.command(f"register_write held 0 {base}")
        for near in (end - base, end):
            ((_, data),) = switch.send(0, ETHERNET + STATE.pack(0, 0, near % 2**32))
            assert STATE.unpack(data[14:])[2] == end % 2**32


def test_a_group_follows_its_nodes() -> None:
    flood = ETHERNET + PORTS.pack(5, 0, 1, 0, 0, 0, 9)
    with OfflineSwitch(build(PROGRAMS / "ports.p4")) as switch:
        for line in (
            "mc_mgrp_create 9",
            "mc_node_create 1 2 3",
            "mc_node_create 2 4",
            "mc_node_associate 9 0",
            "mc_node_associate 9 1",
        ):
            switch.command(line)
        assert ports(switch.send(0, flood)) == [2, 3, 4]
        switch.command("mc_node_update 0 5 6 7")
        assert ports(switch.send(0, flood)) == [5, 6, 7, 4]
        switch.command("mc_node_destroy 1")
        assert ports(switch.send(0, flood)) == [5, 6, 7]
        assert switch.command("mc_dump") == "mgrp(9)\n  -> (L1h=0, rid=1) -> (ports=[5, 6, 7])\n"
        switch.command("mc_node_dissociate 9 0")
        assert switch.send(0, flood) == []
        with pytest.raises(ControlError, match="there is no multicast node 1"):
            switch.command("mc_node_associate 9 1")


def test_comments_and_empty_lines_are_no_commands(state: Path) -> None:
    with OfflineSwitch(state) as switch:
        for line in ("", "   ", "# register_write held 0 7", "register_write held 0 3 # not 4"):
            assert switch.command(line) == ""
        assert switch.register("held", 0) == 3
