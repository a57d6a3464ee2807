"""The operators of bit<W> and int<W> (sections 8.6 to 8.10) as C text. A result is always within its type's range."""

from __future__ import annotations

from ..errors import Position, unsupported
from ..types import Bits
from .ctypes import compute, is_wide, literal, size_of, storage

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
        name, left = ("xor", type_.mask) if operator == "~" else ("subtract", 0)
        return f"WIDE_OPERATOR({name}, {literal(left, type_)}, {text}, {type_.width})"
    return wrap(f"{operator}(uint{_half(type_)}_t){text}", type_)


def shift(operator: str, a: str, type_: Bits, b: str, by: int | None, amount: Bits | None, position: Position) -> str:
    """<< and >>: amounts beyond the width empty it. `by` is the amount if it is known, `amount` its type if it is not."""
    if amount is not None and is_wide(amount):
        b = f"WIDE_AMOUNT({b})"
    if is_wide(type_):
        signed = f", {'true' if type_.signed else 'false'}" if operator == ">>" else ""
        return f"WIDE_SHIFT_{'LEFT' if operator == '<<' else 'RIGHT'}({a}, {b if by is None else f'{by}u'}, {type_.width}{signed})"
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
        plain = Bits(type_.width)
        high, low = (convert(pattern_of(text, own), Bits(own.width), plain, position) for text, own in ((a, a_type), (b, b_type)))
        return binary("|", shift("<<", high, plain, "", b_type.width, None, position), low, plain, None, position)
    text = f"((({compute(Bits(type_.width))}){unsigned(a, a_type)} << {b_type.width}) | {unsigned(b, b_type)})"
    return wrap(text, type_) if type_.signed else text


def binary(operator: str, a: str, b: str, type_: Bits, divisor: int | None, position: Position) -> str:
    """An operator on two values of one type; `divisor` is b where it is known."""
    if is_wide(type_):
        return _wide(operator, a, b, type_, position)
    if operator in COMPARISONS or operator in ("&", "|", "^"):
        return f"({a} {operator} {b})"
    if operator in ("+", "-", "*"):
        cast = f"(uint{_half(type_)}_t)" if operator == "*" or type_.signed else ""
        return wrap(f"{cast}{a} {operator} {cast}{b}", type_)
    if operator in ("|+|", "|-|"):
        name = f"saturating_{'add' if operator == '|+|' else 'subtract'}_{'signed' if type_.signed else 'unsigned'}"
        return f"(({compute(type_)}){name}({a}, {b}, {type_.width}))"
    if divisor:
        return f"({a} {operator} {b})"
    return f"(({compute(type_)}){'quotient' if operator == '/' else 'remainder_of'}({a}, {b}))"


WIDE = {"&": "and", "|": "or", "^": "xor", "+": "add", "-": "subtract", "*": "multiply"}


def _wide(operator: str, a: str, b: str, type_: Bits, position: Position) -> str:
    """An operator on two values of more than 64 bits."""
    signed = "true" if type_.signed else "false"
    match operator:
        case "==" | "!=":
            return f"({'!' if operator == '==' else ''}wide_differ({a}, {b}))"
        case "<" | ">=":
            return f"({'!' if operator == '>=' else ''}WIDE_BELOW({a}, {b}, {type_.width}, {signed}))"
        case ">" | "<=":
            return f"({'!' if operator == '<=' else ''}WIDE_BELOW({b}, {a}, {type_.width}, {signed}))"
        case "|+|" | "|-|":
            return f"WIDE_SATURATE({a}, {b}, {type_.width}, {signed}, {'true' if operator == '|-|' else 'false'})"
    if operator not in WIDE:
        raise unsupported(position, f"{operator} on {type_} (division ends at 64 bits)")
    return f"WIDE_OPERATOR({WIDE[operator]}, {a}, {b}, {type_.width})"


def pattern_of(text: str, type_: Bits) -> str:
    """A value's bits as bit<W>; wide ones are kept so."""
    return text if is_wide(type_) else unsigned(text, type_)


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
    if is_wide(from_) and is_wide(to):
        if from_.signed and to.width > from_.width:
            return f"WIDE_EXTEND({storage(to)}, {text}, {from_.width}, {to.width})"
        return f"WIDE_CONVERT({storage(to)}, {text}, {to.width})"
    if is_wide(from_):
        low = f"wide_slice({text}.b, {size_of(from_)}, {to.width - 1}, 0)"
        return wrap(low, to) if to.signed else f"(({compute(to)}){low})"
    if from_.signed:
        return f"WIDE_FROM_SIGNED({storage(to)}, {text}, {to.width})"
    return f"WIDE_FROM({storage(to)}, {text})"


def slice_of(text: str, type_: Bits, high: int, low: int, position: Position) -> str:
    """text[high:low]."""
    piece = Bits(high - low + 1)
    if is_wide(type_):
        if is_wide(piece):
            return convert(shift(">>", text, Bits(type_.width), "", low, None, position), Bits(type_.width), piece, position)
        return f"(({compute(piece)})wide_slice({text}.b, {size_of(type_)}, {high}, {low}))"
    plain = unsigned(text, type_)
    return wrap(f"({compute(piece)}){f'({plain} >> {low})' if low else plain}", piece)


def with_slice(text: str, type_: Bits, value: str, high: int, low: int, position: Position) -> str:
    """The value of `text` after text[high:low] = value."""
    if is_wide(type_):
        plain, piece = Bits(type_.width), Bits(high - low + 1)
        kept = binary("&", text, literal(plain.mask & ~(piece.mask << low), plain), plain, None, position)
        moved = shift("<<", convert(value, piece, plain, position), plain, "", low, None, position)
        return binary("|", kept, moved, plain, None, position)
    plain, piece = Bits(type_.width), Bits(high - low + 1)
    kept = literal(plain.mask & ~(piece.mask << low), plain)
    joined = f"({text} & {kept}) | {f'(({compute(plain)}){value} << {low})' if low else value}"
    return f"sign_extend{_half(type_)}({joined}, {type_.width})" if type_.signed else joined
