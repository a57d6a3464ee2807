"""Bits on the wire: headers read and written, and the methods of packet_in and packet_out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import syntax as s
from ..errors import Position, unsupported
from ..types import Bits, Header, HeaderUnion, Stack, Struct, Type, Varbit, as_bits, bit_width
from . import expressions
from .context import DONE, Context, Place, Value
from .ctypes import c_type, is_wide, size_of, storage
from .expressions import invalidate, local, others_of

RUN = 4  # fields of one width, side by side, that are worth a loop
FAIL = "goto fail;"


@dataclass(frozen=True)
class Cell:
    """A scalar at a bit offset of a buffer: a `place` if it can be read into, or has an address; a value's `text` otherwise.

    `member` is its number in its struct if the whole struct is laid, None otherwise.
    """

    text: str
    offset: int
    type: Bits
    place: Place | None = None
    member: int | None = None


def cells_of(type_: Struct, place: Place) -> tuple[list[Cell], Place | None]:
    """The fixed fields of a header or struct in wire order, and the header's varbit, which comes last."""
    cells: list[Cell] = []
    for i, f in enumerate(type_.fields):
        where = place.field(f.name)
        if isinstance(f.type, Varbit):
            return cells, where
        _add_cells(cells, f.type, where, i)
    return cells, None


def _add_cells(cells: list[Cell], type_: Type, place: Place, member: int) -> None:
    if isinstance(type_, Struct):
        for i, f in enumerate(type_.fields):
            _add_cells(cells, f.type, place.field(f.name), i)
        return
    if isinstance(type_, Stack):
        for i in range(type_.size):
            _add_cells(cells, type_.element, place.element(str(i)), i)
        return
    bits = as_bits(type_)
    assert bits is not None
    offset = cells[-1].offset + cells[-1].type.width if cells else 0
    cells.append(Cell(str(place), offset, bits, place, member))


def read_cells(c: Context, cells: list[Cell], buffer: str) -> None:
    """Loads of all cells from `buffer`."""
    i = 0
    while i < len(cells):
        run, cell = _run(cells, i), cells[i]
        if run >= RUN:
            c.emit(f"load_run{cell.type.width}(&{cell.text}, {buffer} + {cell.offset // 8}, {run});")
            i += run
        else:
            c.emit(f"{cell.text} = {load(cell.type, buffer, cell.offset)};")
            i += 1


def write_cells(c: Context, cells: list[Cell], buffer: str) -> None:
    """Stores of all cells to `buffer`; neighbours that share a byte go together."""
    i = 0
    while i < len(cells):
        run = _run(cells, i)
        if run >= RUN:
            first = cells[i]
            c.emit(f"store_run{first.type.width}({buffer} + {first.offset // 8}, &{first.text}, {run});")
            i += run
            continue
        group = [cells[i]]
        while (group[-1].offset + group[-1].type.width) % 8 and i + len(group) < len(cells):
            group.append(cells[i + len(group)])
        _write_group(c, group, buffer)
        i += len(group)


def _write_group(c: Context, group: list[Cell], buffer: str) -> None:
    start, end = group[0].offset, group[-1].offset + group[-1].type.width
    where = f"{buffer} + {start // 8}"
    if len(group) == 1 and is_wide(group[0].type) and start % 8 == 0 and end % 8 == 0:
        c.emit(f"memcpy({where}, &{group[0].text}, {size_of(group[0].type)});")
        return
    size = (end - start + 7) // 8
    if size > 8 or any(is_wide(cell.type) for cell in group):
        for cell in group:
            if is_wide(cell.type):
                c.emit(f"store_wide({buffer}, {cell.offset}, {cell.type.width}, {cell.text}.b);")
            else:
                c.emit(f"store_bits({buffer}, {cell.offset}, {cell.type.width}, {pattern(cell)});")
        return
    parts = []
    for cell in group:
        shift = size * 8 - (cell.offset - start) - cell.type.width
        parts.append(f"((uint64_t){pattern(cell)} << {shift})" if shift else pattern(cell))
    c.emit(f"store{size * 8}({where}, {' | '.join(parts)});")


def _run(cells: list[Cell], start: int) -> int:
    """How many cells from `start` are byte-aligned neighbours of one unsigned width that C has, side by side in one struct."""
    first = cells[start]
    if (
        first.place is None
        or first.member is None
        or first.type.width not in (8, 16, 32, 64)
        or first.offset % 8
        or first.type.signed
    ):
        return 1
    n = 1
    while start + n < len(cells) and _follows(first, cells[start + n], n):
        n += 1
    return n


def _follows(first: Cell, cell: Cell, n: int) -> bool:
    """Whether a cell is the n-th behind another in their struct."""
    assert first.place is not None and first.member is not None
    return cell.type == first.type and cell.member == first.member + n and _siblings(first.place, cell.place)


def _siblings(a: Place, b: Place | None) -> bool:
    """Whether two places are members of one struct."""
    return b is not None and a.root == b.root and len(a.path) == len(b.path) > 0 and a.path[:-1] == b.path[:-1]


def pattern(cell: Cell) -> str:
    """A cell's bits as an unsigned C number."""
    if cell.type.signed:
        return f"({cell.text} & {hex(cell.type.mask)}u{'' if cell.type.width <= 32 else 'll'})"
    return cell.text if cell.text.isidentifier() else f"({cell.text})"


def load(type_: Bits, buffer: str, offset: int) -> str:
    """C that reads one value at a bit offset of a buffer."""
    if is_wide(type_):
        return f"LOAD_WIDE({storage(type_)}, {buffer}, {offset}, {type_.width})"
    first, last = offset // 8, (offset + type_.width - 1) // 8
    size = last - first + 1
    if size > 8:
        text = f"load_bits({buffer}, {offset}, {type_.width})"
    else:
        after = (last + 1) * 8 - offset - type_.width
        text = f"load{size * 8}({buffer} + {first})"
        if after:
            text = f"({text} >> {after})"
        if size * 8 - after != type_.width:
            text = f"({text} & {hex(type_.mask)})"
    return f"sign_extend{32 if type_.width <= 32 else 64}({text}, {type_.width})" if type_.signed else text


# --- packet_out


def emit_packet(c: Context, value: Value, position: Position) -> None:
    """packet_out.emit of a header, a stack or a struct of them (section 16)."""
    place, type_ = value.place or Place(value.text), value.type
    if isinstance(type_, Stack):
        with c.indented(f"for (unsigned i_ = 0; i_ < {type_.size}; i_++) {{"):
            element = place.element("i_")
            emit_packet(c, Value(str(element), type_.element, False, element), position)
    elif isinstance(type_, Header):
        cells, varbit = cells_of(type_, place)
        with c.indented(f"if ({place.part('valid')}) {{"):
            write_cells(c, cells, "out")
            c.emit(f"out += {type_.width // 8};")
            if varbit is not None:
                c.emit(f"memcpy(out, {varbit.part('bytes')}, {varbit.part('used')});")
                c.emit(f"out += {varbit.part('used')};")
    elif isinstance(type_, Struct):
        for f in type_.fields:
            field = place.field(f.name)
            emit_packet(c, Value(str(field), f.type, False, field), position)
    else:
        raise unsupported(position, f"emit of {type_}")


def _emit(c: Context, node: s.Call) -> Value:
    for one in _items(node.arguments[0]):
        emit_packet(c, c.expression(one), node.position)
    return DONE


def _items(node: s.Expression) -> list[s.Expression]:
    return [inner for item in node.items for inner in _items(item)] if isinstance(node, s.ListExpression) else [node]


# --- packet_in (section 13.8), and verify


def fail(c: Context, error: str) -> None:
    c.emit(f"error$ = {c.error(error)}u; // {error}")
    c.emit(FAIL)


def _need(c: Context, size: str) -> None:
    with c.indented(f"if ((size_t)(end - at) < {size}) {{"):
        fail(c, "PacketTooShort")


def _extract(c: Context, node: s.Call) -> Value:
    argument = node.arguments[0]
    assert isinstance(argument.type, Header)
    unused = isinstance(argument, s.DontCare)
    place = local(c, "unused", argument.type) if unused else expressions.place(c, argument)
    following = _following(c, argument)
    if following is not None:
        place_of_next, size_of_stack = following
        with c.indented(f"if ({place_of_next} >= {size_of_stack}) {{"):
            fail(c, "StackOutOfBounds")
    cells, varbit = cells_of(argument.type, place)
    size = argument.type.width // 8
    if varbit is None:
        _need(c, str(size))
    else:
        extra = _varbit_bits(c, node, argument.type)
    read_cells(c, cells, "at")
    c.emit(f"{place.part('valid')} = true;")
    invalidate(c, others_of(place, argument))
    c.emit(f"at += {size};")
    if varbit is not None:
        c.emit(f"{varbit.part('used')} = {extra} / 8;")
        c.emit(f"memcpy({varbit.part('bytes')}, at, {extra} / 8);")
        c.emit(f"at += {extra} / 8;")
    if following is not None:
        c.emit(f"{place_of_next}++;")
    return DONE


def _following(c: Context, argument: s.Expression) -> tuple[Place, int] | None:
    """The counter and the size of the stack whose .next is extracted, or a header of a union that is .next."""
    if isinstance(argument, s.Member) and isinstance(argument.base.type, HeaderUnion):
        argument = argument.base
    if isinstance(argument, s.Member) and isinstance(argument.base.type, Stack):
        return expressions.place(c, argument.base).part("next_"), argument.base.type.size
    return None


def _varbit_bits(c: Context, node: s.Call, header: Header) -> str:
    """The length of the varbit field that is extracted, once it is known to be possible."""
    extra = c.temporary("bits")
    c.emit(f"const uint32_t {extra} = {c.expression(node.arguments[1]).text};")
    with c.indented(f"if ({extra} % 8) {{"):
        fail(c, "ParserInvalidArgument")
    _need(c, f"{header.width // 8} + {extra} / 8")
    most = next(f.type.width for f in header.fields if isinstance(f.type, Varbit))
    with c.indented(f"if ({extra} > {most}) {{"):
        fail(c, "HeaderTooShort")
    return extra


def _advance(c: Context, node: s.Call) -> Value:
    bits = expressions.held(c, c.expression(node.arguments[0])).text
    with c.indented(f"if ({bits} % 8) {{"):
        fail(c, "ParserInvalidArgument")
    _need(c, f"{bits} / 8")
    c.emit(f"at += {bits} / 8;")
    return DONE


def _lookahead(c: Context, node: s.Call) -> Value:
    type_ = node.type
    if isinstance(type_, Struct):
        made = local(c, "ahead", type_)
        _need(c, str((bit_width(type_) + 7) // 8))
        read_cells(c, cells_of(type_, made)[0], "at")
        for header in _headers(type_, made):
            c.emit(f"{header.part('valid')} = true;")
        return Value(str(made), type_, True, made)
    bits = as_bits(type_)
    assert bits is not None
    c_type(c, bits)
    _need(c, str(size_of(bits)))
    return expressions.held(c, Value(load(bits, "at", 0), type_))


def _headers(type_: Type, place: Place) -> list[Place]:
    """The headers in a value."""
    match type_:
        case Header():
            return [place]
        case Struct():
            return [header for f in type_.fields for header in _headers(f.type, place.field(f.name))]
        case Stack():
            return [header for i in range(type_.size) for header in _headers(type_.element, place.element(str(i)))]
    return []


def _verify(c: Context, node: s.Call) -> Value:
    condition_, error = expressions.all_in_order(c, node.arguments)
    with c.indented(f"if (!{condition_.text}) {{"):
        c.emit(f"error$ = {error.text};")
        c.emit(FAIL)
    return DONE


def _length(c: Context, node: s.Call) -> Value:
    return Value("packet_length", node.type)


EXTERNS: dict[tuple[str, str], Callable[[Context, s.Call], Value]] = {
    ("packet_in", "extract"): _extract,
    ("packet_in", "advance"): _advance,
    ("packet_in", "lookahead"): _lookahead,
    ("packet_in", "length"): _length,
    ("packet_out", "emit"): _emit,
    ("", "verify"): _verify,
}
