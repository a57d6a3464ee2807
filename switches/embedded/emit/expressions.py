"""Checked expressions as C, and what is written where. What an expression does beside its value is written before its statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import checked
from .. import syntax as s
from ..errors import Position
from ..text import c_string
from ..types import (
    BOOL,
    INTEGER,
    STRING,
    ApplyResult,
    Bits,
    EnumType,
    ExternType,
    Header,
    HeaderUnion,
    Stack,
    Struct,
    TupleOf,
    Type,
    Void,
    as_bits,
)  # fmt: skip
from .context import Context, Place, Value
from .ctypes import (
    binary,
    c_type,
    concatenation,
    convert,
    equal,
    is_aggregate,
    literal,
    negative,
    shift,
    slice_of,
    with_slice,
)  # fmt: skip


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
    return in_order(c, [partial(c.expression, node) for node in nodes])


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
    return f"stack_index({c.expression(node.index).text}, {node.base.type.size})"


# --- one rule a kind of expression


def _kept(place_: Place, type_: Type, fixed: bool = False) -> Value:
    """What is kept at a place."""
    return Value(str(place_), type_, fixed, place_)


def _known(c: Context, node: s.Expression) -> Value:
    """Any expression whose value is known."""
    assert node.constant is not None
    return constant(c, node.constant, node.type)


def _old(c: Context, node: s.Old) -> Value:
    return c.old


def _name(c: Context, node: s.Name) -> Value:
    return _kept(c.places[node.symbol], node.type)


def _member(c: Context, node: s.Member) -> Value:
    base = c.expression(node.base)
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
    base = c.expression(node.base)
    if isinstance(base.type, TupleOf):
        return _kept((base.place or Place(base.text)).field(f"f{node.index.constant}"), node.type, base.fixed)
    index = str(node.index.constant) if node.index.constant is not None else _stack_index(c, node)
    return _kept((base.place or Place(base.text)).element(index), node.type)


def _slice(c: Context, node: s.Slice) -> Value:
    text, bits = c.expression(node.base).text, as_bits(node.base.type)
    assert bits is not None
    c_type(c, node.type)
    return Value(slice_of(text, bits, *node.bits, node.position), node.type)


def _unary(c: Context, node: s.Unary) -> Value:
    text = c.expression(node.operand).text
    if node.operator == "!":
        return Value(f"(!{text})", BOOL)
    assert isinstance(node.type, Bits)
    return Value(negative(node.operator, text, node.type, node.position), node.type)


def _binary(c: Context, node: s.Binary) -> Value:
    if node.operator in ("&&", "||"):
        return _logical(c, node)
    a, b = all_in_order(c, [node.left, node.right])
    type_ = a.type
    if node.operator in ("<<", ">>"):
        assert isinstance(type_, Bits)
        by = node.right.constant if isinstance(node.right.constant, int) else None
        amount = b.type if isinstance(b.type, Bits) else None
        return Value(shift(node.operator, a.text, type_, b.text, by, amount, node.position), node.type)
    if node.operator == "++":
        assert isinstance(type_, Bits) and isinstance(b.type, Bits)
        c_type(c, node.type)
        return Value(concatenation(a.text, type_, b.text, b.type, node.position), node.type)
    if not isinstance(type_, Bits):
        same = equal(c, held(c, a), held(c, b), node.position) if as_bits(type_) is None else f"({a.text} == {b.text})"
        return Value(same if node.operator == "==" else f"(!{same})", BOOL)
    divisor = node.right.constant if isinstance(node.right.constant, int) else None
    return Value(binary(node.operator, a.text, b.text, type_, divisor, node.position), node.type)


def _logical(c: Context, node: s.Binary) -> Value:
    a = c.expression(node.left)
    b, before = c.apart(partial(c.expression, node.right))
    if not before:
        return Value(f"({a.text} {node.operator} {b.text})", BOOL)
    result = c.temporary("is")  # what the right side does must happen only if it is evaluated
    c.emit(f"bool {result} = {a.text};")
    with c.indented(f"if ({result if node.operator == '&&' else '!' + result}) {{"):
        c.emit_all(before)
        c.emit(f"{result} = {b.text};")
    return Value(result, BOOL, True)


def _conditional(c: Context, node: s.Conditional) -> Value:
    condition = c.expression(node.condition)
    a, before_a = c.apart(partial(c.expression, node.yes))
    b, before_b = c.apart(partial(c.expression, node.no))
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
    operand = c.expression(node.operand)
    from_, to = operand.type, node.type
    if to == BOOL:
        return Value(f"({operand.text} != 0)", BOOL)
    if from_ == BOOL:
        return Value(f"((uint32_t){operand.text})", to)
    if isinstance(to, EnumType) or isinstance(from_, EnumType):
        return Value(operand.text, to, operand.fixed)
    assert isinstance(from_, Bits) and isinstance(to, Bits)
    c_type(c, to)
    return Value(convert(operand.text, from_, to, node.position), to)


def _list(c: Context, node: s.ListExpression) -> Value:
    """A list as a struct or header: in a temporary, as C has no values of these kinds that could be written in place."""
    made = Place(c.temporary("list"))
    c.emit(f"{c_type(c, node.type)} {made} = {{0}};")
    assign_items(c, made, node, fresh=True)
    return _kept(made, node.type, True)


RULES: dict[type, Callable[[Context, Any], Value]] = {
    s.Old: _old, s.Name: _name, s.Member: _member, s.Index: _index, s.Slice: _slice, s.Unary: _unary, s.Binary: _binary,
    s.Conditional: _conditional, s.Cast: _cast, s.ListExpression: _list, s.Call: Context.call, s.Known: _known,
}  # fmt: skip


# --- overlaps


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


# --- targets: variables, parts of them, and bits of parts


@dataclass(frozen=True)
class Target:
    """What an assignment writes: a place, or `bits` (high, low) of one; `whole` is the place's type, `type` the value's. `others`
    are the other headers of a header union: at most one of a union's headers is valid."""

    place: Place
    whole: Type
    type: Type
    position: Position
    bits: tuple[int, int] | None = None
    others: tuple[Place, ...] = ()


def target(c: Context, node: s.Expression) -> Target:
    """Where to write; indices in it are computed now."""
    if isinstance(node, s.Slice):
        return Target(place(c, node.base), node.base.type, node.type, node.position, node.bits)
    where = place(c, node)
    return Target(where, node.type, node.type, node.position, None, others_of(where, node))


def others_of(place: Place, node: s.Expression) -> tuple[Place, ...]:
    """The other headers of the union that an expression is a header of."""
    if not isinstance(node, s.Member) or not isinstance(node.base.type, HeaderUnion):
        return ()
    return tuple(place.sibling(f.name) for f in node.base.type.fields if f.name != node.name)


def read(to: Target) -> Value:
    """What is there now."""
    if to.bits is None:
        return Value(str(to.place), to.type)
    assert isinstance(to.whole, Bits)
    return Value(slice_of(str(to.place), to.whole, *to.bits, to.position), to.type)


def store(c: Context, to: Target, text: str) -> None:
    """Write a value of the target's type."""
    if to.bits is not None:
        assert isinstance(to.whole, Bits)
        text = with_slice(str(to.place), to.whole, text, *to.bits, to.position)
    c.emit(f"{to.place} = {text};")
    if to.others:
        with c.indented(f"if ({to.place.part('valid')}) {{"):
            invalidate(c, to.others)


def invalidate(c: Context, headers: tuple[Place, ...]) -> None:
    """A header of a union has become valid: the others are not. simple_switch does not count that as a change of length."""
    for header in headers:
        c.emit(f"{header.part('valid')} = false;")


def assign(c: Context, to: Target, node: s.Expression) -> None:
    """Write an expression's value."""
    if isinstance(node, s.ListExpression):
        assign_items(c, to.place, node)
        invalidate(c, to.others)
    else:
        store(c, to, c.expression(node).text)


def assign_items(c: Context, place: Place, node: s.ListExpression, fresh: bool = False) -> None:
    """A list to a struct or header, field by field; all are read before any is written. `fresh`: to a variable that is zero."""
    assert isinstance(node.type, (Struct, TupleOf))
    values = [held(c, value) for value in all_in_order(c, node.items)]
    if isinstance(node.type, Header):
        if fresh:
            c.emit(f"{place.part('valid')} = true;")
        else:
            set_valid(c, place, node.type)
    for f, value in zip(node.type.fields, values, strict=True):
        c.emit(f"{place.field(f.name)} = {value.text};")


def set_valid(c: Context, place: Place, type_: Header, valid: bool = True) -> None:
    """setValid() and setInvalid()."""
    function = "header_set_valid" if valid else "header_set_invalid"
    c.emit(f"{function}(&{place}, sizeof {place}, &{place.part('valid')}, {type_.width // 8});")


def clear(c: Context, place: Place, type_: Type) -> None:
    """Zero a variable; a header becomes invalid."""
    if is_aggregate(type_):
        c.emit(f"memset(&{place}, 0, sizeof {place});")
    else:
        c.emit(f"{place} = 0;")


def local(c: Context, stem: str, type_: Type) -> Place:
    """A new variable of the C function being written, which is zero."""
    name = c.temporary(stem)
    c.emit(f"{c_type(c, type_)} {name} = {'{0}' if is_aggregate(type_) else '0'};")
    return Place(name)
