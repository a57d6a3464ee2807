"""Match-action tables: apply(), the actions, and what the control plane needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from .. import checked
from .. import syntax as s
from ..errors import Position, unsupported
from ..text import c_string
from ..types import ApplyResult, Bits, Header, Type, as_bits
from . import calls, expressions, externs, hashes
from .context import Context, Value
from .ctypes import binary, bits_of, c_type, is_wide, literal, size_of
from .expressions import target

MAX_ACTION_WORDS = 64  # as runtime/program.h has it


def _apply_table(c: Context, node: s.Call) -> Value:
    """What apply() returns; where an action may have executed `exit`, that is looked at before anything else happens."""
    held = c.temporary("applied")
    c.emit(f"const struct outcome {held} = {c_table(c, node.callee.target)}();")
    c.emit(f"(void){held};")
    c.check_exit()
    return Value(held, ApplyResult(), True)


def c_table(c: Context, table: checked.Table) -> str:
    """The C function that applies a table, written at its first use."""
    if table not in c.named:
        name = c.unique("_".join((*table.path, table.name)))
        c.named[table] = f"apply_{name}"
        _describe(c, table, name)
        c.tables.append(name)
        with c.function(f"static struct outcome apply_{name}(void)", f"table {table.control_name} ({table.position})"):
            _apply(c, table, name)
    return c.named[table]


def _apply(c: Context, table: checked.Table, name: str) -> None:
    found = expressions.in_order(c, [partial(c.expression, key.expression) for key in table.keys])
    keys = [_zero_unless_valid(c, key.expression, value) for key, value in zip(table.keys, found, strict=True)]
    hit, action, data = "false", f"{name}.default_action", f"{name}.default_data"
    if table.entries and not _looked_up(table):
        _match_constants(c, table, keys)
    elif keys:
        _pack_key(c, keys)
        c.emit(f"struct entry *const entry = table_lookup(&{name}, key);")
        if table.meter is not None:
            _execute_meter(c, table.meter)
        hit, action, data = "entry != NULL", f"entry ? entry->action : {action}", f"entry ? entry->data : {data}"
    if table.profile is not None:
        hashed = _selected(c, table)
        c.emit(f"const struct chosen chosen = action_profile_choose(&{name}, {'entry' if keys else 'NULL'}, {hashed});")
        action, data = "chosen.action", "chosen.data"
    c.emit(f"const unsigned action = {action};")
    c.emit(f"const uint64_t *data = {data};")
    c.emit("(void)data;")
    with c.indented("switch (action) {"):
        for i, listed in enumerate(table.actions):
            c.emit(f"case {i}:")
            c.depth += 1
            run(c, listed, entry_data(c, listed.action))
            c.emit("break;")
            c.depth -= 1
    c.emit(f"return (struct outcome){{{hit}, action}};")


def _zero_unless_valid(c: Context, node: s.Expression, value: Value) -> Value:
    """A field counts as zero where its header is not valid, whatever it holds (BMv2's MatchKeyBuilder).

    A part of a field does not: p4c copies it to a variable ahead of the table.
    """
    if not isinstance(node, s.Member) or not isinstance(node.base.type, Header):
        return value
    header = c.expression(node.base).place
    if header is None:
        return value
    zero = literal(0, bits_of(value.type))
    return Value(f"({header.part('valid')} ? {value.text} : {zero})", value.type)


def _execute_meter(c: Context, meter: checked.ExternObject) -> None:
    """At a hit, before the action runs; the colour goes to where any action reads it to."""
    places = {expressions.static_place(one) for one in meter.reads}
    if not places:
        return
    where = places.pop()
    if places or where is None or not where[0].lasting:
        raise unsupported(meter.reads[-1].position, f"{meter.name} is read to several variables, or to one that does not last")
    with c.indented("if (entry) {"):
        externs.store_colour(c, target(c, meter.reads[0]), f"meter_execute(&entry->meter, {externs.counts_bytes(meter)})")


def _pack_key(c: Context, keys: list[Value]) -> None:
    """The key as bytes, each field rounded up to whole bytes."""
    c.emit(f"uint8_t key[{sum(size_of(bits_of(key.type)) for key in keys)}];")
    offset = 0
    for key in keys:
        bits = bits_of(key.type)
        if is_wide(bits):
            c.emit(f"memcpy(key + {offset}, {expressions.held(c, key).text}.b, {size_of(bits)});")
        else:
            mask = f" & {hex(bits.mask)}ull" if bits.signed else ""
            c.emit(f"store{size_of(bits) * 8}(key + {offset}, (uint64_t){key.text}{mask});")
        offset += size_of(bits)


# --- entries of the program


def _looked_up(table: checked.Table) -> bool:
    """Whether the program's entries are looked up as those of the control plane are, and not in a chain of conditions.

    Either way the table has them, for those who ask what is in it.
    """
    return table.counter is not None or table.meter is not None or any(is_wide(bits_of(key.expression.type)) for key in table.keys)


def _as_commands(table: checked.Table) -> Iterator[str]:
    """What adds the program's entries when the switch starts; of entries of one key, the first."""
    seen = set()
    for entry in table.entries:
        if any(_spans_zero(key, pattern) for key, pattern in zip(table.keys, entry.keys, strict=True)):
            if _looked_up(table):
                raise unsupported(
                    entry.position, "a range from below zero to above it, in a table with a counter, meter or wide key"
                )
            continue  # as numbers without a sign, it is two ranges
        command = _as_command(table, entry)
        key = tuple(command.partition("=>")[0].split()[3:])
        if key not in seen:
            seen.add(key)
            yield command


def _spans_zero(key: checked.Key, pattern: checked.Pattern) -> bool:
    return key.kind == "range" and pattern.kind == "range" and pattern.low < 0 <= pattern.high


def _as_command(table: checked.Table, entry: checked.Entry) -> str:
    listed = table.actions[entry.action].action
    keys = [_as_key(key, pattern) for key, pattern in zip(table.keys, entry.keys, strict=True)]
    data = [hex(value & bits_of(p.type).mask) for p, value in zip(listed.data, entry.data, strict=True)]
    has_priority = any(key.kind not in ("exact", "lpm") for key in table.keys)
    priority = [str(entry.precedence)] if has_priority else []
    return " ".join(["table_add", table.control_name, listed.control_name, *keys, "=>", *data, *priority])


def _as_key(key: checked.Key, pattern: checked.Pattern) -> str:
    mask = bits_of(key.expression.type).mask
    low, high = (0, 0) if pattern.kind == "any" else (pattern.low & mask, pattern.high & mask)
    match key.kind:
        case "exact":
            return hex(low)
        case "lpm":
            return f"{hex(low)}/{high.bit_count()}"
        case "range":
            return f"{hex(low)}->{hex(high if pattern.kind == 'range' else mask)}"
    return f"{hex(low)}&&&{hex(high)}"


def _match_constants(c: Context, table: checked.Table, keys: list[Value]) -> None:
    """A chain of conditions, in the order of the entries' precedence."""
    for i, key in enumerate(keys):
        c.emit(f"const {c_type(c, key.type)} key${i} = {key.text};")
    for entry in table.entries:
        tests = [test for i, key in enumerate(keys) if (test := condition(f"key${i}", key.type, entry.keys[i], entry))]
        listed = table.actions[entry.action]
        with c.indented(f"if ({' && '.join(tests) or 'true'}) {{"):
            run(c, listed, constant_data(c, listed.action, entry.data))
            c.emit(f"return (struct outcome){{true, {entry.action}}};")


def condition(key: str, type_: Type, pattern: checked.Pattern, of: checked.Entry | checked.Case) -> str:
    """The condition under which a C variable matches; empty if it always does."""
    if pattern.kind == "any":
        return ""
    bits = bits_of(type_)
    if is_wide(bits):
        return _wide_condition(key, bits, pattern, of.position)
    if pattern.kind == "range":
        return f"{key} >= {literal(pattern.low, bits)} && {key} <= {literal(pattern.high, bits)}"
    if pattern.high == bits.mask:
        return f"{key} == {literal(pattern.low, bits)}"
    plain = Bits(bits.width)
    return f"({key} & {literal(pattern.high, plain)}) == {literal(pattern.low, plain)}"


def _wide_condition(key: str, bits: Bits, pattern: checked.Pattern, position: Position) -> str:
    low, high = literal(pattern.low, bits), literal(pattern.high, bits)
    if pattern.kind == "range":
        tests = binary(">=", key, low, bits, None, position), binary("<=", key, high, bits, None, position)
        return " && ".join(tests)
    return binary("==", binary("&", key, high, bits, None, position), low, bits, None, position)


# --- what the control plane sees


def _describe(c: Context, table: checked.Table, name: str) -> None:
    if table.keys:
        rows = (f"{{{c_string(k.name)}, MATCH_{k.kind.upper()}, {bits_of(k.expression.type).width}}}" for k in table.keys)
        c.globals.append(f"static const struct key_field {name}_keys[] = {{{', '.join(rows)}}};")
    rows = (action_info(c, listed.action, f"{name}_{i}_parameters") for i, listed in enumerate(table.actions))
    c.globals.append(f"static const struct action_info {name}_actions[] = {{{', '.join(rows)}}};")
    c.entries += _as_commands(table)
    counts = f"true, .counter_name = {c_string(table.counter.control_name)}" if table.counter else "false"
    if table.meter:
        counts += f", .meter_name = {c_string(table.meter.control_name)}, .meter_bytes = {externs.counts_bytes(table.meter)}"
    if table.profile:
        counts += f", {_profile(c, table, name)}"
    if table.ages:
        counts += ", .ages = true"
    words = _words(table)
    keys = f"{name}_keys" if table.keys else "NULL"
    constant, constant_default = ("true" if is_ else "false" for is_ in (table.constant_entries, table.constant_default))
    c.globals.append(
        f"static struct table {name} = {{.name = {c_string(table.control_name)}, .keys = {keys}, "
        f".key_count = {len(table.keys)}, .key_bytes = {sum(size_of(bits_of(k.expression.type)) for k in table.keys)}, "
        f".actions = {name}_actions, .action_count = {len(table.actions)}, .size = {max(table.size, len(table.entries))}, "
        f".constant = {constant}, .constant_default = {constant_default}, "
        f".first_default = {table.default}, .first_default_data = {{{words or '0'}}}, .counts = {counts}}};"
    )


def _words(table: checked.Table) -> str:
    """The default action's data; wide numbers as their bytes."""
    words: list[int] = []
    for parameter, value in zip(table.actions[table.default].action.data, table.default_data, strict=False):
        bits = bits_of(parameter.type)
        if is_wide(bits):
            octets = (value & bits.mask).to_bytes(size_of(bits), "big")
            words += [int.from_bytes(octets[at : at + 8], "little") for at in range(0, len(octets), 8)]
        else:
            words.append(value & bits.mask)
    return ", ".join(f"UINT64_C({word})" for word in words)


# --- actions of a table, or of the members of an action profile: how they are run, and what commands need to know of them


def run(c: Context, listed: checked.ListedAction, data: list[str]) -> None:
    """Call a table's action with the arguments that the table binds, and the entry's data."""
    with c.indented("{"):
        calls.call_action(c, listed.action, listed.bound, data)


def entry_data(c: Context, action: checked.Action) -> list[str]:
    """An action's parameters in the words of an entry."""
    found, word = [], 0
    for parameter in action.data:
        bits = bits_of(parameter.type)
        if is_wide(bits):
            found.append(f"*(const {c_type(c, bits)} *)(data + {word})")
            word += (size_of(bits) + 7) // 8
        else:
            found.append(f"({c_type(c, parameter.type)})data[{word}]")
            word += 1
    return found


def constant_data(c: Context, action: checked.Action, data: list[int]) -> list[str]:
    return [f"({c_type(c, p.type)}){literal(value, bits_of(p.type))}" for p, value in zip(action.data, data, strict=True)]


def action_info(c: Context, action: checked.Action, name: str) -> str:
    """An action's name and parameters, as a `struct action_info` in C."""
    for parameter in action.data:
        if as_bits(parameter.type) is None:
            raise unsupported(action.position, f"an action parameter of type {parameter.type} in a table")
    words = sum((size_of(bits_of(p.type)) + 7) // 8 for p in action.data)
    if words > MAX_ACTION_WORDS:
        raise unsupported(action.position, f"an action with {words} words of parameters (at most {MAX_ACTION_WORDS})")
    if not action.data:
        return f"{{{c_string(action.control_name)}, NULL, 0}}"
    fields = ", ".join(f'{{"{p.name}", {bits_of(p.type).width}}}' for p in action.data)
    c.globals.append(f"static const struct action_parameter {name}[] = {{{fields}}};")
    return f"{{{c_string(action.control_name)}, {name}, {len(action.data)}}}"


# --- action profiles and selectors: what the runtime knows of them, and the hash by which a selector chooses from a group


def _profile(c: Context, table: checked.Table, name: str) -> str:
    """What a table says of its profile, in C; it numbers the actions that members may have by its own list."""
    profile = table.profile
    assert profile is not None
    if profile not in c.objects:
        _declare_profile(c, profile)
    own = [listed.action for listed in table.actions]
    numbers = [own.index(action) if action in own else len(own) for action in _actions(profile)]
    c.globals.append(f"static const unsigned {name}_numbers[] = {{{', '.join(map(str, numbers))}}};")
    return f".profile = &{c.objects[profile]}, .profile_numbers = {name}_numbers"


def _declare_profile(c: Context, profile: checked.ExternObject) -> None:
    made = c.objects[profile] = c.unique("_".join((*profile.path, profile.name)))
    rows = [action_info(c, action, f"{made}_{i}_parameters") for i, action in enumerate(_actions(profile))]
    c.globals.append(f"static const struct action_info {made}_actions[] = {{{', '.join(rows)}}};")
    selects = "true" if profile.type.name == "action_selector" else "false"
    c.globals.append(
        f"static struct action_profile {made} = {{.name = {c_string(profile.control_name)}, .selects = {selects}, "
        f".actions = {made}_actions, .action_count = {len(rows)}}};"
    )
    c.action_profiles.append(made)


def _actions(profile: checked.ExternObject) -> list[checked.Action]:
    """The actions of all tables that a profile implements."""
    return list(dict.fromkeys(listed.action for table in profile.tables for listed in table.actions))


def _selected(c: Context, table: checked.Table) -> str:
    """C of the hash of a table's selector keys; 0 where nothing selects."""
    profile = table.profile
    if profile is None or profile.type.name != "action_selector":
        return "0"
    buffer, size = hashes.pack(c, s.ListExpression(table.position, [key.expression for key in table.selectors]))
    return f"(uint32_t){hashes.algorithm(c, profile.arguments[0])}{buffer}, {size})"


CALLS: dict[type, Callable[[Context, s.Call], Value]] = {checked.Table: _apply_table}
