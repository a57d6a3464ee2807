"""Match-action tables: what the control plane needs to know of them, and apply()."""

from __future__ import annotations

from functools import partial

from .. import checked
from .. import syntax as s
from ..errors import Position, unsupported
from ..text import c_string
from ..types import Bits, Header, Type
from . import action_profiles, expressions, externs, objects
from .actions import action_info, constant_data, entry_data, run
from .arithmetic import binary
from .assignment import target
from .context import Context, Value
from .ctypes import bits_of, c_type, is_wide, literal, size_of


def function(c: Context, table: checked.Table) -> str:
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
    found = expressions.in_order(c, [partial(expressions.expression, c, key.expression) for key in table.keys])
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
        hashed = action_profiles.selected(c, table)
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
    header = expressions.expression(c, node.base).place
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
        externs.store_colour(c, target(c, meter.reads[0]), f"meter_execute(&entry->meter, {objects.counts_bytes(meter)})")


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


def _as_command(table: checked.Table, entry: checked.Entry) -> str:
    """What adds an entry when the switch starts."""
    listed = table.actions[entry.action].action
    keys = [_as_key(key, pattern) for key, pattern in zip(table.keys, entry.keys, strict=True)]
    data = [hex(value & bits_of(p.type).mask) for p, value in zip(listed.data, entry.data, strict=True)]
    has_priority = any(key.kind not in ("exact", "lpm") for key in table.keys)
    priority = [str(entry.precedence)] if has_priority else []
    return " ".join(["table_add", table.control_name, listed.control_name, *keys, "=>", *data, *priority])


def _as_key(key: checked.Key, pattern: checked.Pattern) -> str:
    low, high = (0, 0) if pattern.kind == "any" else (pattern.low, pattern.high)
    match key.kind:
        case "exact":
            return hex(low)
        case "lpm":
            return f"{hex(low)}/{high.bit_count()}"
        case "range":
            return f"{hex(low)}->{hex(high if pattern.kind == 'range' else bits_of(key.expression.type).mask)}"
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
    c.entries += [_as_command(table, entry) for entry in table.entries]
    counts = f"true, .counter_name = {c_string(table.counter.control_name)}" if table.counter else "false"
    if table.meter:
        counts += f", .meter_name = {c_string(table.meter.control_name)}, .meter_bytes = {objects.counts_bytes(table.meter)}"
    if table.profile:
        counts += f", {action_profiles.describe(c, table, name)}"
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
