"""Value sets (section 12.11): what select looks up in them."""

from __future__ import annotations

from .. import checked
from ..text import c_string
from ..types import as_bits
from .context import Context
from .ctypes import c_type, is_wide
from .wire import Cell, pattern


def test(c: Context, values: checked.ValueSet, keys: list[str]) -> str:
    """C that tells whether keys are, side by side, one of the values."""
    if values not in c.named:
        c.named[values] = _declare(c, values)
    return f"{c.named[values]}({', '.join(keys)})"


def _declare(c: Context, values: checked.ValueSet) -> str:
    """The C function of a value set; a value is right-aligned in whole bytes, as commands write it."""
    name = c.unique("_".join((*values.path, values.name)))
    fields = [bits for f in values.fields if (bits := as_bits(f)) is not None]
    width = sum(bits.width for bits in fields)
    size = (width + 7) // 8
    c.globals.append(f"static uint8_t {name}_values[{values.size}][{size}];")
    c.globals.append(
        f"static struct value_set {name} = {{{c_string(values.control_name)}, {width}, {values.size}, 0, {name}_values[0]}};"
    )
    c.value_sets.append(name)
    parameters = ", ".join(f"const {c_type(c, f)} key{i}" for i, f in enumerate(values.fields))
    with c.function(f"static bool in_{name}({parameters})", f"value_set {values.control_name} ({values.position})"):
        c.emit(f"uint8_t value[{size}] = {{0}};")
        c.emit(f"unsigned at = {size * 8 - width};")
        for i, bits in enumerate(fields):
            if is_wide(bits):
                c.emit(f"at = append_wide(value, at, {bits.width}, key{i}.b);")
            else:
                c.emit(f"at = append_bits(value, at, {bits.width}, {pattern(Cell(f'key{i}', 0, bits))});")
        c.emit("(void)at;")
        c.emit(f"return value_set_has(&{name}, value);")
    return f"in_{name}"
