"""The runtime JSON of an exercise of p4lang/tutorials as commands: table entries, multicast groups, clone sessions.

Its names are P4Runtime's: actions have named parameters, and of two entries the one of the higher priority goes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, NonNegativeInt, StringConstraints

from .json_file import Part, shown

HIGHEST_PRIORITY = 1 << 24  # simple_switch_CLI's smaller numbers go first
FIRST_GROUP = 1 << 15  # of the multicast groups that clone sessions with several replicas need
PRIORITIZED = ("ternary", "range", "optional")

Word = Annotated[str, StringConstraints(pattern=r"^[^\s\x00]+$")]
Value = int | Word
Several = Annotated[list[Value], Field(min_length=1, max_length=2)]


class RuntimeJsonError(Exception):
    """An entry that does not fit the program; str() is one sentence."""


def _or_nothing(given: Any) -> Any:
    """The tutorials' own script takes an empty list, too."""
    return {} if given in ([], None) else given


class TableEntry(Part):
    """An entry, or a table's default action."""

    table: Word = Field(description='the name of a table, such as "MyIngress.ipv4_lpm"')
    action_name: Word = Field(description='the name of an action, such as "MyIngress.ipv4_forward"')
    match: Annotated[dict[str, Value | Several], BeforeValidator(_or_nothing)] = Field(
        {}, description='an object with the keys\' values, such as {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]}'
    )
    action_params: Annotated[dict[str, Value], BeforeValidator(_or_nothing)] = Field(
        {}, description='an object with the parameters\' values, such as {"dstAddr": "08:00:00:00:01:11", "port": 1}'
    )
    default_action: bool | None = Field(None, description="true or false")
    priority: int | None = Field(
        None,
        ge=0,
        lt=HIGHEST_PRIORITY,
        description=f"a whole number from 1 to {HIGHEST_PRIORITY - 1}, of which the highest goes first",
    )


class Replica(Part):
    """A copy of a packet."""

    egress_port: NonNegativeInt = Field(description="the number of a port")
    instance: NonNegativeInt = Field(0, description="a number, which the program sees as egress_rid")


class Group(Part):
    """A multicast group."""

    multicast_group_id: NonNegativeInt = Field(description="the number of the group")
    replicas: list[Replica] = Field([], description='a list such as [{"egress_port": 1, "instance": 1}]')


class Session(Part):
    """A clone session."""

    clone_session_id: NonNegativeInt = Field(description="the number of the session")
    replicas: list[Replica] = Field([], description='a list such as [{"egress_port": 1, "instance": 1}]')
    packet_length_bytes: NonNegativeInt = Field(0, description="a number of bytes")


class RuntimeFile(Part):
    """A runtime JSON file. `target` and `p4info` are for other switches."""

    nouns: ClassVar[dict[str, str]] = {
        "table_entries": "table entry",
        "multicast_group_entries": "multicast group entry",
        "clone_session_entries": "clone session entry",
        "replicas": "replica",
    }

    target: str | None = Field(None, description='"bmv2"')
    p4info: str | None = Field(None, description="the path of a file")
    bmv2_json: str | None = Field(None, description='the path of a compiled program, such as "build/basic.json"')
    table_entries: list[TableEntry] = Field([], description="a list of objects")
    multicast_group_entries: list[Group] = Field([], description="a list of objects")
    clone_session_entries: list[Session] = Field([], description="a list of objects")


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

    def action(self, name: str) -> str | None:
        """The full name of an action. Its last parts are enough where they are those of one action alone."""
        found = [full for full in self.actions if full == name] or [full for full in self.actions if full.endswith(f".{name}")]
        return found[0] if len(found) == 1 else None


def commands(file: RuntimeFile, describe: Callable[[str], str]) -> Iterator[str]:
    """The commands, in order; `describe` gives what table_info says of a table. Raises RuntimeJsonError."""
    for number, entry in enumerate(file.table_entries, 1):
        info = TableInfo.read(describe(entry.table))
        try:
            yield _table_entry(entry, info)
        except RuntimeJsonError as error:
            raise RuntimeJsonError(f"table entry {number}: {error}") from None
    handle = 0
    for group in file.multicast_group_entries:
        yield from _group(group.multicast_group_id, group.replicas, handle)
        handle += len(group.replicas)
    for i, session in enumerate(file.clone_session_entries):
        if len(session.replicas) == 1:
            yield f"mirroring_add {session.clone_session_id} {session.replicas[0].egress_port}"
            continue
        yield from _group(FIRST_GROUP + i, session.replicas, handle)
        handle += len(session.replicas)
        yield f"mirroring_add_mc {session.clone_session_id} {FIRST_GROUP + i}"


def _group(number: int, replicas: list[Replica], first: int) -> Iterator[str]:
    """A multicast group; its nodes have the handles from `first` on."""
    yield f"mc_mgrp_create {number}"
    for handle, replica in enumerate(replicas, first):
        yield f"mc_node_create {replica.instance} {replica.egress_port}"
        yield f"mc_node_associate {number} {handle}"


def _table_entry(entry: TableEntry, info: TableInfo) -> str:
    table, action = entry.table, info.action(entry.action_name)
    if action is None:
        raise RuntimeJsonError(f"table {table} has no action {entry.action_name}: it has {', '.join(info.actions)}")
    data = " ".join(_data(action, entry.action_params, info))
    if entry.default_action:
        return f"table_set_default {table} {action} {data}".rstrip()
    if unknown := set(entry.match) - set(info.keys):
        raise RuntimeJsonError(f"table {table} has no key {sorted(unknown)[0]}: its keys are {', '.join(info.keys)}")
    keys = " ".join(_key(table, name, kind, width, entry.match.get(name)) for name, (kind, width) in info.keys.items())
    return f"table_add {table} {action} {keys} => {data}{_priority(entry, info)}"


def _priority(entry: TableEntry, info: TableInfo) -> str:
    """Counted as simple_switch_CLI counts it. Without it BMv2 takes no entry of such a table by P4Runtime."""
    prioritized = [f"key {name} is {kind}" for name, (kind, _) in info.keys.items() if kind in PRIORITIZED]
    if not prioritized:
        return ""
    if not entry.priority:
        raise RuntimeJsonError(f'table {entry.table}: {prioritized[0]}, so the entry needs a "priority" of 1 or more')
    return f" {HIGHEST_PRIORITY - entry.priority}"


def _data(action: str, given: dict[str, Value], info: TableInfo) -> list[str]:
    """An action's parameters in its order."""
    names = info.actions[action]
    if set(names) != set(given):
        raise RuntimeJsonError(
            f"action {action} takes {', '.join(names) or 'nothing'}, and {', '.join(given) or 'nothing'} is given"
        )
    return [str(given[name]) for name in names]


def _key(table: str, name: str, kind: str, width: int, value: Value | list[Value] | None) -> str:
    """One field as simple_switch_CLI writes it. One that is not given matches everything, unless it is exact."""
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
        raise RuntimeJsonError(f"table {table}: {shown(value)} does not fit key {name}, which is {kind}")
    return joint.join(map(str, parts))
