"""Registers, counters and meters as C arrays, and what the control plane needs to know of them."""

from __future__ import annotations

from .. import checked
from ..errors import CompileError, unsupported
from ..text import c_string
from ..types import Bits, EnumType, as_bits
from .context import Context
from .ctypes import c_type, storage
from .names import c_name

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
