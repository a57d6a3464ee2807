"""v1model's externs, as simple_switch has them: registers, counters and meters as C arrays, methods and functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..errors import CompileError, unsupported
from ..text import c_string
from ..types import Bits, EnumType, Struct, TupleOf, as_bits
from . import expressions, hashes, packets
from .context import DONE, Context, Place, Value, c_name
from .ctypes import c_type, compute, convert, is_wide, size_of, storage, unsigned
from .expressions import Target, store, target

BANK = 4  # registers of one shape in one control that are worth interleaving
MOST_CELLS = 1 << 28


def declare(c: Context, objects: list[checked.ExternObject]) -> None:
    """The extern objects of a block. Registers of one shape share an array of structs: one index touches neighbouring memory."""
    banks: dict[tuple[Bits, int], list[checked.ExternObject]] = {}
    for one in objects:
        match one.type.name:
            case "register":
                banks.setdefault(_shape(one), []).append(one)
            case "counter":
                _counter(c, one)
            case "meter":
                _meter(c, one)
            case "direct_counter" | "direct_meter" | "action_profile" | "action_selector":
                pass  # with its tables
            case name:
                raise unsupported(one.position, name)
    for (element, cells), registers in banks.items():
        if len(registers) >= BANK:
            _bank(c, element, cells, registers)
        else:
            for one in registers:
                name = c.unique("_".join((*one.path, one.name)))
                c.globals.append(f"static {c_type(c, element)} {name}[{cells} + 1];")
                _register(c, one, element, cells, name)


def cell(c: Context, register: checked.ExternObject, index: str) -> str:
    """A register's cell in C."""
    return c.objects[register].format(index)


def cells_of(one: checked.ExternObject) -> int:
    """How many cells a register or counter has."""
    cells = one.arguments[0].constant
    assert isinstance(cells, int)
    if not 0 < cells <= MOST_CELLS:
        raise CompileError(one.position, f"a {one.type.name} of {cells} cells is not possible")
    return cells


def _shape(one: checked.ExternObject) -> tuple[Bits, int]:
    """A register's element type and number of cells."""
    element = one.type.arguments[0]
    bits = as_bits(element)
    if bits is None:
        raise unsupported(one.position, f"a register of {element}")
    return bits, cells_of(one)


def _bank(c: Context, element: Bits, cells: int, registers: list[checked.ExternObject]) -> None:
    bank = c.unique("_".join((*registers[0].path, "bank")))
    fields = " ".join(f"{c_type(c, element)} {c_name(one.name)};" for one in registers)
    c.globals.append(f"static struct {{ {fields} }} {bank}[{cells} + 1];")
    for one in registers:
        _register(c, one, element, cells, bank, f".{c_name(one.name)}")


def _register(c: Context, one: checked.ExternObject, element: Bits, cells: int, array: str, lane: str = "") -> None:
    """A register is an array, or a lane of one. Beyond the end lies one spare cell."""
    c.objects[one] = f"{array}[{{}}]{lane}"
    signed = "true" if element.signed else "false"
    place = f"&{array}[0]{lane}, sizeof {array}[0]"
    c.registers.append(f"{{{c_string(one.control_name)}, {place}, {cells}, {element.width}, sizeof({storage(element)}), {signed}}}")


def _meter(c: Context, one: checked.ExternObject) -> None:
    cells = cells_of(one)
    name = c.objects[one] = c.unique("_".join((*one.path, one.name)))
    c.globals.append(f"static struct meter {name}[{cells}];")
    c.meters.append(f"{{{c_string(one.control_name)}, {name}, {cells}, {counts_bytes(one)}}}")


def counts_bytes(meter: checked.ExternObject) -> str:
    """Whether a meter counts bytes, and not packets, in C."""
    type_, value = meter.arguments[-1].type, meter.arguments[-1].constant
    assert isinstance(type_, EnumType) and isinstance(value, int)
    return "true" if type_.members[value] == "bytes" else "false"


def _counter(c: Context, one: checked.ExternObject) -> None:
    cells = cells_of(one)
    name = c.objects[one] = c.unique("_".join((*one.path, one.name)))
    c.globals.append(f"static struct count {name}[{cells}];")
    c.counters.append(f"{{{c_string(one.control_name)}, {name}, {cells}}}")


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


# --- methods


def _number(value: Value) -> str:
    """An index as a C number; no cell has one of more than 32 bits."""
    bits = as_bits(value.type)
    return f"WIDE_AMOUNT({value.text})" if bits is not None and is_wide(bits) else value.text


def _index(c: Context, register: checked.ExternObject, node: s.Expression) -> str:
    """The number of a register's cell. v1model leaves accesses beyond its end undefined: here they meet the spare cell."""
    if node.constant is not None:
        return str(node.constant)
    return f"cell_index({_number(c.expression(node))}, {cells_of(register)})"


def _read(c: Context, node: s.Call) -> Value:
    register: checked.ExternObject = node.callee.object
    to = target(c, node.arguments[0])
    store(c, to, cell(c, register, _index(c, register, node.arguments[1])))
    return DONE


def _write(c: Context, node: s.Call) -> Value:
    register: checked.ExternObject = node.callee.object
    index, value = expressions.all_in_order(c, node.arguments)
    known = node.arguments[0].constant is not None
    place = index.text if known else f"cell_index({_number(index)}, {cells_of(register)})"
    c.emit(f"{cell(c, register, str(node.arguments[0].constant) if known else place)} = {value.text};")
    return DONE


def _count(c: Context, node: s.Call) -> Value:
    counter: checked.ExternObject = node.callee.object
    index = c.expression(node.arguments[0])
    c.emit(f"counter_count({c.objects[counter]}, {cells_of(counter)}, {_number(index)});")
    return DONE


def _count_directly(c: Context, node: s.Call) -> Value:
    return DONE  # simple_switch counts direct counters at the lookup, whatever the action does


def _execute_meter(c: Context, node: s.Call) -> Value:
    meter: checked.ExternObject = node.callee.object
    index = expressions.held(c, c.expression(node.arguments[0]))
    to = target(c, node.arguments[1])
    with c.indented(f"if ({_number(index)} < {cells_of(meter)}) {{"):
        colour = f"meter_execute(&{c.objects[meter]}[{_number(index)}], {counts_bytes(meter)})"
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
    digest = c_string(c.digests[data.type])
    c.emit(f"digest_begin({digest});")
    fields = []
    for name, value in _digest_fields(c, "", data):
        bits = as_bits(value.type)
        if bits is None:
            raise unsupported(data.position, f"{value.type} in a digest")
        fields.append(f"{name} {bits.width} bits")
        if is_wide(bits):
            c.emit(f"digest_wide({c_string(name)}, {expressions.held(c, value).text}.b, {size_of(bits)});")
        else:
            c.emit(f"digest_number({c_string(name)}, {unsigned(value.text, bits)});")
    c.emit("digest_end();")
    c.digest_lists[digest] = f"{{{digest}, {c_string(', '.join(fields))}}}"
    return DONE


def _digest_fields(c: Context, name: str, node: s.Expression) -> list[tuple[str, Value]]:
    """What a digest consists of, by the names of fields, or by their places where they have no names."""
    if not isinstance(node, s.ListExpression):
        return _parts(name, c.expression(node))
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


def _clone(c: Context, node: s.Call) -> Value:
    session = c.expression(node.arguments[1]).text
    fields = node.arguments[2].constant if len(node.arguments) == 3 else -1
    c.emit(f"intents.clone = (struct clone_intent){{true, {session}, {fields}}};")
    return DONE


def _again(intent: str, c: Context, node: s.Call) -> Value:
    c.emit(f"intents.{intent} = (struct again_intent){{true, {node.arguments[0].constant}}};")
    return DONE


def _truncate(c: Context, node: s.Call) -> Value:
    c.emit(f"intents.truncate_to = {c.expression(node.arguments[0]).text};")
    return DONE


def _assert(c: Context, node: s.Call) -> Value:
    c.emit(f"if (!{c.expression(node.arguments[0]).text}) assertion_failed({c_string(str(node.position))});")
    return DONE


def _static_assert(c: Context, node: s.Call) -> Value:
    return expressions.constant(c, True, node.type)


def _log_msg(c: Context, node: s.Call) -> Value:
    items = node.arguments[1].items if len(node.arguments) == 2 else []  # type: ignore[union-attr]
    pieces = str(node.arguments[0].constant).replace("%", "%%").split("{}")
    text, shown = pieces[0], ""
    for value, piece in zip(expressions.all_in_order(c, items), pieces[1:], strict=True):
        form, values = _logged(value, node)
        text += form + piece
        shown += "".join(f", {one}" for one in values)
    c.emit(f"log_message({c_string(text)}{shown});")
    return DONE


def _logged(value: Value, node: s.Call) -> tuple[str, list[str]]:
    """How printf shows a value, and what is given to it. A header or struct is (field:value,field:value), as p4c writes it."""
    if isinstance(value.type, Struct):
        place = value.place or Place(value.text)
        fields = [(f.name, _logged(Value(str(place.field(f.name)), f.type), node)) for f in value.type.fields]
        return f"({','.join(f'{name}:{form}' for name, (form, _) in fields)})", [one for _, (_, own) in fields for one in own]
    bits = as_bits(value.type)
    if bits is None or is_wide(bits):
        raise unsupported(node.position, f"log_msg of {value.type}")
    return "%lld" if bits.signed else "%llu", [f"({'' if bits.signed else 'unsigned '}long long){value.text}"]


EXTERNS: dict[tuple[str, str], Callable[[Context, s.Call], Value]] = {
    **packets.EXTERNS,
    **hashes.EXTERNS,
    ("register", "read"): _read,
    ("register", "write"): _write,
    ("counter", "count"): _count,
    ("direct_counter", "count"): _count_directly,
    ("meter", "execute_meter"): _execute_meter,
    ("direct_meter", "read"): _read_directly,
    ("", "mark_to_drop"): _mark_to_drop,
    ("", "random"): _random,
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


CALLS: dict[type, Callable[[Context, s.Call], Value]] = {checked.ExternCall: call}
