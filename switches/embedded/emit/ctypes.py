"""How C holds P4's types.

bit<W> and int<W> up to 64 bits are the next larger C integer, kept masked (or sign-extended) to W bits. Wider ones are
big-endian byte arrays in a struct, so that C can assign them. A header is a struct with its fields and a `valid` byte; a stack is a
struct with its elements, one spare element, and `next_`.
"""

from __future__ import annotations

import re

from ..types import Bits, Bool, EnumType, Header, Stack, Struct, TupleOf, Type, Varbit, Void, as_bits
from .context import Context
from .names import c_name


def is_wide(type_: Type) -> bool:
    """True where C has no integer for it."""
    return isinstance(type_, Bits) and type_.width > 64


def is_aggregate(type_: Type) -> bool:
    return isinstance(type_, (Struct, TupleOf, Stack, Varbit)) or is_wide(type_)


def size_of(bits: Bits) -> int:
    """Bytes that hold it on the wire, rounded up."""
    return (bits.width + 7) // 8


def storage(bits: Bits) -> str:
    """The C type of a variable."""
    if bits.width > 64:
        return f"wide{size_of(bits)}_t"
    size = next(b for b in (8, 16, 32, 64) if bits.width <= b)
    return f"{'int' if bits.signed else 'uint'}{size}_t"


def compute(bits: Bits) -> str:
    """The C type in which arithmetic happens: at least 32 bits, so that C's promotions change nothing."""
    if bits.width > 64:
        return storage(bits)
    return f"{'int' if bits.signed else 'uint'}{32 if bits.width <= 32 else 64}_t"


def c_type(c: Context, type_: Type) -> str:
    """The C type of a variable; declares it, and what it consists of, at its first use."""
    match type_:
        case Bits():
            if is_wide(type_):
                _once(c, storage(type_), f"typedef struct {{ uint8_t b[{size_of(type_)}]; }} {storage(type_)};")
            return storage(type_)
        case Bool():
            return "bool"
        case EnumType():
            return storage(type_.underlying) if type_.underlying else "uint32_t"
        case Struct() | TupleOf():
            return _struct(c, type_)
        case Stack():
            element = c_type(c, type_.element)
            name = f"{element}_stack{type_.size}"
            _once(c, name, f"{name} {{ {element} at[{type_.size + 1}]; uint32_t next_; }};")
            return name
        case Varbit():
            name = f"struct varbit{type_.width // 8}"
            _once(c, name, f"{name} {{ uint32_t used; uint8_t bytes[{type_.width // 8}]; }};")
            return name
        case Void():
            return "void"
    raise TypeError(f"{type_} has no C type")


def _once(c: Context, name: str, text: str) -> None:
    if name not in c.declared:
        c.declared.add(name)
        c.types.append(text)


def _struct(c: Context, type_: Struct | TupleOf) -> str:
    if str(type_) == "standard_metadata_t":  # the runtime has its own, in the same order
        return "struct standard_metadata_t"
    if str(type_) not in c.type_names:
        written = ("p4_" if isinstance(type_, Struct) else "") + re.sub(r"\W+", "_", str(type_))
        c.type_names[str(type_)] = "struct " + c.unique(written)
    name = c.type_names[str(type_)]
    if name not in c.declared:
        members = [f"    {c_type(c, f.type)} {c_name(f.name)};" for f in type_.fields]
        if isinstance(type_, Header):
            members.append("    bool valid;")  # a field of that name is valid$
        text = "\n".join(members or ["    char empty_;"])
        _once(c, name, f"{name} {{\n{text}\n}};")
    return name


def literal(value: int, type_: Bits) -> str:
    """A constant of a type, in C."""
    value &= type_.mask
    if is_wide(type_):
        return f"(({storage(type_)}){{{{{', '.join(map(str, value.to_bytes(size_of(type_), 'big')))}}}}})"
    if type_.signed:
        if value >> (type_.width - 1):
            value -= 1 << type_.width
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"{value}" if type_.width <= 32 else f"INT64_C({value})"
    shown = str(value) if value < 10 else hex(value)
    return f"{shown}u" if type_.width <= 32 else f"UINT64_C({shown})"


def bits_of(type_: Type) -> Bits:
    """The bits behind a scalar type."""
    bits = as_bits(type_)
    assert bits is not None
    return bits
