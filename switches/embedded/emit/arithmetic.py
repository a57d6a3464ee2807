"""The operators of bit<W> and int<W> (sections 8.6 to 8.10) as C text. A result is always within its type's range."""

from __future__ import annotations

from switches.embedded.emit.ctypes import compute, is_wide, literal, size_of, storage
from switches.embedded.errors import Position, unsupported
from switches.embedded.types import Bits

COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}


def wrap(text: str, type_: Bits) -> str:
    """Bring the result of C arithmetic back to the type's range."""
    if type_.signed:
        return f"sign_extend{_half(type_)}({text}, {type_.width})"
    return f"({text})" if type_.width in (32, 64) else f"(({text}) & {literal(type_.mask, Bits(type_.width))})"


def _half(type_: Bits) -> int:
    return 32 if type_.width <= 32 else 64


def unsigned(text: str, type_: Bits) -> str:
    """A value's bit pattern as an unsigned C number."""
    plain = Bits(type_.width)
    return wrap(f"({compute(plain)}){text}", plain) if type_.signed else text


def negative(operator: str, text: str, type_: Bits, position: Position) -> str:
    """- and ~."""
    if is_wide(type_):
        raise unsupported(position, f"{operator} on {type_} (arithmetic ends at 64 bits)")
    return wrap(f"{operator}(uint{_half(type_)}_t){text}", type_)


def shift(operator: str, a: str, type_: Bits, b: str, by: int | None, amount: Bits | None, position: Position) -> str:
    """<< and >>: amounts beyond the width empty it. `by` is the amount if it is known, `amount` its type if it is not."""
    if is_wide(type_):
        raise unsupported(position, f"a shift of {type_} (arithmetic ends at 64 bits)")
    if amount is not None and is_wide(amount):
        raise unsupported(position, f"a shift by {amount}")
    if by is None:
        if operator == "<<":
            return wrap(f"shift_left{_half(type_)}({a}, {b})", type_)
        return f"shift_right{'_signed' if type_.signed else ''}{_half(type_)}({a}, {b})"
    if by >= type_.width:
        if operator == "<<" or not type_.signed:
            return literal(0, type_)
        by = type_.width - 1
    if operator == "<<":
        return wrap(f"(uint{_half(type_)}_t){a} << {by}", type_)
    return f"({a} >> {by})"


def concatenation(a: str, a_type: Bits, b: str, b_type: Bits, position: Position) -> str:
    """++: the left operand's bits above the right's."""
    type_ = Bits(a_type.width + b_type.width, a_type.signed)
    if is_wide(type_):
        raise unsupported(position, f"a concatenation to {type_} (arithmetic ends at 64 bits)")
    text = f"((({compute(Bits(type_.width))}){unsigned(a, a_type)} << {b_type.width}) | {unsigned(b, b_type)})"
    return wrap(text, type_) if type_.signed else text


def binary(operator: str, a: str, b: str, type_: Bits, divisor: int | None, position: Position) -> str:
    """An operator on two values of one type; `divisor` is b where it is known."""
    if is_wide(type_):
        if operator in ("==", "!="):
            return f"({'!' if operator == '==' else ''}wide_differ({a}, {b}))"
        raise unsupported(position, f"{operator} on {type_} (arithmetic ends at 64 bits)")
    if operator in COMPARISONS or operator in ("&", "|", "^"):
        return f"({a} {operator} {b})"
    if operator in ("+", "-", "*"):
        cast = f"(uint{_half(type_)}_t)" if operator == "*" or type_.signed else ""
        return wrap(f"{cast}{a} {operator} {cast}{b}", type_)
    if operator in ("|+|", "|-|"):
        name = f"saturating_{'add' if operator == '|+|' else 'subtract'}_{'signed' if type_.signed else 'unsigned'}"
        return f"(({compute(type_)}){name}({a}, {b}, {type_.width}))"
    return f"({a} {operator} {b})" if divisor else f"(({b}) ? {a} {operator} {b} : 0)"


def convert(text: str, from_: Bits, to: Bits, position: Position) -> str:
    """A cast between bits types (section 8.11.1)."""
    if from_ == to:
        return text
    if is_wide(from_) or is_wide(to):
        return _convert_wide(text, from_, to, position)
    if from_.signed and not to.signed and from_.width == to.width:
        return unsigned(text, from_)
    if not to.signed:
        cast = f"({compute(to)}){text}"
        return f"({cast})" if to.width >= from_.width else wrap(cast, to)
    return wrap(f"(uint{_half(to)}_t){text}", to)


def _convert_wide(text: str, from_: Bits, to: Bits, position: Position) -> str:
    if from_.signed and to.width > from_.width:
        raise unsupported(position, f"a cast of {from_} to {to} (sign extension ends at 64 bits)")
    if is_wide(from_) and is_wide(to):
        return f"WIDE_CONVERT({storage(to)}, {text}, {from_.width}, {to.width})"
    if is_wide(from_):
        low = f"wide_slice({text}.b, {size_of(from_)}, {to.width - 1}, 0)"
        return wrap(low, to) if to.signed else f"(({compute(to)}){low})"
    return f"WIDE_FROM({storage(to)}, {unsigned(text, from_)})"


def slice_of(text: str, type_: Bits, high: int, low: int, position: Position) -> str:
    """text[high:low]."""
    piece = Bits(high - low + 1)
    if is_wide(type_):
        if is_wide(piece):
            raise unsupported(position, "a slice of more than 64 bits")
        return f"(({compute(piece)})wide_slice({text}.b, {size_of(type_)}, {high}, {low}))"
    plain = unsigned(text, type_)
    return wrap(f"({compute(piece)}){f'({plain} >> {low})' if low else plain}", piece)


def with_slice(text: str, type_: Bits, value: str, high: int, low: int, position: Position) -> str:
    """The value of `text` after text[high:low] = value."""
    if is_wide(type_):
        raise unsupported(position, f"an assignment to a slice of {type_}")
    plain, piece = Bits(type_.width), Bits(high - low + 1)
    kept = literal(plain.mask & ~(piece.mask << low), plain)
    joined = f"({text} & {kept}) | {f'(({compute(plain)}){value} << {low})' if low else value}"
    return f"sign_extend{_half(type_)}({joined}, {type_.width})" if type_.signed else joined
