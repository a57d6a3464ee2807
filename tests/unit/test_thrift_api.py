"""P4-utils' calls over the embedded switch, without P4-utils and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.thrift_api import Resource, SimpleSwitchThriftAPI


@contextmanager
def controller(program: str) -> Iterator[SimpleSwitchThriftAPI]:
    """Of a switch that runs tests/programs/PROGRAM.p4."""
    with OfflineSwitch(build(Path(f"tests/programs/{program}.p4"), sanitize=True)) as switch:
        made: Any = SimpleSwitchThriftAPI.__new__(SimpleSwitchThriftAPI)
        made.control, made.handles = switch, {}
        yield made
    assert switch.process.returncode == 0


def test_entries_are_added_found_changed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with controller("tables") as api:
        handle = api.table_add("by_mask", "set_second", ["0x10&&&0xf0", "7"], ["1", "2"], prio=10)
        assert api.get_handle_from_match("by_mask", ["0x10&&&0xf0", "7"]) == handle
        api.table_dump_entry_from_key("by_mask", ["0x10&&&0xf0", "7"], prio=10)
        api.table_dump_entry("by_mask", handle)
        first, second = capsys.readouterr().out.splitlines()
        assert first == second and "set_second" in first
        assert api.table_modify_match("by_mask", "nothing", ["0x10&&&0xf0", "7"]) == handle
        api.table_delete_match("by_mask", ["0x10&&&0xf0", "7"])
        assert api.table_num_entries("by_mask") == 0
        assert list(api.get_tables()) == ["Work.by_prefix", "Work.by_mask", "Work.by_range", "Work.exactly", "Work.fixed"]
        assert api.get_actions()["Work.set_second"] == [("value", 8), ("more", 8)] and api.get_actions()["Work.nothing"] == []
        with pytest.raises(ControlError, match="do not age"):
            api.table_set_timeout("by_mask", api.table_add("by_mask", "nothing", ["1", "1"], prio=1), 100)


def test_what_a_program_has_is_told_by_kind() -> None:
    with controller("runtime") as api:
        assert api.get_counter_arrays() == {"Work.seen": Resource("Work.seen", 0, 4), "Work.hits": Resource("Work.hits")}
        assert set(api.get_meter_arrays()) == {"Work.pace", "Work.limit"}
        assert all(its.width and its.size for its in api.get_register_arrays().values()) and api.get_register_arrays()
    with controller("externs") as api:
        hashes = api.get_custom_crc_calcs()
        assert set(hashes.values()) <= {16, 32} and hashes
        for name, width in hashes.items():
            set_parameters = api.set_crc32_parameters if width == 32 else api.set_crc16_parameters
            set_parameters(name, 0x1021, 0xFFFF, 0, True, False)


def test_meters_and_counters_are_read_as_they_were_written() -> None:
    with controller("runtime") as api:
        api.meter_set_rates("pace", 1, [(0.5, 10), (1.0, 20)])
        assert api.meter_get_rates("pace", 1) == [(0.5, 10), (1.0, 20)] and api.meter_get_rates("pace", 0) == []
        api.meter_array_set_rates("pace", [(2.0, 1), (3.0, 2)])
        assert api.meter_get_rates("pace", 0) == api.meter_get_rates("pace", 1) == [(2.0, 1), (3.0, 2)]
        api.counter_write("seen", 2, pkts=7, byts=900)
        assert api.counter_read("seen", 2) == (900, 7)
        api.counter_reset("seen")
        assert api.counter_read("seen", 2) == (0, 0)


def test_value_sets_and_action_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    with controller("runtime") as api:
        (name,) = api.get_parse_vsets()
        api.pvs_add(name, 5)
        api.pvs_add(name, 9)
        api.pvs_remove(name, 5)
        assert api.pvs_get(name) == [9]
        api.pvs_clear(name)
        assert api.pvs_get(name) == []
    with controller("profiles") as api:
        profile = next(iter(api.get_action_profs()))
        action, parameters = next((name, its) for name, its in api.get_actions().items() if its)
        member, group = api.act_prof_create_member(profile, action, ["1"] * len(parameters)), None
        assert api.act_prof_modify_member(profile, action, member, ["2"] * len(parameters)) == member
        try:
            group = api.act_prof_create_group(profile)
        except ControlError:  # it has no selector
            pass
        else:
            api.act_prof_add_member_to_group(profile, member, group)
            api.act_prof_dump_group(profile, group)
            api.act_prof_remove_member_from_group(profile, member, group)
            api.act_prof_delete_group(profile, group)
        api.act_prof_dump_member(profile, member)
        assert capsys.readouterr().out
        api.act_prof_delete_member(profile, member)


@pytest.mark.parametrize(
    ("call", "arguments", "why"),
    [
        ("port_add", ("veth0", 3), "ports are given when the switch starts"),
        ("swap_configs", (), "a switch runs one program"),
        ("mc_set_lag_membership", (1, [1]), "no link aggregation groups"),
        ("mirroring_add_port_and_mgrp", (1, 2, 3), "a session has a port or a group"),
        ("write_config_to_file", ("x",), "has no JSON"),
    ],
)
def test_what_there_is_not_is_refused_with_what_does_instead(call: str, arguments: tuple[Any, ...], why: str) -> None:
    with controller("tables") as api:
        with pytest.raises(ControlError, match=why):
            getattr(api, call)(*arguments)
        with pytest.raises(AttributeError, match=r"^the embedded switch has no client: there is no Thrift client"):
            _ = api.client
