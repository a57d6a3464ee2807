"""Table entries: direct ones, and those that refer to members, groups and action sets (P4Runtime 1.4, section 9.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from . import actions, matches
from .errors import P4RuntimeError, already_exists, denied, not_found, unimplemented
from .matches import Key
from .pipeline import Pipeline, require
from .profiles import DELETE, INSERT, Group, Profiles

NS_PER_MS = 1_000_000
LONGEST_NS = (2**32 - 1) * NS_PER_MS
FASTEST, LARGEST_BURST = 10**12, 2**32 - 1  # units a second, and units, of a meter
REFERENCES = {"action_profile_member_id": "", "action_profile_group_id": "_with_group", "action_profile_action_set": "_with_group"}


@dataclass
class Entry:
    """`handle` is the switch's; `made` the group of an action set, which goes with the entry."""

    action: Any
    handle: int
    timeout_ns: int = 0
    metadata: bytes = b""
    made: Group | None = None


class Tables:
    """Entries by their table, key and priority, and default actions that a client has set."""

    def __init__(self, pipeline: Pipeline, profiles: Profiles) -> None:
        self.pipeline, self.profiles = pipeline, profiles
        self.entries: dict[int, dict[tuple[Key, int], Entry]] = {number: {} for number in pipeline.by_id["tables"]}
        self.defaults: dict[int, Any] = {}

    def write(self, kind: int, message: Any) -> None:
        table = self.pipeline.get("tables", message.table_id)
        if message.is_default_action:
            self._write_default(kind, table, message)
            return
        if table.is_const_table:
            raise denied(f"the entries of table {table.preamble.name} are const")
        identity = matches.key_of(table, message)
        entry = self.entries[message.table_id].get(identity)
        if kind == INSERT:
            if entry is not None:
                raise already_exists(f"table {table.preamble.name} has such an entry")
            self._insert(table, identity, message)
        elif entry is None:
            raise not_found(f"table {table.preamble.name} has no such entry")
        elif kind == DELETE:
            self.pipeline.run("table_delete", table.preamble.name, entry.handle)
            del self.entries[message.table_id][identity]
            self._unmake(table, entry)
        else:
            self._modify(table, entry, message)

    def _insert(self, table: Any, identity: tuple[Key, int], message: Any) -> None:
        name, (key, priority) = table.preamble.name, identity
        if len(self.entries[table.preamble.id]) >= table.size:
            raise P4RuntimeError(code_pb2.RESOURCE_EXHAUSTED, f"table {name} is full: its size is {table.size}")
        self._check_extras(table, message)
        words, order = matches.words_of(table, key), matches.priority_word(table, priority)
        action, made = message.action, None
        if action.WhichOneof("type") == "action":
            require(not table.implementation_id, f"entries of table {name} refer to members or groups of an action profile")
            actions.check_listed(table, action.action.action_id, default=False)
            chosen, *data = actions.words_of(self.pipeline, action.action)
            handle = self.pipeline.handle("table_add", name, chosen, *words, "=>", *data, *order)
        else:
            suffix, target, made = self._target(table, action)
            try:
                handle = self.pipeline.handle(f"table_indirect_add{suffix}", name, *words, "=>", target, *order)
            except P4RuntimeError:
                self._unmake(table, Entry(action, -1, made=made))
                raise
        entry = self.entries[table.preamble.id][identity] = Entry(action, handle, made=made)
        self._set_extras(table, entry, message)

    def _modify(self, table: Any, entry: Entry, message: Any) -> None:
        name, action, made = table.preamble.name, message.action, None
        self._check_extras(table, message)
        if action.WhichOneof("type") == "action":
            require(not table.implementation_id, f"entries of table {name} refer to members or groups of an action profile")
            actions.check_listed(table, action.action.action_id, default=False)
            chosen, *data = actions.words_of(self.pipeline, action.action)
            self.pipeline.run("table_modify", name, chosen, entry.handle, *data)
        elif action.WhichOneof("type"):
            suffix, target, made = self._target(table, action)
            self.pipeline.run(f"table_indirect_modify{suffix}", name, entry.handle, target)
            self._unmake(table, entry)
        if action.WhichOneof("type"):
            entry.action, entry.made = action, made
        self._set_extras(table, entry, message)

    def _target(self, table: Any, action: Any) -> tuple[str, int, Group | None]:
        """The command's suffix, the handle it refers to, and the group created for it, if any."""
        kind = action.WhichOneof("type")
        require(kind in REFERENCES, f"an entry of table {table.preamble.name} needs an action")
        require(bool(table.implementation_id), f"table {table.preamble.name} has no action profile")
        profile = self.pipeline.get("action_profiles", table.implementation_id)
        if kind == "action_profile_member_id":
            return REFERENCES[kind], self.profiles.member_handle(profile, action.action_profile_member_id), None
        if kind == "action_profile_group_id":
            return REFERENCES[kind], self.profiles.group_handle(profile, action.action_profile_group_id), None
        made = self.profiles.create_set(profile, action.action_profile_action_set)
        return REFERENCES[kind], made.handle, made

    def _unmake(self, table: Any, entry: Entry) -> None:
        if entry.made is not None:
            self.profiles.delete_set(self.pipeline.get("action_profiles", table.implementation_id), entry.made)

    # --- timeouts, counters and meters of entries

    def _check_extras(self, table: Any, message: Any) -> None:
        name = table.preamble.name
        require(0 <= message.idle_timeout_ns <= LONGEST_NS, f"a timeout is 0 to {LONGEST_NS} ns")
        require(not message.idle_timeout_ns or table.idle_timeout_behavior != 0, f"the entries of table {name} do not age")
        require(not message.HasField("counter_data") or self.counter_of(table) is not None, f"table {name} has no direct counter")
        require(not message.HasField("meter_config") or self.meter_of(table) is not None, f"table {name} has no direct meter")
        if message.HasField("counter_data"):
            check_counts(message.counter_data)
        if message.HasField("meter_config"):
            rates(message.meter_config)

    def _set_extras(self, table: Any, entry: Entry, message: Any) -> None:
        if table.idle_timeout_behavior:
            entry.timeout_ns = message.idle_timeout_ns
            milliseconds = -(-message.idle_timeout_ns // NS_PER_MS)
            self.pipeline.run("table_set_timeout", table.preamble.name, entry.handle, milliseconds)
        entry.metadata = message.metadata
        if message.HasField("counter_data"):
            self.write_counter(table, entry, message.counter_data)
        if message.HasField("meter_config"):
            self.write_meter(table, entry, message.meter_config)

    def counter_of(self, table: Any) -> Any:
        return self._resource(table, "direct_counters")

    def meter_of(self, table: Any) -> Any:
        return self._resource(table, "direct_meters")

    def _resource(self, table: Any, kind: str) -> Any:
        return next((self.pipeline.by_id[kind][i] for i in table.direct_resource_ids if i in self.pipeline.by_id[kind]), None)

    def write_counter(self, table: Any, entry: Entry, data: Any) -> None:
        check_counts(data)
        name = self.counter_of(table).preamble.name
        self.pipeline.run("counter_write", name, entry.handle, data.packet_count, data.byte_count)

    def write_meter(self, table: Any, entry: Entry, config: Any) -> None:
        self.pipeline.run("meter_set_rates", self.meter_of(table).preamble.name, entry.handle, *rates(config))

    def find(self, message: Any) -> tuple[Any, Entry]:
        """The table and the entry that a message names. Raises P4RuntimeError."""
        table = self.pipeline.get("tables", message.table_id)
        entry = self.entries[message.table_id].get(matches.key_of(table, message))
        if entry is None:
            raise not_found(f"table {table.preamble.name} has no such entry")
        return table, entry

    # --- default actions

    def _write_default(self, kind: int, table: Any, message: Any) -> None:
        name = table.preamble.name
        require(kind == p4runtime_pb2.Update.MODIFY, "a default action is modified: it is always there")
        require(not message.match and not message.priority, "a default action has no key and no priority")
        if table.const_default_action_id:
            raise denied(f"the default action of table {name} is const")
        action = message.action
        if not action.WhichOneof("type"):
            self.pipeline.run("table_indirect_reset_default" if table.implementation_id else "table_reset_default", name)
            self.defaults.pop(message.table_id, None)
            return
        if action.WhichOneof("type") == "action":
            require(not table.implementation_id, f"the default of table {name} is a member or group of an action profile")
            actions.check_listed(table, action.action.action_id, default=True)
            self.pipeline.run("table_set_default", name, *actions.words_of(self.pipeline, action.action))
        elif action.WhichOneof("type") == "action_profile_action_set":
            raise unimplemented("a default action that is an action set: use a group")
        else:
            suffix, target, _ = self._target(table, action)
            self.pipeline.run(f"table_indirect_set_default{suffix}", name, target)
        self.defaults[message.table_id] = action

    # --- what there is

    def read(self, wanted: Any) -> Iterator[Any]:
        """The entries of a table (0: of all) with a key (none: with any), or the default actions where they are asked for."""
        for table in self.pipeline.chosen("tables", wanted.table_id):
            if wanted.is_default_action:
                yield self._read_default(table)
                continue
            identity = matches.key_of(table, wanted, any_priority=True)[0] if wanted.match else None
            for (key, priority), entry in self.entries[table.preamble.id].items():
                if identity in (None, key) and (not wanted.priority or wanted.priority == priority):
                    yield self._message(table, key, priority, entry, wanted)

    def _message(self, table: Any, key: Key, priority: int, entry: Entry, wanted: Any) -> Any:
        made = p4runtime_pb2.TableEntry(table_id=table.preamble.id, priority=priority, action=entry.action)
        matches.fill(table, key, made)
        made.idle_timeout_ns, made.metadata = entry.timeout_ns, entry.metadata
        if wanted.HasField("counter_data") and self.counter_of(table) is not None:
            made.counter_data.CopyFrom(self.read_counter(table, entry))
        return made

    def identify(self, table: Any, handle: int) -> Any:
        """The entry of a handle, by its key and action; None: it has gone meanwhile."""
        for (key, priority), entry in self.entries[table.preamble.id].items():
            if entry.handle == handle:
                return self._message(table, key, priority, entry, p4runtime_pb2.TableEntry())
        return None

    def read_counter(self, table: Any, entry: Entry) -> Any:
        return counted(self.pipeline.run("counter_read", self.counter_of(table).preamble.name, entry.handle))

    def _read_default(self, table: Any) -> Any:
        made = p4runtime_pb2.TableEntry(table_id=table.preamble.id, is_default_action=True)
        if table.preamble.id in self.defaults:
            made.action.CopyFrom(self.defaults[table.preamble.id])
        elif not table.implementation_id:  # BMv2 has none beside action profiles
            made.action.action.action_id = table.initial_default_action.action_id
            for argument in table.initial_default_action.arguments:
                made.action.action.params.add(param_id=argument.param_id, value=argument.value)
        return made


def rates(config: Any) -> list[str]:
    """A meter's two rates as commands have them: units a microsecond, and units."""
    require(0 <= config.cir <= config.pir <= FASTEST, f"a meter's rates are 0 <= cir <= pir <= {FASTEST}")
    require(min(config.cburst, config.pburst) >= 0, "bursts are not negative")
    require(max(config.cburst, config.pburst) <= LARGEST_BURST, f"bursts are at most {LARGEST_BURST}")
    require(not getattr(config, "eburst", 0), "a meter of two rates has no eburst")
    return [f"{config.cir / 1e6!r}:{config.cburst}", f"{config.pir / 1e6!r}:{config.pburst}"]


def check_counts(data: Any) -> None:
    require(min(data.packet_count, data.byte_count) >= 0, "counts are not negative")


def counted(answer: str) -> Any:
    """What counter_read says."""
    inside = answer[answer.index("(") + 1 : answer.rindex(")")]
    values = dict(part.split("=") for part in inside.split(", "))
    return p4runtime_pb2.CounterData(packet_count=int(values["packets"]), byte_count=int(values["bytes"]))
