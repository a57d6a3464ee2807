"""Tables and action profiles: the calls bm_mt_… of service `standard`."""

from __future__ import annotations

import re
from typing import Any

from . import errors
from .binding import TYPES
from .cells import counted, rates_of, rates_words
from .program import Key, Table
from .switch import Switch, word

ERROR = "InvalidTableOperation"
KINDS = TYPES["BmMatchParamType"]
NO_PRIORITY = -1
MEMBER, GROUP = "", "_with_group"  # how the commands for entries that refer to them end


class Tables:
    """The calls, by their names; `_` is the context, of which there is one."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def _run(self, command: str, name: str, *words: Any) -> str:
        """Run a command about a table or an action profile; what it has of its own is found by `_direct`."""
        if command.startswith("table_"):
            self._table(name)
        elif command.startswith("act_prof_"):
            self.switch.require("action_profile", name, ERROR, "INVALID_ACTION_PROFILE_NAME")
        return self.switch.run(ERROR, command, name, *words)

    def _number(self, command: str, name: str, *words: Any) -> int:
        """The number at the end of what a command says."""
        return int(self._run(command, name, *words).split()[-1])

    def _table(self, name: str) -> Table:
        found = self.switch.program.tables.get(name)
        if found is None:
            self.switch.same()
            raise errors.error(ERROR, "INVALID_TABLE_NAME")
        return found

    # --- entries

    def bm_mt_get_num_entries(self, _: int, table: str) -> int:
        return self._number("table_num_entries", table)

    def bm_mt_clear_entries(self, _: int, table: str, reset_default: bool) -> None:
        self._run("table_clear", table)
        if reset_default:
            self._reset_default(table)

    def bm_mt_add_entry(self, _: int, table: str, key: list[Any], action: str, data: list[bytes], options: Any) -> int:
        described = self._table(table)
        words = [*_key_words(described, key), "=>", *map(word, data), *_priority(described, options)]
        return self._number("table_add", table, action, *words)

    def bm_mt_modify_entry(self, _: int, table: str, handle: int, action: str, data: list[bytes]) -> None:
        self._run("table_modify", table, action, handle, *map(word, data))

    def bm_mt_delete_entry(self, _: int, table: str, handle: int) -> None:
        self._run("table_delete", table, handle)

    def bm_mt_set_entry_ttl(self, _: int, table: str, handle: int, timeout_ms: int) -> None:
        self._run("table_set_timeout", table, handle, timeout_ms)

    def bm_mt_set_default_action(self, _: int, table: str, action: str, data: list[bytes]) -> None:
        self._run("table_set_default", table, action, *map(word, data))

    def bm_mt_reset_default_entry(self, _: int, table: str) -> None:
        self._reset_default(table)

    def _reset_default(self, table: str) -> None:
        self._run("table_indirect_reset_default" if self._table(table).profile else "table_reset_default", table)

    # --- entries that refer to members and groups

    def _add_reference(self, kind: str, table: str, key: list[Any], target: int, options: Any) -> int:
        described = self._table(table)
        words = [*_key_words(described, key), "=>", target, *_priority(described, options)]
        return self._number(f"table_indirect_add{kind}", table, *words)

    def bm_mt_indirect_add_entry(self, _: int, table: str, key: list[Any], member: int, options: Any) -> int:
        return self._add_reference(MEMBER, table, key, member, options)

    def bm_mt_indirect_ws_add_entry(self, _: int, table: str, key: list[Any], group: int, options: Any) -> int:
        return self._add_reference(GROUP, table, key, group, options)

    def bm_mt_indirect_modify_entry(self, _: int, table: str, handle: int, member: int) -> None:
        self._run(f"table_indirect_modify{MEMBER}", table, handle, member)

    def bm_mt_indirect_ws_modify_entry(self, _: int, table: str, handle: int, group: int) -> None:
        self._run(f"table_indirect_modify{GROUP}", table, handle, group)

    def bm_mt_indirect_set_default_member(self, _: int, table: str, member: int) -> None:
        self._run(f"table_indirect_set_default{MEMBER}", table, member)

    def bm_mt_indirect_ws_set_default_group(self, _: int, table: str, group: int) -> None:
        self._run(f"table_indirect_set_default{GROUP}", table, group)

    bm_mt_indirect_delete_entry = bm_mt_delete_entry
    bm_mt_indirect_set_entry_ttl = bm_mt_set_entry_ttl
    bm_mt_indirect_reset_default_entry = bm_mt_reset_default_entry

    # --- counters and meters of entries

    def _direct(self, kind: str, table: str) -> str:
        name: str | None = getattr(self._table(table), kind)
        if name is None:
            raise errors.error(ERROR, f"{kind.upper()}S_DISABLED")
        return name

    def bm_mt_read_counter(self, _: int, table: str, handle: int) -> Any:
        return counted(self._run("counter_read", self._direct("counter", table), handle))

    def bm_mt_reset_counters(self, _: int, table: str) -> None:
        self._run("counter_reset", self._direct("counter", table))

    def bm_mt_write_counter(self, _: int, table: str, handle: int, value: Any) -> None:
        self._run("counter_write", self._direct("counter", table), handle, value.packets, value.bytes)

    def bm_mt_set_meter_rates(self, _: int, table: str, handle: int, rates: list[Any]) -> None:
        self._run("meter_set_rates", self._direct("meter", table), handle, *rates_words(rates))

    def bm_mt_get_meter_rates(self, _: int, table: str, handle: int) -> list[Any]:
        return rates_of(self._run("meter_get_rates", self._direct("meter", table), handle))

    # --- what there is

    def bm_mt_get_entries(self, _: int, table: str) -> list[Any]:
        described = self._table(table)
        found = [self._entry(described, line) for line in self._run("table_dump", table).splitlines()[:-1]]
        return sorted(found, key=lambda one: int(one.entry_handle))

    def bm_mt_get_entry(self, _: int, table: str, handle: int) -> Any:
        return self._entry(self._table(table), self._run("table_dump_entry", table, handle).rstrip("\n"))

    def bm_mt_get_entry_from_key(self, _: int, table: str, key: list[Any], options: Any) -> Any:
        described = self._table(table)
        if not key:
            return TYPES["BmMtEntry"]([], None, 0, self.bm_mt_get_default_entry(0, table))
        words = [*_key_words(described, key), *_priority(described, options)]
        return self._entry(described, self._run("table_dump_entry_from_key", table, *words).rstrip("\n"))

    def bm_mt_get_default_entry(self, _: int, table: str) -> Any:
        last = self._run("table_dump", table).splitlines()[-1]
        return self._target(self._table(table), last.removeprefix("default: "))

    def _entry(self, table: Table, line: str) -> Any:
        """An entry as table_dump shows it."""
        fields = "".join(rf" {re.escape(key.name)}=([0-9a-f]+)(?:(?:&&&|->)([0-9a-f]+))?" for key in table.keys)
        found = re.fullmatch(rf"entry (\d+):{fields}(?: priority=(-?\d+))?(?: timeout_ms=(\d+) idle_ms=(\d+))? => (.*)", line)
        assert found, line
        handle, *rest, priority, timeout, idle, target = found.groups()
        key = [_match(one, rest[2 * i], rest[2 * i + 1]) for i, one in enumerate(table.keys)]
        options = TYPES["BmAddEntryOptions"](int(priority) if priority is not None else NO_PRIORITY)
        life = TYPES["BmMtEntryLife"](int(timeout), int(idle)) if int(timeout or 0) else None
        return TYPES["BmMtEntry"](key, options, int(handle), self._target(table, target), life)

    def _target(self, table: Table, text: str) -> Any:
        kinds, made = TYPES["BmActionEntryType"], TYPES["BmActionEntry"]
        if table.profile is None:
            action, data = self._action(text)
            return made(kinds.ACTION_DATA, action, data)
        if text == "none":
            return made(kinds.NONE)
        what, handle = text.split()
        return made(kinds.GRP_HANDLE, grp_handle=int(handle)) if what == "group" else made(kinds.MBR_HANDLE, mbr_handle=int(handle))

    @staticmethod
    def _action(text: str) -> tuple[str, list[bytes]]:
        """An action and its data as dumps show them, the data in as few bytes as they need."""
        name, *data = text.split()
        values = [int(one, 16) for one in data]
        return name, [value.to_bytes(max(1, (value.bit_length() + 7) // 8)) for value in values]

    # --- action profiles

    def bm_mt_act_prof_add_member(self, _: int, profile: str, action: str, data: list[bytes]) -> int:
        return self._number("act_prof_create_member", profile, action, *map(word, data))

    def bm_mt_act_prof_modify_member(self, _: int, profile: str, member: int, action: str, data: list[bytes]) -> None:
        self._run("act_prof_modify_member", profile, action, member, *map(word, data))

    def bm_mt_act_prof_delete_member(self, _: int, profile: str, member: int) -> None:
        self._run("act_prof_delete_member", profile, member)

    def bm_mt_act_prof_create_group(self, _: int, profile: str) -> int:
        return self._number("act_prof_create_group", profile)

    def bm_mt_act_prof_delete_group(self, _: int, profile: str, group: int) -> None:
        self._run("act_prof_delete_group", profile, group)

    def bm_mt_act_prof_add_member_to_group(self, _: int, profile: str, member: int, group: int) -> None:
        self._run("act_prof_add_member_to_group", profile, member, group)

    def bm_mt_act_prof_remove_member_from_group(self, _: int, profile: str, member: int, group: int) -> None:
        self._run("act_prof_remove_member_from_group", profile, member, group)

    def bm_mt_act_prof_get_members(self, _: int, profile: str) -> list[Any]:
        lines = self._run("act_prof_dump", profile).splitlines()
        return [self._member(line) for line in lines if line.startswith("mbr ")]

    def bm_mt_act_prof_get_member(self, _: int, profile: str, member: int) -> Any:
        return self._member(self._run("act_prof_dump_member", profile, member).rstrip("\n"))

    def bm_mt_act_prof_get_groups(self, _: int, profile: str) -> list[Any]:
        return [_group(line) for line in self._run("act_prof_dump", profile).splitlines() if line.startswith("group ")]

    def bm_mt_act_prof_get_group(self, _: int, profile: str, group: int) -> Any:
        return _group(self._run("act_prof_dump_group", profile, group).rstrip("\n"))

    def _member(self, line: str) -> Any:
        head, _, action = line.partition(":")
        return TYPES["BmMtActProfMember"](int(head.split()[1]), *self._action(action))


def _group(line: str) -> Any:
    head, _, members = line.partition(":")
    return TYPES["BmMtActProfGroup"](int(head.split()[1]), [int(one) for one in members.split()])


def _priority(table: Table, options: Any) -> list[int]:
    """Of an entry, for tables whose entries have one: the lowest wins, as in the commands."""
    ordered = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
    return [(options and options.priority) or 0] if ordered else []


def _key_words(table: Table, given: list[Any]) -> list[str]:
    """A key in the words of commands."""
    if len(given) != len(table.keys):
        raise errors.error(ERROR, "BAD_MATCH_KEY")
    return [_key_word(key, one) for key, one in zip(table.keys, given, strict=True)]


def _key_word(key: Key, given: Any) -> str:
    kinds = {"exact": "EXACT", "lpm": "LPM", "ternary": "TERNARY", "optional": "TERNARY", "range": "RANGE"}
    part = getattr(given, kinds[key.kind].lower())
    values: list[Any] = [getattr(part, name) for name in part.__slots__] if part is not None else []
    octets = [one for one in values if isinstance(one, bytes)]
    if given.type != getattr(KINDS, kinds[key.kind]) or None in values or any(len(one) != key.size for one in octets) or not octets:
        raise errors.error(ERROR, "BAD_MATCH_KEY")
    match key.kind:
        case "exact":
            return word(values[0])
        case "lpm":
            return f"{word(values[0])}/{values[1]}"
        case "range":
            return f"{word(values[0])}->{word(values[1])}"
    return f"{word(values[0])}&&&{word(values[1])}"


def _match(key: Key, first: str, second: str | None) -> Any:
    """A field of a key as BmMatchParam; dumps show a prefix, too, by its mask."""
    value, mask = bytes.fromhex(first), bytes.fromhex(second or "ff" * key.size)
    match key.kind:
        case "exact":
            return TYPES["BmMatchParam"](KINDS.EXACT, exact=TYPES["BmMatchParamExact"](value))
        case "lpm":
            length = int.from_bytes(mask).bit_count()
            return TYPES["BmMatchParam"](KINDS.LPM, lpm=TYPES["BmMatchParamLPM"](value, length))
        case "range":
            return TYPES["BmMatchParam"](KINDS.RANGE, range=TYPES["BmMatchParamRange"](value, mask))
    return TYPES["BmMatchParam"](KINDS.TERNARY, ternary=TYPES["BmMatchParamTernary"](value, mask))
