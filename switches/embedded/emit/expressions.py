"""Checked expressions as C. What an expression does beside its value is written before the statement that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import checked
from .. import syntax as s
from ..text import c_string
from ..types import (
    BOOL,
    INTEGER,
    STRING,
    ApplyResult,
    Bits,
    EnumType,
    ExternType,
    Stack,
    Struct,
    TupleOf,
    Type,
    Void,
    as_bits,
)  # fmt: skip
from . import arithmetic, assignment, calls
from .context import Context, Value
from .ctypes import c_type, literal
from .equality import equal
from .place import Place


def expression(c: Context, node: s.Expression) -> Value:
    if node.constant is not None:
        return constant(c, node.constant, node.type)
    return RULES[type(node)](c, node)


def constant(c: Context, value: int | bool | str, type_: Type) -> Value:
    """A value that is known when compiling."""
    if type_ == STRING:
        return Value(c_string(str(value)), type_, True)
    if type_ == BOOL:
        return Value("true" if value else "false", type_, True)
    if type_ == INTEGER:
        return Value(str(value), type_, True)
    bits = as_bits(type_)
    assert bits is not None
    c_type(c, bits)
    return Value(literal(int(value), bits), type_, True)


def in_order(c: Context, evaluations: Sequence[Callable[[], Value]]) -> list[Value]:
    """Values of expressions evaluated from left to right (section 8.1): what a later one does changes no earlier one."""
    values: list[Value] = []
    for evaluate in evaluations:
        value, before = c.apart(evaluate)
        if before:
            values = [held(c, v) for v in values]
            c.emit_all(before)
        values.append(value)
    return values


def all_in_order(c: Context, nodes: Sequence[s.Expression]) -> list[Value]:
    return in_order(c, [partial(expression, c, node) for node in nodes])


def held(c: Context, value: Value) -> Value:
    """The value in a temporary of its own, unless nothing can change it."""
    if value.fixed or isinstance(value.type, (ApplyResult, ExternType, Void)):
        return value
    name = c.temporary()
    c.emit(f"const {c_type(c, value.type)} {name} = {value.text};")
    return Value(name, value.type, True, Place(name))


# --- places


def place(c: Context, node: s.Expression) -> Place:
    """Where something is that can be assigned to. An index in it is computed now, once."""
    match node:
        case s.Name():
            return c.places[node.symbol]
        case s.Member() if isinstance(node.base.type, Stack):
            stack = place(c, node.base)
            return stack.element(f"{stack.part('next_')}")
        case s.Member():
            return place(c, node.base).field(node.name)
        case s.Index() if isinstance(node.base.type, TupleOf):
            return place(c, node.base).field(f"f{node.index.constant}")
        case s.Index():
            stack = place(c, node.base)
            if node.index.constant is not None:
                return stack.element(str(node.index.constant))
            index = c.temporary("index")
            c.emit(f"const uint32_t {index} = {_stack_index(c, node)};")
            return stack.element(index)
    raise TypeError(f"{type(node).__name__} has no place")


def _stack_index(c: Context, node: s.Index) -> str:
    """Beyond the end lies one spare element, which nothing reads."""
    assert isinstance(node.base.type, Stack)
    return f"stack_index({expression(c, node.index).text}, {node.base.type.size})"


# --- one rule a kind of expression


def _kept(place_: Place, type_: Type, fixed: bool = False) -> Value:
    """What is kept at a place."""
    return Value(str(place_), type_, fixed, place_)


def _old(c: Context, node: s.Old) -> Value:
    return c.old


def _name(c: Context, node: s.Name) -> Value:
    return _kept(c.places[node.symbol], node.type)


def _member(c: Context, node: s.Member) -> Value:
    base = expression(c, node.base)
    inside = base.place or Place(base.text)
    if isinstance(base.type, Stack):
        following = f"{inside.part('next_')}"
        if node.name == "lastIndex":
            return Value(f"({following} - 1)", node.type)
        index = following if node.name == "next" else f"stack_last({following}, {base.type.size})"
        return _kept(inside.element(index), node.type)
    if isinstance(base.type, Struct):
        return _kept(inside.field(node.name), node.type, base.fixed)
    return Value(f"{base.text}.hit" if node.name == "hit" else f"(!{base.text}.hit)", BOOL, True)


def _index(c: Context, node: s.Index) -> Value:
    base = expression(c, node.base)
    if isinstance(base.type, TupleOf):
        return _kept((base.place or Place(base.text)).field(f"f{node.index.constant}"), node.type, base.fixed)
    index = str(node.index.constant) if node.index.constant is not None else _stack_index(c, node)
    return _kept((base.place or Place(base.text)).element(index), node.type)


def _slice(c: Context, node: s.Slice) -> Value:
    text, bits = expression(c, node.base).text, as_bits(node.base.type)
    assert bits is not None
    c_type(c, node.type)
    return Value(arithmetic.slice_of(text, bits, *node.bits, node.position), node.type)


def _unary(c: Context, node: s.Unary) -> Value:
    text = expression(c, node.operand).text
    if node.operator == "!":
        return Value(f"(!{text})", BOOL)
    assert isinstance(node.type, Bits)
    return Value(arithmetic.negative(node.operator, text, node.type, node.position), node.type)


def _binary(c: Context, node: s.Binary) -> Value:
    if node.operator in ("&&", "||"):
        return _logical(c, node)
    a, b = all_in_order(c, [node.left, node.right])
    type_ = a.type
    if node.operator in ("<<", ">>"):
        assert isinstance(type_, Bits)
        by = node.right.constant if isinstance(node.right.constant, int) else None
        amount = b.type if isinstance(b.type, Bits) else None
        return Value(arithmetic.shift(node.operator, a.text, type_, b.text, by, amount, node.position), node.type)
    if node.operator == "++":
        assert isinstance(type_, Bits) and isinstance(b.type, Bits)
        c_type(c, node.type)
        return Value(arithmetic.concatenation(a.text, type_, b.text, b.type, node.position), node.type)
    if not isinstance(type_, Bits):
        same = equal(c, held(c, a), held(c, b), node.position) if as_bits(type_) is None else f"({a.text} == {b.text})"
        return Value(same if node.operator == "==" else f"(!{same})", BOOL)
    divisor = node.right.constant if isinstance(node.right.constant, int) else None
    return Value(arithmetic.binary(node.operator, a.text, b.text, type_, divisor, node.position), node.type)


def _logical(c: Context, node: s.Binary) -> Value:
    a = expression(c, node.left)
    b, before = c.apart(partial(expression, c, node.right))
    if not before:
        return Value(f"({a.text} {node.operator} {b.text})", BOOL)
    result = c.temporary("is")  # what the right side does must happen only if it is evaluated
    c.emit(f"bool {result} = {a.text};")
    with c.indented(f"if ({result if node.operator == '&&' else '!' + result}) {{"):
        c.emit_all(before)
        c.emit(f"{result} = {b.text};")
    return Value(result, BOOL, True)


def _conditional(c: Context, node: s.Conditional) -> Value:
    condition = expression(c, node.condition)
    a, before_a = c.apart(partial(expression, c, node.yes))
    b, before_b = c.apart(partial(expression, c, node.no))
    if not before_a and not before_b:
        return Value(f"({condition.text} ? {a.text} : {b.text})", node.type)
    result = c.temporary()  # what a side does must happen only if it is evaluated
    c.emit(f"{c_type(c, node.type)} {result};")
    for opening, before, side in ((f"if ({condition.text}) {{", before_a, a), ("else {", before_b, b)):
        with c.indented(opening):
            c.emit_all(before)
            c.emit(f"{result} = {side.text};")
    return Value(result, node.type, True)


def _cast(c: Context, node: s.Cast) -> Value:
    operand = expression(c, node.operand)
    from_, to = operand.type, node.type
    if to == BOOL:
        return Value(f"({operand.text} != 0)", BOOL)
    if from_ == BOOL:
        return Value(f"((uint32_t){operand.text})", to)
    if isinstance(to, EnumType) or isinstance(from_, EnumType):
        return Value(operand.text, to, operand.fixed)
    assert isinstance(from_, Bits) and isinstance(to, Bits)
    c_type(c, to)
    return Value(arithmetic.convert(operand.text, from_, to, node.position), to)


def _list(c: Context, node: s.ListExpression) -> Value:
    """A list as a struct or header: in a temporary, as C has no values of these kinds that could be written in place."""
    made = Place(c.temporary("list"))
    c.emit(f"{c_type(c, node.type)} {made} = {{0}};")
    assignment.assign_items(c, made, node, fresh=True)
    return _kept(made, node.type, True)


def _call(c: Context, node: s.Call) -> Value:
    return calls.call(c, node)


RULES: dict[type, Callable[[Context, Any], Value]] = {
    s.Old: _old, s.Name: _name, s.Member: _member, s.Index: _index, s.Slice: _slice, s.Unary: _unary, s.Binary: _binary,
    s.Conditional: _conditional, s.Cast: _cast, s.ListExpression: _list, s.Call: _call,
}  # fmt: skip


def static_place(node: s.Expression) -> tuple[checked.Variable, tuple[str, ...]] | None:
    """The variable, and the way from it, that an expression always stands for; None where that depends on anything."""
    match node:
        case s.Name():
            return node.symbol, ()
        case s.Member() if isinstance(node.base.type, Struct):
            step = f".{node.name}"
        case s.Index() if node.index.constant is not None:
            step = f"[{node.index.constant}]"
        case _:
            return None
    base = static_place(node.base)
    return None if base is None else (base[0], (*base[1], step))


def may_overlap(a: s.Expression, b: s.Expression) -> bool:
    """Whether two expressions may stand for places one of which is part of the other."""
    if not _variable(a) or _variable(a) is not _variable(b):
        return False
    x, y = static_place(a), static_place(b)
    if x is None or y is None:
        return True
    shorter = min(len(x[1]), len(y[1]))
    return x[1][:shorter] == y[1][:shorter]


def _variable(node: s.Expression) -> checked.Variable | None:
    while isinstance(node, (s.Member, s.Index, s.Slice)):
        node = node.base
    return node.symbol if isinstance(node, s.Name) else None
