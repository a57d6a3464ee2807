"""What a running switch's program has, as the switch tells it, and the part of BMv2's JSON that controllers read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..control import Control

TABLE = re.compile(r"(\S+) \[implementation=(\S+), mk=(.*)\]")
KEY = re.compile(r"(.+?)\((\w+), (\d+)\)(?:,\t|$)")
ACTION = re.compile(r"(\S+) \[(.*)\]")
PARAMETER = re.compile(r"(\S+)\((\d+)\)(?:,\t|$)")
RESOURCE = re.compile(r"(\w+) (\S+)(?: of (\S+))?(?: \[(.*)\])?")
HASHES = {16: "crc16_custom", 32: "crc32_custom"}
RATES = 2  # of a meter
FIRST_LIST = 1  # the number of the first digest


@dataclass(frozen=True)
class Key:
    """One field of a table's key; `kind` is exact, lpm, ternary, range or optional."""

    name: str
    kind: str
    width: int

    @property
    def size(self) -> int:
        return (self.width + 7) // 8


@dataclass
class Table:
    """`counter` and `meter` are the names of the direct ones, None where there are none."""

    name: str
    profile: str | None
    keys: list[Key]
    actions: list[str]
    ages: bool = False
    counter: str | None = None
    meter: str | None = None


@dataclass
class Resource:
    """A counter, meter, register, action profile, value set, hash or digest; `table` is whose entries have it, if they do."""

    kind: str
    name: str
    table: str | None
    details: list[str]

    def number(self, unit: str) -> int:
        """How many bits or cells it has."""
        return next(int(one.split()[0]) for one in self.details if one.endswith(f" {unit}"))

    def fields(self) -> list[tuple[str, int]]:
        """A digest's, with their bits."""
        return [(one.split()[0], int(one.split()[1])) for one in self.details]


@dataclass
class Program:
    """Tables and resources by their full names, and the bits of each action's parameters."""

    tables: dict[str, Table] = field(default_factory=dict)
    actions: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    resources: list[Resource] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Resource]:
        return [one for one in self.resources if one.kind == kind]


def read_program(control: Control) -> Program:
    """Ask a switch for all that its program has. Raises ControlError."""
    made = Program()
    for line in control.command("show_actions").splitlines():
        name, parameters = _matched(ACTION, line)
        made.actions[name] = [(one, int(width)) for one, width in PARAMETER.findall(parameters)]
    for name in control.command("show_tables").split():
        head, *actions = control.command(f"table_info {name}").splitlines()
        _, profile, keys = _matched(TABLE, head)
        found = [Key(one, kind, int(width)) for one, kind, width in KEY.findall(keys)]
        made.tables[name] = Table(name, None if profile == "None" else profile, found, [a.split()[0] for a in actions])
    for line in control.command("show_resources").splitlines():
        kind, name, table, details = _matched(RESOURCE, line)
        one = Resource(kind, name, table, details.split(", ") if details else [])
        made.resources.append(one)
        if kind == "table":
            made.tables[name].ages = "age" in one.details
        elif table is not None and kind == "counter":
            made.tables[table].counter = name
        elif table is not None:
            made.tables[table].meter = name
    return made


def _matched(pattern: re.Pattern[str], line: str) -> tuple[Any, ...]:
    found = pattern.fullmatch(line)
    assert found, line
    return found.groups()


# --- BMv2's JSON


def configuration(program: Program) -> str:
    """Names, numbers and widths, as docs/JSON_format.md of behavioral-model has them; nothing of what the program does."""
    headers: dict[str, dict[str, int]] = {}
    tables = [_table(number, table, program, headers) for number, table in enumerate(program.tables.values())]
    digests = [_learn_list(number, one, headers) for number, one in enumerate(program.of_kind("digest"), start=FIRST_LIST)]
    profiles = _listed(program, "action_profile", lambda one: {"selector": {}} if "groups" in one.details else {})
    made = {
        "header_types": [{"name": name, "id": i, "fields": [[f, width, False] for f, width in fields.items()]}
                         for i, (name, fields) in enumerate(headers.items())],
        "headers": [{"name": name, "id": i, "header_type": name, "metadata": True} for i, name in enumerate(headers)],
        "actions": [
            {"name": name, "id": i, "runtime_data": [{"name": one, "bitwidth": width} for one, width in data], "primitives": []}
            for i, (name, data) in enumerate(program.actions.items())
        ],
        "learn_lists": digests,
        "pipelines": [{"name": "ingress", "id": 0, "tables": tables, "action_profiles": profiles}],
        "counter_arrays": _listed(program, "counter", _cells),
        "meter_arrays": _listed(program, "meter", lambda one: {**_cells(one), "rate_count": RATES, "type": one.details[-1]}),
        "register_arrays": _listed(program, "register", lambda one: {**_cells(one), "bitwidth": one.number("bits")}),
        "calculations": _listed(program, "hash", lambda one: {"algo": HASHES[one.number("bits")]}),
        "parse_vsets": _listed(program, "value_set", lambda one: {"compressed_bitwidth": one.number("bits")}),
    }  # fmt: skip
    return json.dumps(made, indent=2) + "\n"


def _table(number: int, table: Table, program: Program, headers: dict[str, dict[str, int]]) -> dict[str, Any]:
    groups = any(one.name == table.profile and "groups" in one.details for one in program.of_kind("action_profile"))
    made: dict[str, Any] = {
        "name": table.name, "id": number, "support_timeout": table.ages, "actions": table.actions,
        "key": [{"match_type": _kind(key), "target": _target(key, headers)} for key in table.keys],
        "match_type": max((_kind(key) for key in table.keys), key=["exact", "lpm", "ternary", "range"].index, default="exact"),
        "type": "simple" if table.profile is None else "indirect_ws" if groups else "indirect",
    }  # fmt: skip
    return made if table.profile is None else {**made, "action_profile": table.profile}


def _learn_list(number: int, digest: Resource, headers: dict[str, dict[str, int]]) -> dict[str, Any]:
    fields = [_target(Key(name, "exact", width), headers) for name, width in digest.fields()]
    return {"id": number, "name": digest.name, "elements": [{"type": "field", "value": one} for one in fields]}


def _kind(key: Key) -> str:
    """BMv2 matches optional keys with masks."""
    return "ternary" if key.kind == "optional" else key.kind


def _target(key: Key, headers: dict[str, dict[str, int]]) -> list[str]:
    """A header and its field, which are made known with the key's width; where the field has another, in a header of its own."""
    header, _, name = key.name.rpartition(".")
    header = header or "scalars"
    while headers.setdefault(header, {}).setdefault(name, key.width) != key.width:
        header += "_"
    return [header, name]


def _listed(program: Program, kind: str, more: Callable[[Resource], dict[str, Any]]) -> list[dict[str, Any]]:
    """The resources of a kind, with what `more` says of each."""
    return [{"name": one.name, "id": number, **more(one)} for number, one in enumerate(program.of_kind(kind))]


def _cells(one: Resource) -> dict[str, Any]:
    if one.table is not None:
        return {"is_direct": True, "binding": one.table}
    return {"is_direct": False, "size": one.number("cells")}
