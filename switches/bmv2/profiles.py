"""Action profiles on BMv2: P4-utils cannot load a program that has them, and lacks the commands of tables that refer to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from p4utils.utils import thrift_API
from p4utils.utils.thrift_API import BmAddEntryOptions, MatchType, ResType, UIn_Error, parse_match_key

_load = thrift_API.SwitchInfo.load_json_str


def _load_with_names(self: Any, text: str, architecture_spec: Any = None) -> None:
    """P4-utils looks for a table's action profile by the name that an older format of BMv2's JSON had for it."""
    config = json.loads(text)
    for table in (table for pipeline in config["pipelines"] for table in pipeline["tables"]):
        if "action_profile" in table:
            table.setdefault("act_prof_name", table["action_profile"])
    _load(self, json.dumps(config), architecture_spec)


thrift_API.SwitchInfo.load_json_str = _load_with_names


def commands(api: Any) -> dict[str, Callable[..., Any]]:
    """What simple_switch_CLI calls table_indirect_…, on a SimpleSwitchThriftAPI."""
    client = api.client

    def table_of(name: str) -> Any:
        table = api.get_res("table", name, ResType.table)
        api.check_indirect(table)
        return table

    def adding(add: Callable[..., Any]) -> Callable[..., Any]:
        def command(name: str, *words: str) -> None:
            table, rest = table_of(name), list(words)
            ordered = table.match_type in (MatchType.TERNARY, MatchType.RANGE)
            priority = int(rest.pop()) if ordered and rest else 0
            if len(rest) < 2 or rest[-2] != "=>":
                raise UIn_Error("the words are TABLE KEYS => HANDLE [PRIORITY]")
            key = parse_match_key(table, rest[:-2])
            print("Entry has been added with handle", add(0, table.name, key, int(rest[-1]), BmAddEntryOptions(priority=priority)))

        return command

    def with_handle(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda name, handle: function(0, table_of(name).name, int(handle))

    return {
        "table_indirect_add": adding(client.bm_mt_indirect_add_entry),
        "table_indirect_add_with_group": adding(client.bm_mt_indirect_ws_add_entry),
        "table_indirect_delete": with_handle(client.bm_mt_indirect_delete_entry),
        "table_indirect_set_default": with_handle(client.bm_mt_indirect_set_default_member),
        "table_indirect_set_default_with_group": with_handle(client.bm_mt_indirect_ws_set_default_group),
        "table_indirect_reset_default": lambda name: client.bm_mt_indirect_reset_default_entry(0, table_of(name).name),
    }
