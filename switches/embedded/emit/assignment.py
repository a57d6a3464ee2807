"""What is written where: variables, parts of them, and bits of parts."""

from __future__ import annotations

from dataclasses import dataclass

from .. import syntax as s
from ..errors import Position
from ..types import Bits, Header, HeaderUnion, Struct, TupleOf, Type
from . import arithmetic, expressions
from .context import Context, Value
from .ctypes import c_type, is_aggregate
from .place import Place


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
        return Target(expressions.place(c, node.base), node.base.type, node.type, node.position, node.bits)
    place = expressions.place(c, node)
    return Target(place, node.type, node.type, node.position, None, others_of(place, node))


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
    return Value(arithmetic.slice_of(str(to.place), to.whole, *to.bits, to.position), to.type)


def store(c: Context, to: Target, text: str) -> None:
    """Write a value of the target's type."""
    if to.bits is not None:
        assert isinstance(to.whole, Bits)
        text = arithmetic.with_slice(str(to.place), to.whole, text, *to.bits, to.position)
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
        store(c, to, expressions.expression(c, node).text)


def assign_items(c: Context, place: Place, node: s.ListExpression, fresh: bool = False) -> None:
    """A list to a struct or header, field by field; all are read before any is written. `fresh`: to a variable that is zero."""
    assert isinstance(node.type, (Struct, TupleOf))
    values = [expressions.held(c, value) for value in expressions.all_in_order(c, node.items)]
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
