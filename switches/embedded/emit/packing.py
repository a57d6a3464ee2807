"""Values side by side, as input of a hash or checksum.

A field of a header that is not valid counts for nothing: simple_switch leaves it out, and what follows moves up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from .. import checked
from .. import syntax as s
from ..errors import Position, unsupported
from ..types import BOOL, Header, HeaderUnion, Struct, TupleOf, Varbit, as_bits
from . import expressions
from .context import Context, Value
from .ctypes import is_wide
from .place import Place
from .wire import Cell, pattern, write_cells


@dataclass(frozen=True)
class Part:
    """A number, or a varbit; C text that tells whether the header that it is a field of is `valid`, empty if it is of none."""

    what: Cell | Place
    valid: str
    width: int  # at most


def pack(c: Context, node: s.Expression, known_valid: Collection[str] = (), extra: str = "") -> tuple[str, str]:
    """A buffer with a list's values from its first bit on, structs field by field; its C name, and its size in bytes in C.

    Headers that are `known_valid` are not looked at. There are `extra` bytes behind the values.
    """
    nodes = _leaves(node)
    parts: list[Part] = []
    evaluated = expressions.in_order(c, [evaluate for leaf in nodes for evaluate in _evaluations(c, leaf)])
    for leaf, value, valid in zip(nodes, evaluated[::2], evaluated[1::2], strict=True):
        _lay(c, value, parts, valid.text, leaf.position)
    guards = list(dict.fromkeys(p.valid for p in parts if p.valid and p.valid not in known_valid))
    bits = sum(p.width for p in parts)
    size = (bits + 7) // 8
    buffer = c.temporary("data")
    c.emit(f"uint8_t {buffer}[{max(size, 1)}{extra}];")
    cells = [p.what for p in parts if isinstance(p.what, Cell)]
    if not guards and len(cells) == len(parts):
        _write_all(c, cells, bits, buffer)
        return buffer, str(size)
    used = c.temporary("bits")
    c.emit(f"unsigned {used} = {bits};")
    if len(cells) < len(parts):
        _write_one_by_one(c, parts, guards, buffer, used)
    else:
        with c.indented(f"if ({' && '.join(guards)}) {{"):
            _write_all(c, cells, bits, buffer)
        with c.indented("else {"):
            _write_one_by_one(c, parts, guards, buffer, used)
    return buffer, f"(({used} + 7) / 8)"


def known_valid(c: Context, condition: s.Expression) -> set[str]:
    """C text of what is true where a condition holds: header.isValid(), also in `&&`."""
    match condition:
        case s.Binary(operator="&&"):
            return known_valid(c, condition.left) | known_valid(c, condition.right)
        case s.Call(callee=checked.BuiltIn("isValid"), function=s.Member(base=base)) if isinstance(base.type, Header):
            place = expressions.expression(c, base).place
            return set() if place is None else {f"{place.part('valid')}"}
    return set()


def _write_all(c: Context, cells: list[Cell], bits: int, buffer: str) -> None:
    """What is all there, at places known when compiling."""
    if bits % 8:
        c.emit(f"{buffer}[{bits // 8}] = 0;")
    write_cells(c, cells, buffer)


def _write_one_by_one(c: Context, parts: list[Part], guards: list[str], buffer: str, used: str) -> None:
    """What is there, one behind the other."""
    c.emit(f"memset({buffer}, 0, {max((sum(p.width for p in parts) + 7) // 8, 1)});")
    c.emit(f"{used} = 0;")
    for part in parts:
        if isinstance(part.what, Place):
            append = f"append_bytes({buffer}, {used}, {part.what.part('used')}, {part.what.part('bytes')})"
        elif is_wide(part.what.type):
            append = f"append_wide({buffer}, {used}, {part.width}, {part.what.text}.b)"
        else:
            append = f"append_bits({buffer}, {used}, {part.width}, {pattern(part.what)})"
        condition = f"if ({part.valid}) " if part.valid in guards else ""
        c.emit(f"{condition}{used} = {append};")


def _leaves(node: s.Expression) -> list[s.Expression]:
    """The expressions in a list, and in the lists in it."""
    return [leaf for item in node.items for leaf in _leaves(item)] if isinstance(node, s.ListExpression) else [node]


def _evaluations(c: Context, node: s.Expression) -> list[Callable[[], Value]]:
    """Of an expression, and then of whether the header is valid that it is a field of: no text if it is of none."""
    found: list[Value] = []

    def value() -> Value:
        found.append(expressions.expression(c, node))
        return found[0]

    def valid() -> Value:
        inside, steps, place = node, 0, found[0].place
        while isinstance(inside, s.Member) and place is not None:
            inside, steps = inside.base, steps + 1
            if isinstance(inside.type, Header):
                return Value(f"{Place(place.root, place.path[:-steps]).part('valid')}", BOOL)
        return Value("", BOOL, True)

    return [value, valid]


def _lay(c: Context, value: Value, parts: list[Part], valid: str, position: Position, member: int | None = None) -> None:
    """Add a value's parts; the cells are where they are if all is there. `member`: its number in the struct that is laid."""
    type_, place = value.type, value.place or Place(value.text)
    if isinstance(type_, (Struct, TupleOf)) and not isinstance(type_, HeaderUnion):
        if isinstance(type_, Header):
            valid = f"{place.part('valid')}"
        for i, f in enumerate(type_.fields):
            inner = place.field(f.name)
            _lay(c, Value(str(inner), f.type, value.fixed, inner), parts, valid, position, i)
        return
    if isinstance(type_, Varbit):
        parts.append(Part(place, valid, type_.width))
        return
    bits = as_bits(type_)
    if bits is None:
        raise unsupported(position, f"{type_} as input of a hash or checksum")
    if is_wide(bits) and value.place is None:
        value = expressions.held(c, value)
    parts.append(Part(Cell(value.text, sum(p.width for p in parts), bits, value.place, member), valid, bits.width))
