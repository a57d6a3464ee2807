"""The runtime JSON of an exercise of p4lang/tutorials as commands: table entries, multicast groups, clone sessions.

Its names are P4Runtime's: actions have named parameters, and of two entries the one of the higher priority goes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

HIGHEST_PRIORITY = 1 << 24  # simple_switch_CLI's smaller numbers go first
FIRST_GROUP = 1 << 15  # of the multicast groups that clone sessions with several replicas need


class RuntimeJsonError(Exception):
    """A file that cannot be followed; str() is one sentence."""


@dataclass(frozen=True)
class TableInfo:
    """What the command table_info says of a table: match kinds and widths of its keys, and the names of actions' parameters."""

    keys: dict[str, tuple[str, int]]
    actions: dict[str, list[str]]

    @classmethod
    def read(cls, text: str) -> TableInfo:
        head, *rest = text.splitlines()
        keys = {name: (kind, int(width)) for name, kind, width in re.findall(r"(\S+?)\((\w+), (\d+)\)", head.partition("mk=")[2])}
        actions = {line.partition(" [")[0]: re.findall(r"([\w.$]+)\(\d+\)", line.partition(" [")[2]) for line in rest}
        return cls(keys, actions)


def commands(document: dict[str, Any], describe: Callable[[str], str]) -> Iterator[str]:
    """The commands, in order; `describe` gives what table_info says of a table. Raises RuntimeJsonError."""
    for entry in _list(document, "table_entries"):
        yield _table_entry(entry, describe)
    handle = 0
    for group in _list(document, "multicast_group_entries"):
        number, replicas = _number(group, "multicast_group_id"), _list(group, "replicas")
        yield from _group(number, replicas, handle)
        handle += len(replicas)
    for i, session in enumerate(_list(document, "clone_session_entries")):
        number, replicas = _number(session, "clone_session_id"), _list(session, "replicas")
        if len(replicas) == 1:
            yield f"mirroring_add {number} {_number(replicas[0], 'egress_port')}"
            continue
        yield from _group(FIRST_GROUP + i, replicas, handle)
        handle += len(replicas)
        yield f"mirroring_add_mc {number} {FIRST_GROUP + i}"


def _list(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RuntimeJsonError(f"{key} must be a list of objects")
    return found


def _number(document: dict[str, Any], key: str) -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RuntimeJsonError(f"{key} must be a number, and is {value!r}")
    return value


def _group(number: int, replicas: list[dict[str, Any]], first: int) -> Iterator[str]:
    """A multicast group; its nodes have the handles from `first` on."""
    yield f"mc_mgrp_create {number}"
    for handle, replica in enumerate(replicas, first):
        yield f"mc_node_create {replica.get('instance', 0)} {_number(replica, 'egress_port')}"
        yield f"mc_node_associate {number} {handle}"


def _table_entry(entry: dict[str, Any], describe: Callable[[str], str]) -> str:
    table, action = entry.get("table"), entry.get("action_name")
    if not isinstance(table, str) or not isinstance(action, str):
        raise RuntimeJsonError(f"a table entry needs `table` and `action_name`: {entry}")
    info = TableInfo.read(describe(table))
    data = " ".join(_data(table, action, entry.get("action_params") or {}, info))
    if entry.get("default_action"):
        return f"table_set_default {table} {action} {data}".rstrip()
    match = entry.get("match") or {}
    if unknown := set(match) - set(info.keys):
        raise RuntimeJsonError(f"table {table} has no key {sorted(unknown)[0]}: its keys are {', '.join(info.keys)}")
    keys = " ".join(_key(table, name, kind, width, match) for name, (kind, width) in info.keys.items())
    prioritized = any(kind in ("ternary", "range", "optional") for kind, _ in info.keys.values())
    priority = f" {HIGHEST_PRIORITY - int(entry.get('priority', 0))}" if prioritized else ""
    return f"table_add {table} {action} {keys} => {data}{priority}"


def _data(table: str, action: str, given: dict[str, Any], info: TableInfo) -> list[str]:
    """An action's parameters in its order."""
    if action not in info.actions:
        raise RuntimeJsonError(f"table {table} has no action {action}: it has {', '.join(info.actions)}")
    names = info.actions[action]
    if set(names) != set(given):
        raise RuntimeJsonError(
            f"action {action} takes {', '.join(names) or 'nothing'}, and {', '.join(given) or 'nothing'} is given"
        )
    return [str(given[name]) for name in names]


def _key(table: str, name: str, kind: str, width: int, match: dict[str, Any]) -> str:
    """One field as simple_switch_CLI writes it. One that is not given matches everything, unless it is exact."""
    value = match.get(name)
    if value is None:
        everything = {"lpm": "0/0", "ternary": "0&&&0", "optional": "0&&&0", "range": f"0->{(1 << width) - 1}"}
        if kind not in everything:
            raise RuntimeJsonError(f"table {table}: key {name} is exact, and has no value")
        return everything[kind]
    parts = value if isinstance(value, list) else [value]
    if kind in ("exact", "optional") and len(parts) == 1:
        return str(parts[0])
    joint = {"lpm": "/", "ternary": "&&&", "range": "->"}.get(kind)
    if joint is None or len(parts) != 2:
        raise RuntimeJsonError(f"table {table}: {value!r} does not fit key {name}, which is {kind}")
    return joint.join(map(str, parts))
