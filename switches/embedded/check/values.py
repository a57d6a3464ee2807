"""Values that are known when compiling, and conversions (sections 8 and 8.11): the checker writes each into the tree."""

from __future__ import annotations

from collections.abc import Callable

from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import BOOL, INTEGER, Bits, EnumType, HeaderUnion, Stack, Struct, TupleOf, Type
from .context import Checker

COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
LONGEST_SHIFT = 4096  # of a number without a width
OPERATIONS: dict[str, Callable[[int, int], int | bool]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def known(position: Position, value: int | bool | str, type_: Type) -> s.Known:
    """An expression of this value, which wraps to the width of its type."""
    if isinstance(type_, Bits) and not isinstance(value, (bool, str)):
        value &= type_.mask
        if type_.signed and value >> (type_.width - 1):
            value -= 1 << type_.width
    node = s.Known(position)
    node.type, node.constant = type_, value
    return node


def boolean(position: Position, value: int | bool) -> s.Known:
    return known(position, bool(value), BOOL)


def fitted(c: Checker, position: Position, value: int, type_: Type) -> s.Known:
    """A constant of a type; p4c cuts one that does not fit, and warns."""
    if message := overflow(value, type_):
        c.warn(position, message)
    return known(position, value, type_)


def overflow(value: int, type_: Type) -> str | None:
    """What p4c warns of where a constant is cut to fit its type, None where it fits."""
    if not isinstance(type_, Bits):
        return None
    if type_.signed:
        limit = 1 << (type_.width - 1)
        return None if -limit <= value < limit else f"{value}: signed value does not fit in {type_.width} bits"
    if value < 0:
        return f"{value}: negative value with unsigned type"
    return None if value <= type_.mask else f"{value}: value does not fit in {type_.width} bits"


def fold(operator: str, a: int, b: int, position: Position) -> int | bool:
    """A binary operator on two known numbers."""
    if operator in ("/", "%") and b == 0:
        raise CompileError(position, "division by zero")
    if operator in ("<<", ">>") and not 0 <= b < LONGEST_SHIFT:
        raise CompileError(position, f"a shift by {b} is not possible")
    return OPERATIONS[operator](a, b)


def saturate(operator: str, a: int, b: int, type_: Bits) -> int:
    """|+| and |-|."""
    exact = a + b if operator == "|+|" else a - b
    low, high = (-(1 << (type_.width - 1)), (1 << (type_.width - 1)) - 1) if type_.signed else (0, type_.mask)
    return min(max(exact, low), high)


def folded(operator: str, a: s.Expression, b: s.Expression, position: Position) -> s.Known | None:
    """An operator on two operands of one type, if both are known."""
    x, y, type_ = a.constant, b.constant, a.type
    if not isinstance(x, int) or not isinstance(y, int):
        return None
    if operator in ("|+|", "|-|"):
        assert isinstance(type_, Bits)
        return known(position, saturate(operator, x, y, type_), type_)
    result = fold(operator, x, y, position)
    return boolean(position, result) if operator in COMPARISONS else known(position, result, type_)


def folded_unnamed(operator: str, a: int, b: int, position: Position) -> s.Known:
    """An operator on two numbers without a width."""
    if operator in ("++", "|+|", "|-|"):
        raise CompileError(position, f"{operator} needs numbers with a width")
    if operator in ("/", "%", "&", "|", "^") and (a < 0 or b < 0):
        raise CompileError(position, f"{operator} is not defined on negative numbers")
    result = fold(operator, a, b, position)
    return boolean(position, result) if operator in COMPARISONS else known(position, result, INTEGER)


# --- conversions


def converted(node: s.Expression, type_: Type, constant: int | bool | None = None) -> s.Expression:
    """A cast to a type."""
    made = s.Cast(node.position, None, node)
    made.type, made.constant = type_, constant
    return made


def coerce(c: Checker, node: s.Expression, type_: Type) -> s.Expression:
    """The expression at `type_`, by a conversion that P4 makes by itself (section 8.11.2); an error where there is none."""
    if node.type == type_:
        return node
    if isinstance(type_, Bits):
        if node.type == INTEGER and isinstance(node.constant, int):
            return fitted(c, node.position, node.constant, type_)
        if isinstance(node.type, EnumType) and node.type.underlying == type_:
            return as_scalar(node)
    if isinstance(type_, (Struct, TupleOf)) and isinstance(node, s.ListExpression):
        return _list(c, node, type_)
    raise CompileError(node.position, f"this is {node.type}, where {type_} is needed")


def _list(c: Checker, node: s.ListExpression, type_: Struct | TupleOf) -> s.Expression:
    """A list whose items were checked before it was known what it is for."""
    refuse_union(node, type_)
    types = [f.type for f in type_.fields]
    items = in_order_of(type_, node) if isinstance(type_, Struct) and node.names else node.items
    if len(types) != len(items):
        raise CompileError(node.position, f"{type_} has {len(types)} fields, and {len(items)} are given")
    node.items = [coerce(c, item, t) for item, t in zip(items, types, strict=True)]
    node.type, node.names = type_, None
    return node


def refuse_union(node: s.ListExpression, type_: Type) -> None:
    """No list makes a header union."""
    if isinstance(type_, HeaderUnion):
        raise CompileError(node.position, f"{type_} is a header_union: assign one of its headers, not a list")


def in_order_of(type_: Struct, node: s.ListExpression) -> list[s.Expression]:
    """The items of {x = a, y = b} in the order of the fields."""
    assert node.names is not None
    named, order = dict(zip(node.names, node.items, strict=True)), [f.name for f in type_.fields]
    if set(named) != set(order) or len(node.items) != len(order):
        raise CompileError(node.position, f"the fields of {type_} are {', '.join(order)}")
    return [named[name] for name in order]


def as_scalar(node: s.Expression) -> s.Expression:
    """The expression if it is bit<W> or int<W>; a serializable enum counts as its bits."""
    if isinstance(node.type, EnumType) and node.type.underlying:
        if isinstance(node.constant, int):
            return known(node.position, node.constant, node.type.underlying)
        return converted(node, node.type.underlying)
    if not isinstance(node.type, Bits):
        raise CompileError(node.position, f"this is {node.type}, where bit<W> or int<W> is needed")
    return node


def cast(c: Checker, node: s.Expression, type_: Type, position: Position) -> s.Expression:
    """(type)node."""
    from_ = node.type
    if from_ == type_:
        return node
    found: s.Expression | None
    if isinstance(type_, Bits):
        found = _to_bits(c, node, type_, position)
    elif type_ == BOOL:
        found = _to_bool(node, position)
    elif isinstance(type_, EnumType) and type_.underlying and (from_ == INTEGER or isinstance(from_, Bits)):
        inner = coerce(c, node, type_.underlying)
        found = converted(inner, type_) if inner.constant is None else known(position, inner.constant, type_)
    elif isinstance(type_, (Struct, TupleOf)) and isinstance(node, s.ListExpression):
        found = coerce(c, node, type_)
    else:
        found = None
    if found is None:
        raise CompileError(position, f"{from_} cannot be cast to {type_}")
    return found


def _to_bits(c: Checker, node: s.Expression, type_: Bits, position: Position) -> s.Expression | None:
    from_, value = node.type, node.constant
    if from_ == INTEGER and isinstance(value, int):
        return fitted(c, position, value, type_)
    if from_ == BOOL and type_ == Bits(1):
        return converted(node, type_) if value is None else known(position, int(value), type_)
    if isinstance(from_, EnumType) and from_.underlying:
        return cast(c, as_scalar(node), type_, position)
    if not isinstance(from_, Bits):
        return None
    if from_.signed != type_.signed and from_.width != type_.width:
        raise CompileError(position, f"a cast from {from_} to {type_} changes sign and width at once: cast in two steps")
    return fitted(c, position, value, type_) if isinstance(value, int) else converted(node, type_)


def _to_bool(node: s.Expression, position: Position) -> s.Expression | None:
    if node.type == Bits(1):
        return converted(node, BOOL) if node.constant is None else boolean(position, bool(node.constant))
    return boolean(position, bool(node.constant)) if node.type == INTEGER and node.constant in (0, 1) else None


def unified(c: Checker, a: s.Expression, b: s.Expression, position: Position) -> tuple[s.Expression, s.Expression]:
    """Both operands at one type: a number without a width takes the other's."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one.type, (Struct, Stack, TupleOf)) and not isinstance(one, s.ListExpression):
            raise unsupported(position, f"an operator on {one.type}") if one.type == other.type else _differ(a, b, position)
    if isinstance(a.type, EnumType) and isinstance(b.type, EnumType) and a.type != b.type:
        raise _differ(a, b, position)
    if isinstance(a.type, EnumType) or isinstance(b.type, EnumType):
        a = a if a.type == INTEGER else as_scalar(a)
        b = b if b.type == INTEGER else as_scalar(b)
    if a.type == INTEGER:
        return coerce(c, a, b.type), b
    if b.type == INTEGER:
        return a, coerce(c, b, a.type)
    if a.type != b.type:
        raise _differ(a, b, position)
    return a, b


def _differ(a: s.Expression, b: s.Expression, position: Position) -> CompileError:
    return CompileError(position, f"the operands are {a.type} and {b.type}: cast one of them")
