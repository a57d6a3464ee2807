"""v1model's externs, as simple_switch has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..text import c_string
from ..types import INTEGER, Bits, EnumType, Struct, TupleOf, as_bits
from . import expressions, objects, packing, states, wire
from .arithmetic import convert, unsigned
from .assignment import Target, store, target
from .context import DONE, Context, Value
from .ctypes import compute, is_wide, size_of
from .place import Place

HASHES = ("crc32", "crc16", "csum16", "identity", "xor16")
# bits, polynomial, initial remainder and final XOR, until a command sets others
CUSTOM = {"crc16_custom": (16, "0x8005, 0, 0"), "crc32_custom": (32, "0x04c11db7, 0xffffffff, 0xffffffff")}
INSTEAD = {
    "clone3": "use clone_preserving_field_list",
    "resubmit": "use resubmit_preserving_field_list",
    "recirculate": "use recirculate_preserving_field_list",
}


def call(c: Context, node: s.Call) -> Value:
    """Call an extern function or method."""
    callee: checked.ExternCall = node.callee
    kind = str(callee.object.type.name) if callee.object is not None else ""  # type: ignore[attr-defined]
    rule = EXTERNS.get((kind, callee.name))
    if rule is None:
        name = f"{kind}.{callee.name}" if kind else callee.name
        raise unsupported(node.position, name + (f" ({INSTEAD[name]})" if name in INSTEAD else ""))
    return rule(c, node)


# --- registers, counters and packets


def _number(value: Value) -> str:
    """An index as a C number; no cell has one of more than 32 bits."""
    bits = as_bits(value.type)
    return f"WIDE_AMOUNT({value.text})" if bits is not None and is_wide(bits) else value.text


def _index(c: Context, register: checked.ExternObject, node: s.Expression) -> str:
    """The number of a register's cell. v1model leaves accesses beyond its end undefined: here they meet the spare cell."""
    if node.constant is not None:
        return str(node.constant)
    return f"cell_index({_number(expressions.expression(c, node))}, {objects.cells_of(register)})"


def _read(c: Context, node: s.Call) -> Value:
    register: checked.ExternObject = node.callee.object
    to = target(c, node.arguments[0])
    store(c, to, objects.cell(c, register, _index(c, register, node.arguments[1])))
    return DONE


def _write(c: Context, node: s.Call) -> Value:
    register: checked.ExternObject = node.callee.object
    index, value = expressions.all_in_order(c, node.arguments)
    known = node.arguments[0].constant is not None
    place = index.text if known else f"cell_index({_number(index)}, {objects.cells_of(register)})"
    c.emit(f"{objects.cell(c, register, str(node.arguments[0].constant) if known else place)} = {value.text};")
    return DONE


def _count(c: Context, node: s.Call) -> Value:
    counter: checked.ExternObject = node.callee.object
    index = expressions.expression(c, node.arguments[0])
    c.emit(f"counter_count({c.objects[counter]}, {objects.cells_of(counter)}, {_number(index)});")
    return DONE


def _count_directly(c: Context, node: s.Call) -> Value:
    return DONE  # simple_switch counts direct counters at the lookup, whatever the action does


def _execute_meter(c: Context, node: s.Call) -> Value:
    meter: checked.ExternObject = node.callee.object
    index = expressions.held(c, expressions.expression(c, node.arguments[0]))
    to = target(c, node.arguments[1])
    with c.indented(f"if ({_number(index)} < {objects.cells_of(meter)}) {{"):
        colour = f"meter_execute(&{c.objects[meter]}[{_number(index)}], {objects.counts_bytes(meter)})"
        store_colour(c, to, colour)
    return DONE


def store_colour(c: Context, to: Target, colour: str) -> None:
    """Write what meter_execute returns."""
    bits = as_bits(to.type)
    if bits is None:
        raise unsupported(to.position, f"a colour as {to.type}")
    store(c, to, convert(colour, Bits(32), bits, to.position))


def _read_directly(c: Context, node: s.Call) -> Value:
    return DONE  # simple_switch executes direct meters at the lookup, and writes the colour then


def _digest(c: Context, node: s.Call) -> Value:
    data = node.arguments[1]
    assert data.type is not None
    c.emit(f"digest_begin({c_string(c.digests[data.type])});")
    for name, value in _digest_fields(c, "", data):
        bits = as_bits(value.type)
        if bits is None:
            raise unsupported(data.position, f"{value.type} in a digest")
        if is_wide(bits):
            c.emit(f"digest_wide({c_string(name)}, {expressions.held(c, value).text}.b, {size_of(bits)});")
        else:
            c.emit(f"digest_number({c_string(name)}, {unsigned(value.text, bits)});")
    c.emit("digest_end();")
    return DONE


def _digest_fields(c: Context, name: str, node: s.Expression) -> list[tuple[str, Value]]:
    """What a digest consists of, by the names of fields, or by their places where they have no names."""
    if not isinstance(node, s.ListExpression):
        return _parts(name, expressions.expression(c, node))
    names = [f.name for f in node.type.fields] if isinstance(node.type, Struct) else [f"field{i}" for i in range(len(node.items))]
    return [
        found for own, item in zip(names, node.items, strict=True) for found in _digest_fields(c, f"{name}.{own}".lstrip("."), item)
    ]


def _parts(name: str, value: Value) -> list[tuple[str, Value]]:
    if not isinstance(value.type, (Struct, TupleOf)):
        return [(name, value)]
    place, found = value.place or Place(value.text), []
    for f in value.type.fields:
        inner = place.field(f.name)
        found += _parts(f"{name}.{f.name}".lstrip("."), Value(str(inner), f.type, value.fixed, inner))
    return found


def _length(c: Context, node: s.Call) -> Value:
    return Value("packet_length", node.type)


def _emit(c: Context, node: s.Call) -> Value:
    for one in _items(node.arguments[0]):
        wire.emit_packet(c, expressions.expression(c, one), node.position)
    return DONE


def _items(node: s.Expression) -> list[s.Expression]:
    return [inner for item in node.items for inner in _items(item)] if isinstance(node, s.ListExpression) else [node]


# --- functions


def _mark_to_drop(c: Context, node: s.Call) -> Value:
    c.emit(f"mark_to_drop(&{expressions.place(c, node.arguments[0])});")
    return DONE


def _random(c: Context, node: s.Call) -> Value:
    to = target(c, node.arguments[0])
    bits = to.type
    assert isinstance(bits, Bits)
    if is_wide(bits):
        raise unsupported(node.position, f"random into {bits}")
    low, high = expressions.all_in_order(c, node.arguments[1:])
    store(c, to, f"({compute(bits)})random_between{'_signed' if bits.signed else ''}({low.text}, {high.text})")
    return DONE


def algorithm(c: Context, node: s.Expression, named: str = "") -> str:
    """A hash algorithm in C, up to its arguments. p4c numbers what it calls `named`, and so commands find a custom one by that."""
    if not isinstance(node.type, EnumType) or not isinstance(node.constant, int):
        raise CompileError(node.position, "the algorithm must be known when compiling")
    name, number = node.type.members[node.constant], c.hashes
    if named:
        c.hashes += 1
    if name in CUSTOM:
        width, parameters = CUSTOM[name]
        crc = c.unique("crc")
        shown = c_string(named if number == 0 or not named else f"{named}_{number - 1}")
        c.globals.append(f"static struct crc {crc} = {{{shown}, {width}, {parameters}, true, true, false, {{0}}}};")
        if named:
            c.crcs.append(crc)
        return f"hash_custom(&{crc}, "
    if name not in HASHES:
        raise unsupported(node.position, f"HashAlgorithm.{name}")
    return f"hash_{name}("


def _hash(c: Context, node: s.Call) -> Value:
    result, algorithm_, base, data, most = node.arguments
    hash_ = algorithm(c, algorithm_, "calc")
    to = target(c, result)
    bits = to.type
    assert isinstance(bits, Bits)
    with c.indented("{"):
        low = expressions.held(c, _bound(c, base))
        buffer, size = packing.pack(c, data)
        high = _bound(c, most)
        drawn = c.temporary("hash")
        c.emit(f"const uint64_t {drawn} = hash_within({hash_}{buffer}, {size}), {low.text}, {high.text});")
        store(c, to, _as(drawn, bits, node.position))
    return DONE


def _as(hashed: str, type_: Bits, position: Position) -> str:
    """The low bits of a 64-bit hash as a type."""
    plain = Bits(type_.width)
    return convert(convert(hashed, Bits(64), plain, position), plain, type_, position)


def _bound(c: Context, node: s.Expression) -> Value:
    """The base or the maximum of a hash: bit<W>, or a number without a width."""
    if node.type == INTEGER:
        if not 0 <= int(node.constant or 0) < 1 << 64:
            raise CompileError(node.position, f"{node.constant} does not fit in 64 bits")
        return expressions.constant(c, int(node.constant or 0), Bits(64))
    if isinstance(node.type, Bits) and is_wide(node.type):
        raise unsupported(node.position, f"the base or maximum of a hash as {node.type} (at most 64 bits)")
    if not isinstance(node.type, (Bits, EnumType)) or as_bits(node.type) is None:
        raise CompileError(node.position, f"this is {node.type}, where bit<W> is needed")
    return expressions.expression(c, node)


def _checksum(update: bool, payload: bool, c: Context, node: s.Call) -> Value:
    condition, data, checksum, algorithm_ = node.arguments
    hash_, bits = algorithm(c, algorithm_, "cksum"), as_bits(checksum.type)
    if not isinstance(bits, Bits) or is_wide(bits):
        raise CompileError(checksum.position, f"this is {checksum.type}, where bit<W> is needed")
    with c.indented(f"if ({expressions.expression(c, condition).text}) {{"):
        buffer, size = packing.pack(c, data, packing.known_valid(c, condition), " + MAX_PACKET" if payload else "")
        length = f"{size} + payload_length" if payload else size
        if payload:
            c.emit(f"memcpy({buffer} + {size}, payload, payload_length);")
        computed = _as(f"{hash_}{buffer}, {length})", bits, node.position)
        if update:
            store(c, target(c, checksum), computed)
        else:
            c.emit(f"if ({computed} != {expressions.expression(c, checksum).text}) phv.standard.checksum_error = 1;")
    return DONE


def _clone(c: Context, node: s.Call) -> Value:
    session = expressions.expression(c, node.arguments[1]).text
    fields = node.arguments[2].constant if len(node.arguments) == 3 else -1
    c.emit(f"intents.clone = (struct clone_intent){{true, {session}, {fields}}};")
    return DONE


def _again(intent: str, c: Context, node: s.Call) -> Value:
    c.emit(f"intents.{intent} = (struct again_intent){{true, {node.arguments[0].constant}}};")
    return DONE


def _truncate(c: Context, node: s.Call) -> Value:
    c.emit(f"intents.truncate_to = {expressions.expression(c, node.arguments[0]).text};")
    return DONE


def _assert(c: Context, node: s.Call) -> Value:
    c.emit(f"if (!{expressions.expression(c, node.arguments[0]).text}) assertion_failed({c_string(str(node.position))});")
    return DONE


def _static_assert(c: Context, node: s.Call) -> Value:
    return expressions.constant(c, True, node.type)


def _log_msg(c: Context, node: s.Call) -> Value:
    items = node.arguments[1].items if len(node.arguments) == 2 else []  # type: ignore[union-attr]
    pieces = str(node.arguments[0].constant).replace("%", "%%").split("{}")
    text, shown = pieces[0], ""
    for value, piece in zip(expressions.all_in_order(c, items), pieces[1:], strict=True):
        bits = as_bits(value.type)
        if bits is None or is_wide(bits):
            raise unsupported(node.position, f"log_msg of {value.type}")
        text += ("%lld" if bits.signed else "%llu") + piece
        shown += f", ({'' if bits.signed else 'unsigned '}long long){value.text}"
    c.emit(f"log_message({c_string(text)}{shown});")
    return DONE


EXTERNS: dict[tuple[str, str], Callable[[Context, s.Call], Value]] = {
    ("register", "read"): _read,
    ("register", "write"): _write,
    ("counter", "count"): _count,
    ("direct_counter", "count"): _count_directly,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_directly,
    ("packet_in", "extract"): states.extract,
    ("packet_in", "advance"): states.advance,
    ("packet_in", "lookahead"): states.lookahead,
    ("packet_in", "length"): _length,
    ("packet_out", "emit"): _emit,
    ("", "verify"): states.verify,
    ("", "mark_to_drop"): _mark_to_drop,
    ("", "random"): _random,
    ("", "hash"): _hash,
    ("", "verify_checksum"): partial(_checksum, False, False),
    ("", "update_checksum"): partial(_checksum, True, False),
    ("", "verify_checksum_with_payload"): partial(_checksum, False, True),
    ("", "update_checksum_with_payload"): partial(_checksum, True, True),
    ("", "digest"): _digest,
    ("", "clone"): _clone,
    ("", "clone_preserving_field_list"): _clone,
    ("", "resubmit_preserving_field_list"): partial(_again, "resubmit"),
    ("", "recirculate_preserving_field_list"): partial(_again, "recirculate"),
    ("", "truncate"): _truncate,
    ("", "assert"): _assert,
    ("", "assume"): _assert,
    ("", "static_assert"): _static_assert,
    ("", "log_msg"): _log_msg,
}
