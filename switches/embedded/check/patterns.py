"""Keys of select cases and of entries: value, value &&& mask, low .. high (section 8.16)."""

from __future__ import annotations

from .. import syntax as s
from ..checked import Pattern, ValueSet
from ..errors import CompileError
from ..types import EnumType, Type, as_bits
from . import expressions
from .context import Checker
from .conversions import coerce
from .scope import Scope

SELECT = "select"  # what stands for the match kind of a select expression
ANY = Pattern("any")


def mask_of(type_: Type) -> int:
    bits = as_bits(type_)
    assert bits is not None
    return bits.mask


def pattern(c: Checker, node: s.Expression, kind: str, type_: Type, scope: Scope) -> Pattern:
    """A key that is known when compiling; `kind` is a match kind or SELECT."""
    if isinstance(node, s.DontCare):
        if kind == "exact":
            raise CompileError(node.position, "an exact key needs a value")
        return ANY
    if kind == SELECT and isinstance(node, s.Name) and isinstance(values := scope.find(node.name), ValueSet):
        if values.fields != [type_]:
            raise CompileError(node.position, f"the values of {values.name} are of another type than {type_}")
        return Pattern("set", values=values)
    if isinstance(node, s.MaskKey):
        return _masked(c, node, kind, type_, scope)
    if isinstance(node, s.RangeKey):
        if kind not in ("range", SELECT):
            raise CompileError(node.position, f".. does not go with match kind {kind}")
        low, high = _known(c, node.low, type_, scope), _known(c, node.high, type_, scope)
        if low > high:
            c.warn(node.position, "this range ends before it starts, and is empty")
        return Pattern("range", low, high)
    value = _known(c, node, type_, scope)
    if kind == "range":
        return Pattern("range", value, value)
    return Pattern("mask", value & mask_of(type_), mask_of(type_))


def _masked(c: Checker, node: s.MaskKey, kind: str, type_: Type, scope: Scope) -> Pattern:
    if kind not in ("ternary", "lpm", SELECT):
        raise CompileError(node.position, f"&&& does not go with match kind {kind}")
    all_ = mask_of(type_)
    value, mask = _known(c, node.value, type_, scope) & all_, _known(c, node.mask, type_, scope) & all_
    if kind == "lpm" and (mask | mask - 1) & all_ != all_ and mask:
        raise CompileError(node.position, f"{mask:#x} is no mask for an lpm key: its ones must be the highest bits")
    if value & ~mask and kind in ("lpm", "ternary"):
        c.warn(node.position, f"bits of {value:#x} outside its mask {mask:#x} are ignored")
    return Pattern("mask", value & mask, mask)


def _known(c: Checker, node: s.Expression, type_: Type, scope: Scope) -> int:
    found = expressions.expression(c, node, scope)
    if isinstance(type_, EnumType) and type_.underlying and not isinstance(found.type, EnumType):
        type_ = type_.underlying
    found = coerce(c, found, type_)
    if not isinstance(found.constant, int):
        raise CompileError(node.position, "a key must be known when compiling")
    return int(found.constant)
