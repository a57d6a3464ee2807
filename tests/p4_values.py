"""Values of P4 types, and the operators on them, by the specification (sections 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inalab.switches.embedded.types import BOOL, Bits, Header, Stack, Struct, TupleOf, Type, bit_width


@dataclass
class Fields:
    """A struct, header, union or tuple; `valid` counts for headers."""

    type: Any
    values: dict[str, Any]
    valid: bool = False


@dataclass
class StackValue:
    """A header stack."""

    type: Stack
    values: list[Any] = field(default_factory=list)


def zero(type_: Type) -> Any:
    """What a variable begins with."""
    if type_ == BOOL:
        return False
    if isinstance(type_, (Struct, TupleOf)):
        return Fields(type_, {f.name: zero(f.type) for f in type_.fields})
    if isinstance(type_, Stack):
        return StackValue(type_, [zero(type_.element) for _ in range(type_.size)])
    return 0


def fit(value: int, type_: Bits) -> int:
    """A number brought into a type's range (sections 8.5 to 8.7)."""
    value &= type_.mask
    return value - (1 << type_.width) if type_.signed and value >> (type_.width - 1) else value


def written(value: Any, type_: Type) -> list[str]:
    """The bits of a value, as text."""
    if isinstance(type_, (Struct, TupleOf)):
        if isinstance(type_, Header) and not value.valid:
            return []
        return [bits for f in type_.fields for bits in written(value.values[f.name], f.type)]
    width = bit_width(type_)
    return [f"{int(value) & (1 << width) - 1:0{width}b}"]


def same(a: Any, b: Any) -> bool:
    """== (section 8.17)."""
    if isinstance(a, Fields):
        if isinstance(a.type, Header) and not (a.valid and b.valid):
            return bool(a.valid == b.valid)
        return all(same(a.values[name], b.values[name]) for name in a.values)
    if isinstance(a, StackValue):
        return all(same(x, y) for x, y in zip(a.values, b.values, strict=True))
    return bool(a == b)


def computed(operator: str, a: int, b: int, type_: Bits) -> Any:
    """An operator on two numbers."""
    low, high = (-(1 << type_.width - 1), (1 << type_.width - 1) - 1) if type_.signed else (0, type_.mask)
    match operator:
        case "<" | ">" | "<=" | ">=":
            return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]
        case "|+|" | "|-|":
            return min(max(a + b if operator == "|+|" else a - b, low), high)
        case "<<":
            return fit(a << b, type_) if b < type_.width else 0
        case ">>":
            return a >> min(b, type_.width)
        case "/" | "%":
            return (a // b if operator == "/" else a % b) if b else 0
    return fit({"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[operator], type_)
