"""Expressions: their types, and the values of those that are known when compiling (section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checked
from .. import syntax as s
from ..advice import advice
from ..errors import CompileError, unsupported
from ..types import (
    BOOL,
    INTEGER,
    STRING,
    ApplyResult,
    Bits,
    EnumType,
    Integer,
    Stack,
    Struct,
    TupleOf,
    Type,
    Varbit,
    as_bits,
    bit_width,
)  # fmt: skip
from . import resolve
from .context import Checker, Constant, Scope, TypeName
from .values import as_scalar, boolean, cast, coerce, fitted, folded, folded_unnamed, in_order_of, known, refuse_union, unified

COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


def typed(node: s.Expression, type_: Type) -> s.Expression:
    node.type = type_
    return node


def condition(c: Checker, node: s.Expression, scope: Scope) -> s.Expression:
    found = c.expression(node, scope)
    if found.type != BOOL:
        raise CompileError(node.position, f"a condition must be bool, and this is {found.type}")
    return found


def is_place(node: s.Expression) -> bool:
    """Whether something can be assigned to an expression."""
    match node:
        case s.Name():
            return isinstance(node.symbol, checked.Variable) and node.symbol.assignable
        case s.Member():
            readable = isinstance(node.base.type, Stack) and node.name != "next"
            return not readable and is_place(node.base)
        case s.Index() | s.Slice():
            return is_place(node.base)
    return False


def place(c: Checker, node: s.Expression, scope: Scope) -> s.Expression:
    """An expression that is assigned to: a variable, a part of one, or bits of a part."""
    found = c.expression(node, scope)
    if not is_place(found):
        raise CompileError(node.position, "this cannot be assigned to")
    if isinstance(found, s.Slice) and not isinstance(found.base.type, Bits):
        raise unsupported(node.position, f"an assignment to a slice of {found.base.type}")
    return found


# --- one rule a kind of expression


def _number(c: Checker, node: s.Number, scope: Scope, expected: Type | None) -> s.Expression:
    return fitted(c, node.position, node.value, INTEGER if node.width is None else Bits(node.width, node.signed))


def _boolean(c: Checker, node: s.Boolean, scope: Scope, expected: Type | None) -> s.Expression:
    return boolean(node.position, node.value)


def _string(c: Checker, node: s.String, scope: Scope, expected: Type | None) -> s.Expression:
    return known(node.position, node.value, STRING)


def _known(c: Checker, node: s.Known | s.Old, scope: Scope, expected: Type | None) -> s.Expression:
    return node


def _name(c: Checker, node: s.Name, scope: Scope, expected: Type | None) -> s.Expression:
    symbol = scope.get(node.name, node.position)
    if isinstance(symbol, checked.Variable):
        node.symbol = symbol
        return typed(node, symbol.type)
    if isinstance(symbol, Constant):
        return known(node.position, symbol.value, symbol.type)
    raise CompileError(node.position, f"{node.name} is no value")


def _member(c: Checker, node: s.Member, scope: Scope, expected: Type | None) -> s.Expression:
    if isinstance(node.base, s.Name):
        symbol = scope.find(node.base.name)
        if isinstance(symbol, TypeName) and isinstance(symbol.type, EnumType):
            return _enum_member(node, symbol.type)
    node.base = c.expression(node.base, scope)
    base = node.base.type
    if isinstance(base, Struct):
        found = base.field(node.name)
        if found is None:
            raise CompileError(node.position, f"{base} has no field {node.name}{advice(node.name, [f.name for f in base.fields])}")
        return typed(node, found.type)
    if isinstance(base, Stack):
        return _stack_member(c, node, base)
    if isinstance(base, ApplyResult) and node.name in ("hit", "miss"):
        return typed(node, BOOL)
    raise CompileError(node.position, f"{base} has no member {node.name}")


def _stack_member(c: Checker, node: s.Member, stack: Stack) -> s.Expression:
    if node.name == "size":
        return known(node.position, stack.size, Bits(32))
    if node.name not in ("next", "last", "lastIndex"):
        raise CompileError(node.position, f"a header stack has no member {node.name}")
    if c.where.inside != "parser":
        raise CompileError(node.position, f"{node.name} of a header stack can be used in a parser only")
    return typed(node, Bits(32) if node.name == "lastIndex" else stack.element)


def _enum_member(node: s.Member | s.ErrorMember, type_: EnumType) -> s.Expression:
    if node.name not in type_.members:
        raise CompileError(node.position, f"{type_} has no member {node.name}")
    return known(node.position, type_.value(node.name), type_)


def _error_member(c: Checker, node: s.ErrorMember, scope: Scope, expected: Type | None) -> s.Expression:
    return _enum_member(node, c.error_type())


def _index(c: Checker, node: s.Index, scope: Scope, expected: Type | None) -> s.Expression:
    node.base = c.expression(node.base, scope)
    node.index = c.expression(node.index, scope)
    stack, index = node.base.type, node.index.constant
    if isinstance(stack, TupleOf):
        if not isinstance(index, int) or not 0 <= index < len(stack.members):
            raise CompileError(node.position, f"{stack} has {len(stack.members)} members: an index must be known, and among them")
        return typed(node, stack.members[index])
    if not isinstance(stack, Stack):
        raise CompileError(node.position, f"{stack} cannot be indexed")
    if isinstance(index, int):
        if not 0 <= index < stack.size:
            raise CompileError(node.position, f"index {index} is not within {stack}")
    else:
        node.index = as_scalar(node.index)
    return typed(node, stack.element)


def _slice(c: Checker, node: s.Slice, scope: Scope, expected: Type | None) -> s.Expression:
    node.base = as_scalar(c.expression(node.base, scope))
    high, low = resolve.number(c, node.high, scope), resolve.number(c, node.low, scope)
    base = node.base.type
    if not 0 <= low <= high < base.width:
        raise CompileError(node.position, f"[{high}:{low}] is not within {base}")
    node.bits = high, low
    type_ = Bits(high - low + 1)
    if isinstance(node.base, s.Slice):  # of bits that are a slice already
        below = node.base.bits[1]
        node.base, node.bits = node.base.base, (high + below, low + below)
    if isinstance(node.base.constant, int):
        return known(node.position, (node.base.constant & base.mask) >> low, type_)
    return typed(node, type_)


def _unary(c: Checker, node: s.Unary, scope: Scope, expected: Type | None) -> s.Expression:
    if node.operator == "!":
        node.operand = condition(c, node.operand, scope)
        value = node.operand.constant
        return typed(node, BOOL) if value is None else boolean(node.position, not value)
    operand = c.expression(node.operand, scope)
    value = operand.constant
    if operand.type == INTEGER and isinstance(value, int):
        if node.operator == "~":
            raise CompileError(node.position, "~ needs a number with a width")
        return known(node.position, -value if node.operator == "-" else value, INTEGER)
    node.operand = as_scalar(operand)
    if node.operator == "+":
        return node.operand
    if isinstance(value, int):
        return known(node.position, ~value if node.operator == "~" else -value, node.operand.type)
    return typed(node, node.operand.type)


def _binary(c: Checker, node: s.Binary, scope: Scope, expected: Type | None) -> s.Expression:
    if node.operator in ("&&", "||"):
        return _logical(c, node, scope)
    a, b = c.expression(node.left, scope), c.expression(node.right, scope)
    if a.type == INTEGER and b.type == INTEGER:
        assert isinstance(a.constant, int) and isinstance(b.constant, int)
        return folded_unnamed(node.operator, a.constant, b.constant, node.position)
    if node.operator in ("<<", ">>"):
        return _shift(c, node, a, b)
    if node.operator == "++":
        return _concatenation(node, as_scalar(a), as_scalar(b))
    if node.operator in ("==", "!="):
        a, b = _comparable(c, a, b)
    if node.operator not in ("==", "!=") or a.type != b.type or not _has_equality(a.type):
        a, b = unified(c, a, b, node.position)
        a, b = as_scalar(a), as_scalar(b)
    if node.operator in ("/", "%"):
        if a.type.signed:
            raise CompileError(node.position, f"{node.operator} is not defined on {a.type}")
        if b.constant == 0:
            raise CompileError(node.position, "division by zero")
    node.left, node.right = a, b
    return folded(node.operator, a, b, node.position) or typed(node, BOOL if node.operator in COMPARISONS else a.type)


def _has_equality(type_: Type) -> bool:
    return type_ == BOOL or isinstance(type_, (EnumType, Struct, TupleOf, Stack, Varbit))


def _comparable(c: Checker, a: s.Expression, b: s.Expression) -> tuple[s.Expression, s.Expression]:
    """A list, compared with a header, struct or tuple, is one of its kind."""
    if isinstance(a, s.ListExpression) and not isinstance(b, s.ListExpression) and isinstance(b.type, (Struct, TupleOf)):
        return coerce(c, a, b.type), b
    if isinstance(b, s.ListExpression) and not isinstance(a, s.ListExpression) and isinstance(a.type, (Struct, TupleOf)):
        return a, coerce(c, b, a.type)
    return a, b


def _logical(c: Checker, node: s.Binary, scope: Scope) -> s.Expression:
    node.left, node.right = condition(c, node.left, scope), condition(c, node.right, scope)
    x, y = node.left.constant, node.right.constant
    if x is None or y is None:
        return typed(node, BOOL)
    return boolean(node.position, bool(x and y if node.operator == "&&" else x or y))


def _shift(c: Checker, node: s.Binary, a: s.Expression, b: s.Expression) -> s.Expression:
    """<< and >>: the result has the type of the left operand; amounts beyond its width empty it."""
    if a.type == INTEGER:
        raise CompileError(node.position, "the left side of a shift needs a width")
    a = as_scalar(a)
    b = b if b.type == INTEGER else as_scalar(b)
    by = b.constant
    if not isinstance(by, int):
        if b.type.signed:
            raise CompileError(node.position, "the amount of a shift must be unsigned")
        node.left, node.right = a, b
        return typed(node, a.type)
    if by < 0:
        raise CompileError(node.position, f"the amount of a shift is negative: {by}")
    if by >= bit_width(a.type):
        c.warn(node.position, f"shifting value with {bit_width(a.type)} bits by {by}")
    if isinstance(a.constant, int):
        if node.operator == "<<":
            return fitted(c, node.position, a.constant << min(by, 4095), a.type)
        return known(node.position, a.constant >> min(by, 4095), a.type)
    node.left, node.right = a, known(b.position, by, INTEGER)
    return typed(node, a.type)


def _concatenation(node: s.Binary, a: s.Expression, b: s.Expression) -> s.Expression:
    """++: the left operand's bits above the right's."""
    type_ = Bits(a.type.width + b.type.width, a.type.signed)
    if isinstance(a.constant, int) and isinstance(b.constant, int):
        return known(node.position, (a.constant << b.type.width) | (b.constant & b.type.mask), type_)
    node.left, node.right = a, b
    return typed(node, type_)


def _conditional(c: Checker, node: s.Conditional, scope: Scope, expected: Type | None) -> s.Expression:
    node.condition = condition(c, node.condition, scope)
    a, b = c.expression(node.yes, scope, expected), c.expression(node.no, scope, expected)
    if isinstance(a.type, Integer) and isinstance(b.type, Integer):
        if node.condition.constant is None:
            raise CompileError(node.position, "one side of ?: needs a width")
        return a if node.condition.constant else b
    if a.type != b.type:
        a, b = unified(c, a, b, node.position)
    if node.condition.constant is not None:
        return a if node.condition.constant else b
    node.yes, node.no = a, b
    return typed(node, a.type)


def _cast(c: Checker, node: s.Cast, scope: Scope, expected: Type | None) -> s.Expression:
    assert node.written is not None
    type_ = resolve.resolve(c, node.written, scope)
    return cast(c, c.expression(node.operand, scope, type_), type_, node.position)


def _list(c: Checker, node: s.ListExpression, scope: Scope, expected: Type | None) -> s.Expression:
    """{a, b}: its items, each brought to the type expected of it."""
    if any(isinstance(item, s.NamedItem) for item in node.items):
        node.names = [item.name for item in node.items if isinstance(item, s.NamedItem)]
        node.items = [item.value if isinstance(item, s.NamedItem) else item for item in node.items]
    if not isinstance(expected, (Struct, TupleOf)):
        node.items = [c.expression(item, scope) for item in node.items]
        return typed(node, TupleOf(tuple(item.type for item in node.items)))
    refuse_union(node, expected)
    types = [f.type for f in expected.fields]
    if isinstance(expected, Struct) and node.names:
        node.items, node.names = in_order_of(expected, node), None
    if len(node.items) != len(types):
        raise CompileError(node.position, f"{expected} has {len(types)} fields, and {len(node.items)} are given")
    node.items = [coerce(c, c.expression(item, scope, t), t) for item, t in zip(node.items, types, strict=True)]
    return typed(node, expected)


RULES: dict[type, Callable[[Checker, Any, Scope, Type | None], s.Expression]] = {
    s.Number: _number, s.Boolean: _boolean, s.String: _string, s.Known: _known, s.Old: _known, s.Name: _name, s.Member: _member,
    s.ErrorMember: _error_member, s.Index: _index, s.Slice: _slice, s.Unary: _unary, s.Binary: _binary, s.Conditional: _conditional,
    s.Cast: _cast, s.ListExpression: _list,
}  # fmt: skip


# --- keys of select cases and of entries: value, value &&& mask, low .. high (section 8.16)


SELECT = "select"  # what stands for the match kind of a select expression
ANY = checked.Pattern("any")


def mask_of(type_: Type) -> int:
    bits = as_bits(type_)
    assert bits is not None
    return bits.mask


def pattern(c: Checker, node: s.Expression, kind: str, type_: Type, scope: Scope) -> checked.Pattern:
    """A key that is known when compiling; `kind` is a match kind or SELECT."""
    if isinstance(node, s.DontCare):
        if kind == "exact":
            raise CompileError(node.position, "an exact key needs a value")
        return ANY
    if kind == SELECT and isinstance(node, s.Name) and isinstance(values := scope.find(node.name), checked.ValueSet):
        if values.fields != [type_]:
            raise CompileError(node.position, f"the values of {values.name} are of another type than {type_}")
        return checked.Pattern("set", values=values)
    if isinstance(node, s.MaskKey):
        return _masked(c, node, kind, type_, scope)
    if isinstance(node, s.RangeKey):
        if kind not in ("range", SELECT):
            raise CompileError(node.position, f".. does not go with match kind {kind}")
        low, high = _known_key(c, node.low, type_, scope), _known_key(c, node.high, type_, scope)
        if low > high:
            c.warn(node.position, "this range ends before it starts, and is empty")
        return checked.Pattern("range", low, high)
    value = _known_key(c, node, type_, scope)
    if kind == "range":
        return checked.Pattern("range", value, value)
    return checked.Pattern("mask", value & mask_of(type_), mask_of(type_))


def _masked(c: Checker, node: s.MaskKey, kind: str, type_: Type, scope: Scope) -> checked.Pattern:
    if kind not in ("ternary", "lpm", SELECT):
        raise CompileError(node.position, f"&&& does not go with match kind {kind}")
    all_ = mask_of(type_)
    value, mask = _known_key(c, node.value, type_, scope) & all_, _known_key(c, node.mask, type_, scope) & all_
    if kind == "lpm" and (mask | mask - 1) & all_ != all_ and mask:
        raise CompileError(node.position, f"{mask:#x} is no mask for an lpm key: its ones must be the highest bits")
    if value & ~mask and kind in ("lpm", "ternary"):
        c.warn(node.position, f"bits of {value:#x} outside its mask {mask:#x} are ignored")
    return checked.Pattern("mask", value & mask, mask)


def _known_key(c: Checker, node: s.Expression, type_: Type, scope: Scope) -> int:
    found = c.expression(node, scope)
    if isinstance(type_, EnumType) and type_.underlying and not isinstance(found.type, EnumType):
        type_ = type_.underlying
    found = coerce(c, found, type_)
    if not isinstance(found.constant, int):
        raise CompileError(node.position, "a key must be known when compiling")
    return int(found.constant)
