"""Bits on the wire: headers read and written, and values laid side by side for hashes, checksums and table keys."""

from __future__ import annotations

from dataclasses import dataclass

from switches.embedded import syntax as s
from switches.embedded.emit import expressions
from switches.embedded.emit.context import Context, Value
from switches.embedded.emit.ctypes import is_wide, size_of, storage
from switches.embedded.emit.place import Place
from switches.embedded.errors import Position, unsupported
from switches.embedded.types import Bits, Header, Stack, Struct, Varbit, as_bits

RUN = 4  # fields of one width, side by side, that are worth a loop


@dataclass(frozen=True)
class Cell:
    """A scalar at a bit offset of a buffer: a `place` if it can be read into, or has an address; a value's `text` otherwise."""

    text: str
    offset: int
    type: Bits
    place: Place | None = None


def header_cells(header: Header, place: Place) -> tuple[list[Cell], Place | None]:
    """The fixed fields of a header in wire order, and its varbit, which comes last."""
    cells: list[Cell] = []
    offset = 0
    for f in header.fields:
        where = place.field(f.name)
        if isinstance(f.type, Varbit):
            return cells, where
        bits = as_bits(f.type)
        assert bits is not None
        cells.append(Cell(str(where), offset, bits, where))
        offset += bits.width
    return cells, None


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
                c.emit(f"store_bits({buffer}, {cell.offset}, {cell.type.width}, {_pattern(cell)});")
        return
    parts = []
    for cell in group:
        shift = size * 8 - (cell.offset - start) - cell.type.width
        parts.append(f"((uint64_t){_pattern(cell)} << {shift})" if shift else _pattern(cell))
    c.emit(f"store{size * 8}({where}, {' | '.join(parts)});")


def _run(cells: list[Cell], start: int) -> int:
    """How many cells from `start` are byte-aligned neighbours of one unsigned width that C has, in one struct."""
    first = cells[start]
    if first.place is None or first.type.width not in (8, 16, 32, 64) or first.offset % 8 or first.type.signed:
        return 1
    n = 1
    while start + n < len(cells) and cells[start + n].type == first.type and _siblings(first.place, cells[start + n].place):
        n += 1
    return n


def _siblings(a: Place, b: Place | None) -> bool:
    """Whether two places are members of one struct."""
    return b is not None and a.root == b.root and len(a.path) == len(b.path) > 0 and a.path[:-1] == b.path[:-1]


def _pattern(cell: Cell) -> str:
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


# --- values side by side


def pack(c: Context, node: s.Expression, extra: str = "") -> tuple[str, int]:
    """A buffer with a list's values side by side from bit 0, structs field by field; its C name and its size in bytes."""
    nodes = _leaves(node)
    cells: list[Cell] = []
    bits = 0
    for leaf, value in zip(nodes, expressions.all_in_order(c, nodes), strict=True):
        bits = _lay(c, value, cells, bits, leaf.position)
    size = (bits + 7) // 8
    buffer = c.temporary("data")
    c.emit(f"uint8_t {buffer}[{max(size, 1)}{extra}];")
    if bits % 8:
        c.emit(f"{buffer}[{size - 1}] = 0;")
    write_cells(c, cells, buffer)
    return buffer, size


def _leaves(node: s.Expression) -> list[s.Expression]:
    """The expressions in a list, and in the lists in it."""
    return [leaf for item in node.items for leaf in _leaves(item)] if isinstance(node, s.ListExpression) else [node]


def _lay(c: Context, value: Value, cells: list[Cell], offset: int, position: Position) -> int:
    """Add a value's cells; where the next one begins."""
    type_ = value.type
    if isinstance(type_, Header):  # an invalid one would count for nothing, and that is known at run time only
        raise unsupported(position, f"a whole header ({type_}) in a list for a hash, checksum or digest: list its fields")
    if isinstance(type_, Struct):
        place = value.place or Place(value.text)
        for f in type_.fields:
            inner = place.field(f.name)
            offset = _lay(c, Value(str(inner), f.type, value.fixed, inner), cells, offset, position)
        return offset
    bits = as_bits(type_)
    if bits is None:
        raise unsupported(position, f"{type_} as input of a hash, checksum or digest")
    if is_wide(bits) and value.place is None:
        value = expressions.held(c, value)
    cells.append(Cell(value.text, offset, bits, value.place))
    return offset + bits.width


# --- packet_out


def emit_packet(c: Context, value: Value, position: Position) -> None:
    """packet_out.emit of a header, a stack or a struct of them (section 16)."""
    place, type_ = value.place or Place(value.text), value.type
    if isinstance(type_, Stack):
        with c.indented(f"for (unsigned i_ = 0; i_ < {type_.size}; i_++) {{"):
            element = place.element("i_")
            emit_packet(c, Value(str(element), type_.element, False, element), position)
    elif isinstance(type_, Header):
        cells, varbit = header_cells(type_, place)
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
