"""Bits on the wire: headers read and written, and values laid side by side for hashes, checksums and table keys."""

from __future__ import annotations

from dataclasses import dataclass

from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.expressions import Expressions
from switches.embedded.scope import Value
from switches.embedded.types import Bits, Bool, Header, Stack, Struct, Varbit, as_bits, bit_width, c_name, c_type
from switches.embedded.unit import MAX_PACKET

RUN = 4  # fields of one width, side by side, that are worth a loop


@dataclass(frozen=True)
class Cell:
    """One scalar at a bit offset of a buffer; `text` is a place (reading) or a value (writing) in C."""

    text: str
    offset: int
    type: Bits
    boolean: bool = False


class Wire(Expressions):
    """Reads and writes bit layouts."""

    emitted = 0  # bytes that the deparser has emitted at most, on the path to where it is being translated

    def header_cells(self, header: Header, text: str) -> tuple[list[Cell], Varbit | None]:
        """The fixed fields of a header in wire order, and its varbit (which must come last)."""
        cells, offset, varbit = [], 0, None
        for f in header.fields:
            if isinstance(f.type, Varbit):
                varbit = f.type
                continue
            if varbit is not None:
                raise unsupported(None, f"a field behind the varbit of header {header.name}")
            bits = as_bits(f.type)
            assert bits is not None
            cells.append(Cell(f"{text}.{c_name(f.name)}", offset, bits))
            offset += bits.width
        return cells, varbit

    def read_cells(self, cells: list[Cell], buffer: str) -> None:
        """Emit loads of all cells from `buffer`."""
        i = 0
        while i < len(cells):
            run = _run(cells, i)
            if run >= RUN:
                first = cells[i]
                self.emit(f"load_run{first.type.width}(&{first.text}, {buffer} + {first.offset // 8}, {run});")
                i += run
            else:
                cell = cells[i]
                self.emit(f"{cell.text} = {load(cell.type, buffer, cell.offset)};")
                i += 1

    def write_cells(self, cells: list[Cell], buffer: str) -> None:
        """Emit stores of all cells to `buffer`; neighbours that share a byte go together."""
        i = 0
        while i < len(cells):
            run = _run(cells, i)
            if run >= RUN and not cells[i].boolean:
                first = cells[i]
                self.emit(f"store_run{first.type.width}({buffer} + {first.offset // 8}, &{first.text}, {run});")
                i += run
                continue
            group = [cells[i]]
            while (group[-1].offset + group[-1].type.width) % 8 and i + len(group) < len(cells):
                group.append(cells[i + len(group)])
            self._write_group(group, buffer)
            i += len(group)

    def _write_group(self, group: list[Cell], buffer: str) -> None:
        start, end = group[0].offset, group[-1].offset + group[-1].type.width
        where = f"{buffer} + {start // 8}"
        if len(group) == 1 and group[0].type.wide and start % 8 == 0 and end % 8 == 0:
            self.emit(f"memcpy({where}, &{group[0].text}, {group[0].type.size});")
            return
        size = (end - start + 7) // 8
        if size > 8 or any(c.type.wide for c in group):
            for cell in group:
                if cell.type.wide:
                    self.emit(f"store_wide({buffer}, {cell.offset}, {cell.type.width}, {cell.text}.b);")
                else:
                    self.emit(f"store_bits({buffer}, {cell.offset}, {cell.type.width}, {_pattern(cell)});")
            return
        parts = []
        for cell in group:
            shift = size * 8 - (cell.offset - start) - cell.type.width
            parts.append(f"((uint64_t){_pattern(cell)} << {shift})" if shift else f"{_pattern(cell)}")
        self.emit(f"store{size * 8}({where}, {' | '.join(parts)});")

    def flatten(self, values: list[Value], position: Position) -> tuple[list[Cell], int]:
        """Values side by side from bit 0, structs and headers field by field; the cells and the bits in all."""
        cells: list[Cell] = []
        offset = 0

        def add(value: Value) -> None:
            nonlocal offset
            if value.items is not None:
                for item in value.items:
                    add(item)
            elif isinstance(value.type, Header):  # an invalid one would count for nothing, and that is known at run time only
                raise unsupported(
                    position, f"a whole header ({value.type}) in a list for a hash, checksum or digest: list its fields"
                )
            elif isinstance(value.type, Struct):
                for f in value.type.fields:
                    add(Value(f"{value.text}.{c_name(f.name)}", f.type))
            elif (bits := as_bits(value.type)) is not None:
                text = value.text
                if bits.wide and not text.replace(".", "").replace("_", "").isalnum():
                    text = self.temporary("wide")
                    self.emit(f"const {bits.storage} {text} = {value.text};")
                cells.append(Cell(text, offset, bits, isinstance(value.type, Bool)))
                offset += bits.width
            else:
                raise unsupported(position, f"{value.type} as input of a hash, checksum or digest")

        for value in values:
            add(value)
        return cells, offset

    def pack(self, values: list[Value], position: Position, extra: str = "") -> tuple[str, int]:
        """Emit a buffer with the values side by side; its C name and its size in bytes."""
        cells, bits = self.flatten(values, position)
        size = (bits + 7) // 8
        buffer = self.temporary("data")
        self.emit(f"uint8_t {buffer}[{max(size, 1)}{extra}];")
        if bits % 8:
            self.emit(f"{buffer}[{size - 1}] = 0;")
        simple = [cell if _addressable(cell) else Cell(cell.text, cell.offset, cell.type, True) for cell in cells]
        self.write_cells(simple, buffer)
        return buffer, size

    def emit_size(self, value: Value) -> int:
        """The most bytes that emit of a header, a stack, a struct or a list of them writes."""
        if value.items is not None:
            return sum(map(self.emit_size, value.items))
        if isinstance(value.type, Stack):
            return value.type.size * self.emit_size(Value("", value.type.element))
        if isinstance(value.type, Header):
            return sum(bit_width(f.type) for f in value.type.fields) // 8
        if isinstance(value.type, Struct):
            return sum(self.emit_size(Value("", f.type)) for f in value.type.fields)
        return 0

    def count_emitted(self, size: int, position: Position) -> None:
        """Add to what the deparser emits on the path to here; more than a packet holds is an error."""
        self.emitted += size
        if self.emitted > MAX_PACKET:
            raise CompileError(
                position,
                f"the deparser can emit {self.emitted} bytes up to here, and a packet has at most {MAX_PACKET}: "
                "make header stacks or varbit fields smaller, or emit fewer headers",
            )

    def emit_value(self, value: Value, position: Position) -> None:
        """Emit packet_out.emit of a header, a stack or a struct of them (section 16)."""
        if isinstance(value.type, Stack):
            with self.indented(f"for (unsigned i_ = 0; i_ < {value.type.size}; i_++) {{"):
                self.emit_value(Value(f"{value.text}.at[i_]", value.type.element), position)
        elif isinstance(value.type, Header):
            cells, varbit = self.header_cells(value.type, value.text)
            with self.indented(f"if ({value.text}.valid) {{"):
                self.write_cells(cells, "out")
                self.emit(f"out += {value.type.width // 8};")
                if varbit is not None:
                    name = f"{value.text}.{c_name(value.type.fields[-1].name)}"
                    self.emit(f"memcpy(out, {name}.bytes, {name}.used);")
                    self.emit(f"out += {name}.used;")
        elif isinstance(value.type, Struct):
            for f in value.type.fields:
                self.emit_value(Value(f"{value.text}.{c_name(f.name)}", f.type), position)
        elif value.items is not None:
            for item in value.items:
                self.emit_value(item, position)
        else:
            raise unsupported(position, f"emit of {value.type}")

    def clear(self, value: Value) -> None:
        """Emit the zeroing of a variable; a header becomes invalid."""
        if isinstance(value.type, (Struct, Stack, Varbit)) or (isinstance(value.type, Bits) and value.type.wide):
            self.emit(f"memset(&{value.text}, 0, sizeof {value.text});")
        else:
            self.emit(f"{value.text} = 0;")

    def declare_local(self, name: str, type_: object) -> str:
        """Emit a zeroed local variable of the C function being written; its C name."""
        assert type_ is not None
        c = self.unique(name)
        self.emit(f"{c_type(type_)} {c} = {'{0}' if _aggregate(type_) else '0'};")  # type: ignore[arg-type]
        return c


def _aggregate(type_: object) -> bool:
    return isinstance(type_, (Struct, Stack, Varbit)) or (isinstance(type_, Bits) and type_.wide)


def load(type_: Bits, buffer: str, offset: int) -> str:
    """C that reads one value at a bit offset of a buffer."""
    if type_.wide:
        return f"LOAD_WIDE({type_.storage}, {buffer}, {offset}, {type_.width})"
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
    if type_.signed:
        bits = 32 if type_.width <= 32 else 64
        return f"sign_extend{bits}({text}, {type_.width})"
    return text


def _run(cells: list[Cell], start: int) -> int:
    """How many cells from `start` are byte-aligned neighbours of one unsigned width that C has, in one struct."""
    first = cells[start]
    if first.type.width not in (8, 16, 32, 64) or first.offset % 8 or first.type.signed or "." not in first.text:
        return 1
    parent = first.text.rpartition(".")[0]
    n = 1
    while start + n < len(cells) and cells[start + n].type == first.type and cells[start + n].text.rpartition(".")[0] == parent:
        n += 1
    return n if "(" not in first.text else 1


def _addressable(cell: Cell) -> bool:
    return not cell.boolean and all(ch.isalnum() or ch in "_." for ch in cell.text)


def _pattern(cell: Cell) -> str:
    if cell.type.signed:
        return f"({cell.text} & {hex(cell.type.mask)}u)" if cell.type.width <= 32 else f"({cell.text} & {hex(cell.type.mask)}ull)"
    return cell.text if cell.text.isidentifier() else f"({cell.text})"
