"""The operators of bit<W>, int<W> and bool (specification, section 8.5 to 8.8), as C text and as Python folding."""

from __future__ import annotations

from collections.abc import Callable

from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.scope import Value
from switches.embedded.types import BOOL, INTEGER, Bits, Type, literal

COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}


def number(value: int, type_: Type = INTEGER) -> Value:
    """A constant; wraps to the width of `type_`."""
    if isinstance(type_, Bits):
        value &= type_.mask
        if type_.signed and value >> (type_.width - 1):
            value -= 1 << type_.width
        return Value(literal(value, type_), type_, value)
    return Value(str(value), INTEGER, value)


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


def boolean(value: bool | int) -> Value:
    """A bool that is known when compiling."""
    return Value("true" if value else "false", BOOL, bool(value))


def wrap(text: str, type_: Bits) -> str:
    """Bring the result of C arithmetic back to the type's range."""
    if type_.signed:
        bits = 32 if type_.width <= 32 else 64
        return f"sign_extend{bits}({text}, {type_.width})"
    return f"({text})" if type_.width in (32, 64) else f"(({text}) & {literal(type_.mask, Bits(type_.width))})"


def unsigned(value: Value) -> str:
    """A value's bit pattern as an unsigned C number."""
    assert isinstance(value.type, Bits)
    return value.text if not value.type.signed else wrap(f"({Bits(value.type.width).compute}){value.text}", Bits(value.type.width))


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


def fold(operator: str, a: int, b: int, position: Position) -> int | bool:
    """A binary operator on two known numbers."""
    if operator in ("/", "%") and b == 0:
        raise CompileError(position, "division by zero")
    if operator in ("<<", ">>") and not 0 <= b < 4096:
        raise CompileError(position, f"a shift by {b} is not possible")
    return OPERATIONS[operator](a, b)


def saturate(operator: str, a: int, b: int, type_: Bits) -> int:
    """|+| and |-| (section 8.5)."""
    exact = a + b if operator == "|+|" else a - b
    low, high = (-(1 << (type_.width - 1)), (1 << (type_.width - 1)) - 1) if type_.signed else (0, type_.mask)
    return min(max(exact, low), high)


def shift(operator: str, a: Value, b: Value, position: Position) -> Value:
    """<< and >>: the result has the type of the left operand; amounts beyond its width empty it."""
    type_ = a.type
    assert isinstance(type_, Bits)
    if type_.wide:
        raise unsupported(position, f"a shift of {type_} (arithmetic ends at 64 bits)")
    if isinstance(b.type, Bits) and b.type.signed:
        raise CompileError(position, "the amount of a shift must be unsigned")
    if isinstance(b.type, Bits) and b.type.wide:
        raise unsupported(position, f"a shift by {b.type}")
    if isinstance(a.constant, int) and isinstance(b.constant, int):
        return number(int(fold(operator, a.constant, min(b.constant, 4095), position)), type_)
    bits = 32 if type_.width <= 32 else 64
    if isinstance(b.constant, int):
        n = b.constant
        if n < 0:
            raise CompileError(position, "the amount of a shift is negative")
        if n >= type_.width:
            if operator == "<<" or not type_.signed:
                return Value(literal(0, type_), type_)
            n = type_.width - 1
        if operator == "<<":
            return Value(wrap(f"(uint{bits}_t){a.text} << {n}", type_), type_)
        return Value(f"({a.text} >> {n})", type_)
    if operator == "<<":
        return Value(wrap(f"shift_left{bits}({a.text}, {b.text})", type_), type_)
    return Value(f"shift_right{'_signed' if type_.signed else ''}{bits}({a.text}, {b.text})", type_)


def concatenate(a: Value, b: Value, position: Position) -> Value:
    """++: the left operand's bits above the right's."""
    assert isinstance(a.type, Bits) and isinstance(b.type, Bits)
    type_ = Bits(a.type.width + b.type.width, a.type.signed)
    if isinstance(a.constant, int) and isinstance(b.constant, int):
        return number((a.constant << b.type.width) | (b.constant & b.type.mask), type_)
    if type_.wide:
        raise unsupported(position, f"a concatenation to {type_} (arithmetic ends at 64 bits)")
    plain = Bits(type_.width)
    text = f"((({plain.compute}){unsigned(a)} << {b.type.width}) | {unsigned(b)})"
    return Value(wrap(text, type_) if type_.signed else text, type_)


def binary(operator: str, a: Value, b: Value, position: Position) -> Value:
    """An operator on two values of one bits type."""
    type_ = a.type
    assert isinstance(type_, Bits)
    if isinstance(a.constant, int) and isinstance(b.constant, int):
        if operator in ("|+|", "|-|"):
            return number(saturate(operator, a.constant, b.constant, type_), type_)
        folded = fold(operator, a.constant, b.constant, position)
        return boolean(folded) if operator in COMPARISONS else number(int(folded), type_)
    if type_.wide:
        if operator in ("==", "!="):
            return Value(f"({'!' if operator == '==' else ''}wide_differ({a.text}, {b.text}))", BOOL)
        raise unsupported(position, f"{operator} on {type_} (arithmetic ends at 64 bits)")
    if operator in COMPARISONS:
        return Value(f"({a.text} {operator} {b.text})", BOOL)
    if operator in ("&", "|", "^"):
        return Value(f"({a.text} {operator} {b.text})", type_)
    if operator in ("+", "-", "*"):
        cast = f"(uint{32 if type_.width <= 32 else 64}_t)" if operator == "*" or type_.signed else ""
        return Value(wrap(f"{cast}{a.text} {operator} {cast}{b.text}", type_), type_)
    if operator in ("|+|", "|-|"):
        name = f"saturating_{'add' if operator == '|+|' else 'subtract'}_{'signed' if type_.signed else 'unsigned'}"
        return Value(f"(({type_.compute}){name}({a.text}, {b.text}, {type_.width}))", type_)
    if type_.signed:
        raise CompileError(position, f"{operator} is not defined on {type_}")
    if b.constant == 0:
        raise CompileError(position, "division by zero")
    return Value(f"({a.text} {operator} {b.text})" if b.constant else f"(({b.text}) ? {a.text} {operator} {b.text} : 0)", type_)


def convert(value: Value, to: Bits, position: Position) -> Value:
    """A cast between bits types (section 8.11.1)."""
    from_ = value.type
    assert isinstance(from_, Bits)
    if isinstance(value.constant, int):
        return number(value.constant, to)
    if from_ == to:
        return value
    if from_.wide or to.wide:
        if from_.signed and to.width > from_.width:
            raise unsupported(position, f"a cast of {from_} to {to} (sign extension ends at 64 bits)")
        if from_.wide and to.wide:
            return Value(f"WIDE_CONVERT({to.storage}, {value.text}, {from_.width}, {to.width})", to)
        if from_.wide:
            low = f"wide_slice({value.text}.b, {from_.size}, {to.width - 1}, 0)"
            return Value(wrap(low, to) if to.signed else f"(({to.compute}){low})", to)
        return Value(f"WIDE_FROM({to.storage}, {unsigned(value)})", to)
    if from_.signed and not to.signed and from_.width == to.width:
        return Value(unsigned(value), to)
    if not to.signed:
        text = f"({to.compute}){value.text}"
        return Value(f"({text})" if to.width >= from_.width else wrap(text, to), to)
    return Value(wrap(f"(uint{32 if to.width <= 32 else 64}_t){value.text}", to), to)


def slice_of(value: Value, high: int, low: int, position: Position) -> Value:
    """value[high:low]."""
    assert isinstance(value.type, Bits)
    if not 0 <= low <= high < value.type.width:
        raise CompileError(position, f"[{high}:{low}] is not within {value.type}")
    type_ = Bits(high - low + 1)
    if isinstance(value.constant, int):
        return number((value.constant & value.type.mask) >> low, type_)
    if value.type.wide:
        if type_.wide:
            raise unsupported(position, "a slice of more than 64 bits")
        return Value(f"(({type_.compute})wide_slice({value.text}.b, {value.type.size}, {high}, {low}))", type_)
    text = unsigned(value)
    shifted = f"({text} >> {low})" if low else text
    return Value(wrap(f"({type_.compute}){shifted}", type_), type_, None, False)
