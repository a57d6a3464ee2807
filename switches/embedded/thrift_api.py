"""P4-utils' SimpleSwitchThriftAPI over the embedded switch's commands: for controllers that change one import."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..control import ControlError
from ..sockets import socket_path
from .control import SocketControl

RESOURCE = re.compile(r"(\w+) (\S+)(?: \[(?:(\d+) bits)?(?:, )?(?:(\d+) cells)?\])?")
ACTION = re.compile(r"(\S+) \[(.*)\]")


def by_port(thrift_port: int) -> Path:
    """What a controller that knows a Thrift port finds its switch by: a link to the switch's socket."""
    return socket_path(f"thrift-{thrift_port}")


@dataclass(frozen=True)
class Resource:
    """What a program has: bits and cells are 0 where it has none."""

    name: str
    width: int = 0
    size: int = 0


class SimpleSwitchThriftAPI:
    """P4-utils' calls, with their names and parameters. All may raise ControlError; P4-utils prints its errors and goes on.

    What the switch does not have (link aggregation groups, priority queues, other programs) is refused with what does instead.
    """

    def __init__(self, thrift_port: int, thrift_ip: str = "localhost", json_path: str | None = None) -> None:
        self.control = SocketControl(by_port(thrift_port))
        self.handles: dict[tuple[str, ...], int] = {}  # of entries made here, by table and keys

    def _run(self, *words: Any) -> str:
        return self.control.command(" ".join(map(str, words)))

    def _number(self, *words: Any) -> int:
        """Run a command that answers with a number."""
        return int(self._run(*words).split()[-1])

    def _show(self, *words: Any) -> None:
        print(self._run(*words), end="")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"the embedded switch has no {name}: there is no Thrift client behind this class; use its calls, or the commands of "
            "inalab.switches.cli"
        )

    # --- tables

    def table_add(
        self, table_name: str, action_name: str, match_keys: Sequence[Any], action_params: Sequence[Any] = (), prio: int = 0
    ) -> int:
        """The handle of the new entry. `prio` counts where a key is ternary, a range or optional."""
        order = self._priority(table_name, prio)
        handle = self._number("table_add", table_name, action_name, *match_keys, "=>", *action_params, *order)
        self.handles[table_name, *map(str, match_keys)] = handle
        return handle

    def _priority(self, table_name: str, prio: int) -> list[int]:
        """Of an entry; none where the table's entries have none."""
        kinds = self._run("table_info", table_name).partition("\n")[0]
        return [prio] if any(f"({kind}," in kinds for kind in ("ternary", "range", "optional")) else []

    def get_handle_from_match(self, table_name: str, match_keys: Sequence[Any], pop: bool = False) -> int | None:
        """The handle of an entry that was added here with these keys."""
        key = (table_name, *map(str, match_keys))
        return self.handles.pop(key, None) if pop else self.handles.get(key)

    def table_set_default(self, table_name: str, action_name: str, action_params: Sequence[Any] = ()) -> None:
        self._run("table_set_default", table_name, action_name, *action_params)

    def table_reset_default(self, table_name: str) -> None:
        self._run("table_reset_default", table_name)

    def table_modify(self, table_name: str, action_name: str, entry_handle: int, action_params: Sequence[Any] = ()) -> int:
        self._run("table_modify", table_name, action_name, entry_handle, *action_params)
        return entry_handle

    def table_modify_match(
        self, table_name: str, action_name: str, match_keys: Sequence[Any], action_params: Sequence[Any] = ()
    ) -> int:
        return self.table_modify(table_name, action_name, self._known(table_name, match_keys), action_params)

    def table_delete(self, table_name: str, entry_handle: int, quiet: bool = False) -> None:
        self._run("table_delete", table_name, entry_handle)

    def table_delete_match(self, table_name: str, match_keys: Sequence[Any]) -> None:
        self.table_delete(table_name, self._known(table_name, match_keys))
        self.get_handle_from_match(table_name, match_keys, pop=True)

    def _known(self, table_name: str, match_keys: Sequence[Any]) -> int:
        handle = self.get_handle_from_match(table_name, match_keys)
        if handle is None:
            raise ControlError(f"table {table_name} was given no entry with the keys {', '.join(map(str, match_keys))}")
        return handle

    def reset_state(self) -> None:
        """Tables, registers, counters, multicast groups and nodes as they were at the start."""
        self._run("reset_state")
        self.handles.clear()

    def table_clear(self, table_name: str) -> None:
        self._run("table_clear", table_name)

    def table_num_entries(self, table_name: str) -> int:
        return self._number("table_num_entries", table_name)

    def table_dump(self, table_name: str) -> None:
        self._show("table_dump", table_name)

    def table_info(self, table_name: str) -> None:
        self._show("table_info", table_name)

    def show_tables(self) -> None:
        self._show("show_tables")

    def show_actions(self) -> None:
        self._show("show_actions")

    def table_show_actions(self, table_name: str) -> None:
        self._show("table_show_actions", table_name)

    def table_dump_entry(self, table_name: str, entry_handle: int) -> None:
        self._show("table_dump_entry", table_name, entry_handle)

    def table_dump_entry_from_key(self, table_name: str, match_keys: Sequence[Any], prio: int = 0) -> None:
        self._show("table_dump_entry_from_key", table_name, *match_keys, *self._priority(table_name, prio))

    def table_set_timeout(self, table_name: str, entry_handle: int, timeout_ms: int) -> None:
        self._run("table_set_timeout", table_name, entry_handle, timeout_ms)

    # --- what the program has, by its full names

    def get_tables(self) -> dict[str, Resource]:
        return {name: Resource(name) for name in self._run("show_tables").split()}

    def get_actions(self) -> dict[str, list[tuple[str, int]]]:
        """The parameters of each, with their bits."""
        found = {}
        for line in self._run("show_actions").splitlines():
            if match := ACTION.fullmatch(line):
                found[match[1]] = [(name, int(width)) for name, width in re.findall(r"(\w+)\((\d+)\)", match[2])]
        return found

    def get_register_arrays(self) -> dict[str, Resource]:
        return self._resources("register")

    def get_counter_arrays(self) -> dict[str, Resource]:
        return self._resources("counter")

    def get_meter_arrays(self) -> dict[str, Resource]:
        return self._resources("meter")

    def get_action_profs(self) -> dict[str, Resource]:
        return self._resources("action_profile")

    def get_parse_vsets(self) -> dict[str, Resource]:
        return self._resources("value_set")

    def get_custom_crc_calcs(self) -> dict[str, int]:
        """The bits of each."""
        return {name: its.width for name, its in self._resources("hash").items()}

    def _resources(self, kind: str) -> dict[str, Resource]:
        lines = map(RESOURCE.fullmatch, self._run("show_resources").splitlines())
        return {
            found[2]: Resource(found[2], int(found[3] or 0), int(found[4] or 0)) for found in lines if found and found[1] == kind
        }

    # --- action profiles

    def act_prof_create_member(self, act_prof_name: str, action_name: str, action_params: Sequence[Any] = ()) -> int:
        """The handle of the new member."""
        return self._number("act_prof_create_member", act_prof_name, action_name, *action_params)

    def act_prof_delete_member(self, act_prof_name: str, mbr_handle: int) -> None:
        self._run("act_prof_delete_member", act_prof_name, mbr_handle)

    def act_prof_modify_member(
        self, act_prof_name: str, action_name: str, mbr_handle: int, action_params: Sequence[Any] = ()
    ) -> int:
        self._run("act_prof_modify_member", act_prof_name, action_name, mbr_handle, *action_params)
        return mbr_handle

    def act_prof_create_group(self, act_prof_name: str) -> int:
        """The handle of the new group."""
        return self._number("act_prof_create_group", act_prof_name)

    def act_prof_delete_group(self, act_prof_name: str, grp_handle: int) -> None:
        self._run("act_prof_delete_group", act_prof_name, grp_handle)

    def act_prof_add_member_to_group(self, act_prof_name: str, mbr_handle: int, grp_handle: int) -> None:
        self._run("act_prof_add_member_to_group", act_prof_name, mbr_handle, grp_handle)

    def act_prof_remove_member_from_group(self, act_prof_name: str, mbr_handle: int, grp_handle: int) -> None:
        self._run("act_prof_remove_member_from_group", act_prof_name, mbr_handle, grp_handle)

    def act_prof_dump(self, act_prof_name: str) -> None:
        self._show("act_prof_dump", act_prof_name)

    def act_prof_dump_member(self, act_prof_name: str, mbr_handle: int) -> None:
        self._show("act_prof_dump_member", act_prof_name, mbr_handle)

    def act_prof_dump_group(self, act_prof_name: str, grp_handle: int) -> None:
        self._show("act_prof_dump_group", act_prof_name, grp_handle)

    # --- multicast and mirroring

    def mc_mgrp_create(self, mgrp: int) -> int:
        self._run("mc_mgrp_create", mgrp)
        return int(mgrp)

    def mc_mgrp_destroy(self, mgrp: int) -> None:
        self._run("mc_mgrp_destroy", mgrp)

    def mc_node_create(self, rid: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        return self._number("mc_node_create", rid, *ports, *(["|", *lags] if lags else []))

    def mc_node_update(self, l1_hdl: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        self._run("mc_node_update", l1_hdl, *ports, *(["|", *lags] if lags else []))
        return l1_hdl

    def mc_node_associate(self, mgrp: int, l1_hdl: int) -> None:
        self._run("mc_node_associate", mgrp, l1_hdl)

    def mc_node_dissociate(self, mgrp: int, l1_hdl: int) -> None:
        self._run("mc_node_dissociate", mgrp, l1_hdl)

    def mc_node_destroy(self, l1_hdl: int) -> None:
        self._run("mc_node_destroy", l1_hdl)

    def mc_set_lag_membership(self, lag_index: int, ports: Sequence[int]) -> None:
        self._run("mc_set_lag_membership", lag_index, *ports)

    def mc_dump(self) -> None:
        self._show("mc_dump")

    def mirroring_add(self, mirror_id: int, egress_port: int) -> None:
        self._run("mirroring_add", mirror_id, egress_port)

    def mirroring_add_mc(self, mirror_id: int, mgrp: int) -> None:
        self._run("mirroring_add_mc", mirror_id, mgrp)

    def mirroring_add_port_and_mgrp(self, mirror_id: int, egress_port: int, mgrp: int) -> None:
        self._run("mirroring_add_port_and_mgrp", mirror_id, egress_port, mgrp)

    def mirroring_get(self, mirror_id: int) -> None:
        self._show("mirroring_get", mirror_id)

    def mirroring_delete(self, mirror_id: int) -> None:
        self._run("mirroring_delete", mirror_id)

    # --- registers, counters, meters, value sets, hashes

    def register_read(self, register_name: str, index: int | None = None, show: bool = False) -> int | list[int]:
        """One cell, or all."""
        if show:
            self._show("register_read", register_name, *_given(index))
        return self.control.registers(register_name) if index is None else self.control.register(register_name, index)

    def register_write(self, register_name: str, index: int | list[int], value: int) -> None:
        """One cell, or those of [first, beyond the last]."""
        for cell in range(*index) if isinstance(index, list) else [index]:
            self._run("register_write", register_name, cell, value)

    def register_reset(self, register_name: str) -> None:
        self._run("register_reset", register_name)

    def counter_read(self, counter_name: str, index: int) -> tuple[int, int]:
        """Bytes and packets."""
        match = re.search(r"packets=(\d+), bytes=(\d+)", self._run("counter_read", counter_name, index))
        assert match
        return int(match[2]), int(match[1])

    def counter_write(self, counter_name: str, index: int, pkts: int = 0, byts: int = 0) -> None:
        self._run("counter_write", counter_name, index, pkts, byts)

    def counter_reset(self, counter_name: str) -> None:
        self._run("counter_reset", counter_name)

    def meter_set_rates(self, meter_name: str, index: int, rates: Sequence[tuple[float, int]]) -> None:
        """`rates` are the committed and the peak one, in units a microsecond, each with its burst in units."""
        self._run("meter_set_rates", meter_name, index, *(f"{rate}:{burst}" for rate, burst in rates))

    def meter_array_set_rates(self, meter_name: str, rates: Sequence[tuple[float, int]]) -> None:
        """Likewise, of all cells."""
        self._run("meter_array_set_rates", meter_name, *(f"{rate}:{burst}" for rate, burst in rates))

    def meter_get_rates(self, meter_name: str, index: int) -> list[tuple[float, int]]:
        found = re.findall(r"rate = (\S+), burst size = (\d+)", self._run("meter_get_rates", meter_name, index))
        return [(float(rate), int(burst)) for rate, burst in found]

    def show_pvs(self, line: str = "") -> None:
        self._show("show_pvs")

    def pvs_add(self, pvs_name: str, value: Any) -> None:
        self._run("pvs_add", pvs_name, value)

    def pvs_remove(self, pvs_name: str, value: Any) -> None:
        self._run("pvs_remove", pvs_name, value)

    def pvs_get(self, pvs_name: str) -> list[int]:
        return [int(value) for value in self._run("pvs_get", pvs_name).split()]

    def pvs_clear(self, pvs_name: str) -> None:
        self._run("pvs_clear", pvs_name)

    def set_crc16_parameters(
        self, name: str, polynomial: int, initial_remainder: int, final_xor_value: int, reflect_data: bool, reflect_remainder: bool
    ) -> None:
        numbers = map(hex, (polynomial, initial_remainder, final_xor_value))
        self._run("set_crc16_parameters", name, *numbers, reflect_data, reflect_remainder)

    def set_crc32_parameters(
        self, name: str, polynomial: int, initial_remainder: int, final_xor_value: int, reflect_data: bool, reflect_remainder: bool
    ) -> None:
        numbers = map(hex, (polynomial, initial_remainder, final_xor_value))
        self._run("set_crc32_parameters", name, *numbers, reflect_data, reflect_remainder)

    # --- the switch

    def set_queue_depth(self, queue_depth: int, egress_port: int | None = None, priority: int | None = None) -> None:
        self._run("set_queue_depth", queue_depth, *_given(egress_port, priority))

    def set_queue_rate(self, rate: int, egress_port: int | None = None, priority: int | None = None) -> None:
        self._run("set_queue_rate", rate, *_given(egress_port, priority))

    def get_time_elapsed(self) -> None:
        self._show("get_time_elapsed")

    def get_time_since_epoch(self) -> None:
        self._show("get_time_since_epoch")

    def switch_info(self) -> None:
        self._show("switch_info")

    def show_ports(self) -> None:
        self._show("show_ports")

    def port_add(self, iface_name: str, port_num: int, pcap_path: str = "") -> None:
        self._run("port_add", iface_name, port_num)

    def port_remove(self, port_num: int) -> None:
        self._run("port_remove", port_num)

    def load_new_config_file(self, filename: str) -> None:
        self._run("load_new_config_file", filename)

    def swap_configs(self) -> None:
        self._run("swap_configs")

    def write_config_to_file(self, filename: str) -> None:
        self._run("write_config_to_file", filename)

    def serialize_state(self, filename: str) -> None:
        self._run("serialize_state", filename)

    def shell(self, line: str) -> None:
        self._run("shell", line)


def _given(*words: Any) -> list[Any]:
    return [word for word in words if word is not None]
