"""== of headers, structs and stacks (section 8.17): a C function for each type."""

from __future__ import annotations

from ..errors import Position, unsupported
from ..types import Header, Stack, Struct, TupleOf, Type, Varbit, as_bits
from .context import Context, Value
from .ctypes import c_type, is_wide
from .names import c_name


def equal(c: Context, a: Value, b: Value, position: Position) -> str:
    """C that compares two variables of one type."""
    return _call(c, a.type, a.text, b.text, position)


def _call(c: Context, type_: Type, a: str, b: str, position: Position) -> str:
    if is_wide(type_):
        return f"(!wide_differ({a}, {b}))"
    if as_bits(type_) is not None:
        return f"({a} == {b})"
    if not isinstance(type_, (Struct, TupleOf, Stack, Varbit)):
        raise unsupported(position, f"a comparison of {type_}")
    return f"{_function(c, type_, position)}(&{a}, &{b})"


def _function(c: Context, type_: Struct | TupleOf | Stack | Varbit, position: Position) -> str:
    """The name of the C function that compares two of a type."""
    of = c_type(c, type_)
    name = f"equal${of.removeprefix('struct ')}"
    if name in c.declared:
        return name
    c.declared.add(name)
    match type_:
        case Varbit():
            test = "a->used == b->used && memcmp(a->bytes, b->bytes, a->used) == 0"
        case Stack():
            elements = (_call(c, type_.element, f"a->at[{i}]", f"b->at[{i}]", position) for i in range(type_.size))
            test = " && ".join(elements)
        case Struct() | TupleOf():
            fields = [_call(c, f.type, f"a->{c_name(f.name)}", f"b->{c_name(f.name)}", position) for f in type_.fields]
            test = " && ".join(fields) or "true"
            if isinstance(type_, Header):
                test = f"a->valid == b->valid && (!a->valid || ({test}))"
    c.functions.append(f"static bool {name}(const {of} *a, const {of} *b) {{\n    return {test};\n}}\n")
    return name
