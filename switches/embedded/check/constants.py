"""Values that are known when compiling: P4's operators on Python's numbers (section 8)."""

from __future__ import annotations

from collections.abc import Callable

from .. import syntax as s
from ..errors import CompileError, Position
from ..types import BOOL, INTEGER, Bits, Type
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
