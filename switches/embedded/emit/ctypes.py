"""How C holds P4's types, and computes with them.

bit<W> and int<W> up to 64 bits are the next larger C integer, kept masked (or sign-extended) to W bits. Wider ones are
big-endian byte arrays in a struct, so that C can assign them. A header is a struct with its fields and a `valid` byte; a stack is a
struct with its elements, one spare element, and `next_`.
"""

from __future__ import annotations

import re

from ..errors import Position, unsupported
from ..types import Bits, Bool, EnumType, Header, Stack, Struct, TupleOf, Type, Varbit, Void, as_bits
from .context import Context, Value, c_name


def is_wide(type_: Type) -> bool:
    """True where C has no integer for it."""
    return isinstance(type_, Bits) and type_.width > 64


def is_aggregate(type_: Type) -> bool:
    return isinstance(type_, (Struct, TupleOf, Stack, Varbit)) or is_wide(type_)


def size_of(bits: Bits) -> int:
    """Bytes that hold it on the wire, rounded up."""
    return (bits.width + 7) // 8


def storage(bits: Bits) -> str:
    """The C type of a variable."""
    if bits.width > 64:
        return f"wide{size_of(bits)}_t"
    size = next(b for b in (8, 16, 32, 64) if bits.width <= b)
    return f"{'int' if bits.signed else 'uint'}{size}_t"


def compute(bits: Bits) -> str:
    """The C type in which arithmetic happens: at least 32 bits, so that C's promotions change nothing."""
    if bits.width > 64:
        return storage(bits)
    return f"{'int' if bits.signed else 'uint'}{32 if bits.width <= 32 else 64}_t"


def c_type(c: Context, type_: Type) -> str:
    """The C type of a variable; declares it, and what it consists of, at its first use."""
    match type_:
        case Bits():
            if is_wide(type_):
                _once(c, storage(type_), f"typedef struct {{ uint8_t b[{size_of(type_)}]; }} {storage(type_)};")
            return storage(type_)
        case Bool():
            return "bool"
        case EnumType():
            return storage(type_.underlying) if type_.underlying else "uint32_t"
        case Struct() | TupleOf():
            return _struct(c, type_)
        case Stack():
            element = c_type(c, type_.element)
            name = f"{element}_stack{type_.size}"
            _once(c, name, f"{name} {{ {element} at[{type_.size + 1}]; uint32_t next_; }};")
            return name
        case Varbit():
            name = f"struct varbit{type_.width // 8}"
            _once(c, name, f"{name} {{ uint32_t used; uint8_t bytes[{type_.width // 8}]; }};")
            return name
        case Void():
            return "void"
    raise TypeError(f"{type_} has no C type")


def _once(c: Context, name: str, text: str) -> None:
    if name not in c.declared:
        c.declared.add(name)
        c.types.append(text)


def _struct(c: Context, type_: Struct | TupleOf) -> str:
    if str(type_) == "standard_metadata_t":  # the runtime has its own, in the same order
        return "struct standard_metadata_t"
    if str(type_) not in c.type_names:
        written = ("p4_" if isinstance(type_, Struct) else "") + re.sub(r"\W+", "_", str(type_))
        c.type_names[str(type_)] = "struct " + c.unique(written)
    name = c.type_names[str(type_)]
    if name not in c.declared:
        members = [f"    {c_type(c, f.type)} {c_name(f.name)};" for f in type_.fields]
        if isinstance(type_, Header):
            members.append("    bool valid;")  # a field of that name is valid$
        text = "\n".join(members or ["    char empty_;"])
        _once(c, name, f"{name} {{\n{text}\n}};")
    return name


def literal(value: int, type_: Bits) -> str:
    """A constant of a type, in C."""
    value &= type_.mask
    if is_wide(type_):
        return f"(({storage(type_)}){{{{{', '.join(map(str, value.to_bytes(size_of(type_), 'big')))}}}}})"
    if type_.signed:
        if value >> (type_.width - 1):
            value -= 1 << type_.width
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"{value}" if type_.width <= 32 else f"INT64_C({value})"
    shown = str(value) if value < 10 else hex(value)
    return f"{shown}u" if type_.width <= 32 else f"UINT64_C({shown})"


def bits_of(type_: Type) -> Bits:
    """The bits behind a scalar type."""
    bits = as_bits(type_)
    assert bits is not None
    return bits


# --- the operators of bit<W> and int<W> (sections 8.6 to 8.10) as C text: a result is always within its type's range


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


# --- == of headers, structs and stacks (section 8.17): a C function for each type


def equal(c: Context, a: Value, b: Value, position: Position) -> str:
    """C that compares two variables of one type."""
    return _call(c, a.type, a.text, b.text, position)


def _call(c: Context, type_: Type, a: str, b: str, position: Position) -> str:
    if is_wide(type_):
        return f"(!wide_differ({a}, {b}))"
    if as_bits(type_) is not None:
        return f"({a} == {b})"
    if not isinstance(type_, (Struct, TupleOf, Stack, Varbit)):
        raise unsupported(position, f"a comparison of {type_}")
    return f"{_function(c, type_, position)}(&{a}, &{b})"


def _function(c: Context, type_: Struct | TupleOf | Stack | Varbit, position: Position) -> str:
    """The name of the C function that compares two of a type."""
    of = c_type(c, type_)
    name = f"equal${of.removeprefix('struct ')}"
    if name in c.declared:
        return name
    c.declared.add(name)
    match type_:
        case Varbit():
            test = "a->used == b->used && memcmp(a->bytes, b->bytes, a->used) == 0"
        case Stack():
            elements = (_call(c, type_.element, f"a->at[{i}]", f"b->at[{i}]", position) for i in range(type_.size))
            test = " && ".join(elements)
        case Struct() | TupleOf():
            fields = [_call(c, f.type, f"a->{c_name(f.name)}", f"b->{c_name(f.name)}", position) for f in type_.fields]
            test = " && ".join(fields) or "true"
            if isinstance(type_, Header):
                test = f"a->valid == b->valid && (!a->valid || ({test}))"
    c.functions.append(f"static bool {name}(const {of} *a, const {of} *b) {{\n    return {test};\n}}\n")
    return name
