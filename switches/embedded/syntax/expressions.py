"""Types as a program writes them (section 7) and expressions (section 8), each of which has the other in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import Position


@dataclass
class Node:
    """Anything in the tree."""

    position: Position


@dataclass
class NamedType(Node):
    """A type by its name, with its type arguments."""

    name: str
    arguments: list[TypeRef] = field(default_factory=list)


@dataclass
class BitsType(Node):
    """bit<width>, or int<width> if signed."""

    width: Expression
    signed: bool


@dataclass
class BareType(Node):
    """bool, error, string, void, `int` of any size, or `_`, a type argument that is left open."""

    name: str


@dataclass
class VarbitType(Node):
    """varbit<width>."""

    width: Expression


@dataclass
class StackType(Node):
    """element[size]."""

    element: NamedType
    size: Expression


@dataclass
class TupleType(Node):
    """tuple<members>."""

    members: list[TypeRef]


TypeRef = NamedType | BitsType | BareType | VarbitType | StackType | TupleType


# --- expressions


@dataclass
class Typed(Node):
    """An expression. `constant` is its value where that is known when compiling; of an enum, the member's number."""

    type: Any = field(init=False, default=None, compare=False, repr=False)  # a switches.embedded.types.Type
    constant: int | bool | str | None = field(init=False, default=None, compare=False, repr=False)


@dataclass
class Name(Typed):
    """`symbol` is what it stands for: a checked.Variable, where it is no constant."""

    name: str
    symbol: Any = field(init=False, default=None, compare=False, repr=False)


@dataclass
class Number(Typed):
    """An integer literal; width None for one of any size."""

    value: int
    width: int | None = None
    signed: bool = False


@dataclass
class Boolean(Typed):
    value: bool


@dataclass
class String(Typed):
    value: str


@dataclass
class Known(Typed):
    """What the checker puts in the place of an expression whose value it has computed."""


@dataclass
class Old(Typed):
    """What the target of `target += value` was before, put there by the checker: the target is evaluated once."""


@dataclass
class Member(Typed):
    base: Expression
    name: str


@dataclass
class ErrorMember(Typed):
    name: str


@dataclass
class Index(Typed):
    base: Expression
    index: Expression


@dataclass
class Slice(Typed):
    """base[high:low]; `bits` are the two numbers."""

    base: Expression
    high: Expression
    low: Expression
    bits: tuple[int, int] = field(init=False, default=(0, 0), compare=False, repr=False)


@dataclass
class Unary(Typed):
    operator: str
    operand: Expression


@dataclass
class Binary(Typed):
    operator: str
    left: Expression
    right: Expression


@dataclass
class Conditional(Typed):
    condition: Expression
    yes: Expression
    no: Expression


@dataclass
class Cast(Typed):
    """Also the conversions that P4 makes by itself (section 8.11.2): the checker adds them."""

    written: TypeRef | None
    operand: Expression


@dataclass
class Call(Typed):
    """`callee` is what is called (see check/calls.py). The checker brings arguments into the order of the parameters."""

    function: Expression
    arguments: list[Expression]
    type_arguments: list[TypeRef] = field(default_factory=list)
    callee: Any = field(init=False, default=None, compare=False, repr=False)


@dataclass
class ListExpression(Typed):
    """{a, b} or {x = a, y = b}. The items of the second are NamedItem; the checker keeps their `names` until it knows the type."""

    items: list[Expression]
    names: list[str] | None = field(init=False, default=None, compare=False, repr=False)


@dataclass
class NamedItem(Typed):
    name: str
    value: Expression


@dataclass
class DontCare(Typed):
    """`_` or `default` as a key, or `_` as an argument."""


@dataclass
class MaskKey(Typed):
    value: Expression
    mask: Expression


@dataclass
class RangeKey(Typed):
    low: Expression
    high: Expression


Expression = (
    Name | Number | Boolean | String | Known | Old | Member | ErrorMember | Index | Slice | Unary | Binary | Conditional | Cast
    | Call | ListExpression | NamedItem | DontCare | MaskKey | RangeKey
)  # fmt: skip
