"""Commands by their names: those of simple_switch_CLI are there, or the answer says what does instead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.switches.control import CommandError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.unit.test_runtime import QUEUES

PROGRAMS = Path("tests/programs")

# of BMv2 1.15.0, with its sswitch_CLI
THEIRS = [
    "act_prof_add_member_to_group",
    "act_prof_create_group",
    "act_prof_create_member",
    "act_prof_delete_group",
    "act_prof_delete_member",
    "act_prof_dump",
    "act_prof_dump_group",
    "act_prof_dump_member",
    "act_prof_modify_member",
    "act_prof_remove_member_from_group",
    "counter_read",
    "counter_reset",
    "counter_write",
    "get_time_elapsed",
    "get_time_since_epoch",
    "help",
    "load_new_config_file",
    "mc_dump",
    "mc_mgrp_create",
    "mc_mgrp_destroy",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_destroy",
    "mc_node_dissociate",
    "mc_node_update",
    "mc_set_lag_membership",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "port_add",
    "port_remove",
    "pvs_add",
    "pvs_clear",
    "pvs_get",
    "pvs_remove",
    "register_read",
    "register_reset",
    "register_write",
    "reset_state",
    "serialize_state",
    "set_crc16_parameters",
    "set_crc32_parameters",
    "set_queue_depth",
    "set_queue_rate",
    "shell",
    "show_actions",
    "show_ports",
    "show_pvs",
    "show_tables",
    "swap_configs",
    "switch_info",
    "table_add",
    "table_clear",
    "table_delete",
    "table_dump",
    "table_dump_entry",
    "table_dump_entry_from_key",
    "table_dump_group",
    "table_dump_member",
    "table_indirect_add",
    "table_indirect_add_with_group",
    "table_indirect_delete",
    "table_indirect_set_default",
    "table_indirect_set_default_with_group",
    "table_info",
    "table_modify",
    "table_num_entries",
    "table_reset_default",
    "table_set_default",
    "table_set_timeout",
    "table_show_actions",
    "write_config_to_file",
]


def switch(program: str) -> OfflineSwitch:
    return OfflineSwitch(build(PROGRAMS / f"{program}.p4", sanitize=True))


@pytest.fixture(name="tables")
def of_tables() -> Iterator[OfflineSwitch]:
    with switch("tables") as made:
        yield made
    assert made.process.returncode == 0


def refused(made: OfflineSwitch, command: str) -> str:
    with pytest.raises(CommandError) as caught:
        made.command(command)
    return str(caught.value)


def test_all_of_theirs_are_there_or_the_answer_says_what_does_instead(tables: OfflineSwitch) -> None:
    ours = {line.split()[0] for line in tables.command("help").splitlines()}
    instead = {name: refused(tables, name) for name in THEIRS if name not in ours}
    assert all(why.startswith(f"there is no command {name} here: ") for name, why in instead.items())
    assert len(instead) == 10 and "-i PORT@INTERFACE" in instead["port_add"]


def test_help_says_how_a_command_is_used(tables: OfflineSwitch) -> None:
    assert tables.command("help table_add") == "table_add TABLE ACTION KEY... => DATA... [PRIORITY]\n"
    assert refused(tables, "help wibble") == "there is no command wibble: help lists all"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("table_ad", "table_add"), ("tables_info", "table_info"), ("showtables", "show_tables"), ("regster_read", "register_read")],
)
def test_what_is_nearly_right_is_suggested(tables: OfflineSwitch, given: str, meant: str) -> None:
    assert refused(tables, f"{given} a b") == f"there is no command {given}: do you mean {meant}? (help lists all)"


@pytest.mark.parametrize("name", ["x", "quit", "a" * 300])
def test_what_is_like_nothing_is_not(tables: OfflineSwitch, name: str) -> None:
    assert refused(tables, name) == f"there is no command {name}: help lists all"


def test_actions_are_shown_once_each(tables: OfflineSwitch) -> None:
    shown = tables.command("show_actions").splitlines()
    assert "Work.set_second [value(8),\tmore(8)]" in shown and len(shown) == len(set(shown)) == 5
    assert tables.command("table_show_actions by_mask").splitlines() == ["Work.set_second [value(8),\tmore(8)]", "Work.nothing []"]
    assert tables.command("table_info by_mask").splitlines()[1:] == tables.command("table_show_actions by_mask").splitlines()


def test_an_entry_is_shown_by_its_handle_and_by_its_key(tables: OfflineSwitch) -> None:
    tables.command("table_add by_mask set_second 0x10&&&0xf0 7 => 1 2 10")
    tables.command("table_add by_mask set_second 0x10&&&0xf0 7 => 3 4 11")
    first, second, _ = tables.command("table_dump by_mask").splitlines(keepends=True)
    assert [tables.command(f"table_dump_entry by_mask {handle}") for handle in (0, 1)] == [first, second]
    assert tables.command("table_dump_entry_from_key by_mask 0x1f&&&0xf0 7 11") == second  # as far as the mask goes
    assert refused(tables, "table_dump_entry by_mask 5") == "table Work.by_mask has no entry 5"
    for wrong, why in {
        "0x10&&&0xf0 7 12": "table Work.by_mask has no entry of that key",
        "0x10&&&0xf0 7": "table Work.by_mask has 2 key fields, and its entries have a priority behind them, and 2 words are given",
        "0x10&&&0xf0 7 high": "high is not a priority",
        "0x10000 7 10": "0x10000 does not match key hdr.probe.left of Work.by_mask: value&&&mask of 16 bits is needed",
    }.items():
        assert refused(tables, f"table_dump_entry_from_key by_mask {wrong}") == why
    assert tables.command("table_num_entries by_mask") == "2\n"


def test_a_mirroring_session_is_shown(tables: OfflineSwitch) -> None:
    tables.command("mirroring_add 5 2")
    tables.command("mirroring_add_mc 6 300")
    assert [tables.command(f"mirroring_get {n}") for n in (5, 6)] == ["session 5: port 2\n", "session 6: group 300\n"]
    assert refused(tables, "mirroring_get 7") == "there is no session 7"


def test_clocks_and_what_runs(tables: OfflineSwitch) -> None:
    shown = dict(line.split(" : ") for line in tables.command("switch_info").splitlines())
    assert {key.strip(): value for key, value in shown.items()} == {
        "switch": "embedded", "program": "tables.p4", "process": str(tables.process.pid),
    }  # fmt: skip
    before, between, after = time.time_ns() // 1000, int(tables.command("get_time_since_epoch")), time.time_ns() // 1000
    assert before <= between <= after


def test_counters_of_tables_are_offered_too() -> None:
    with OfflineSwitch(build(QUEUES, sanitize=True)) as made:
        assert refused(made, "counter_read nothing 0") == "there is no counter nothing: choose one of Work.hits"
    with switch("runtime") as made:
        assert refused(made, "meter_get_rates nothing 0") == "there is no meter nothing: choose one of Work.pace, Work.limit"
        assert (
            refused(made, "meter_array_set_rates nothing 1:1 2:2")
            == "there is no meter nothing: choose one of Work.pace, Work.limit"
        )
