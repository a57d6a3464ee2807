"""P4 types and how C holds them.

bit<W> and int<W> up to 64 bits are the next larger C integer, kept masked (or sign-extended) to W bits.
Wider ones are big-endian byte arrays in a struct, so that C can assign them. A header is a struct with its
fields and a `valid` byte; a stack is a struct with its elements and `next`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from switches.embedded.text import is_identifier

C_KEYWORDS = set(
    """auto bool break case char const continue default do double else enum extern false float for goto if inline int long
    register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while
    valid next size_t asm typeof i386 linux unix NULL main""".split()  # noqa: SIM905 (it reads better so)
)


def c_name(name: str) -> str:
    """A P4 name as a C identifier. `$`, which GCC takes and P4 does not, keeps it apart from C's own words and macros."""
    if not is_identifier(name):
        raise ValueError(f"{name!r} is no identifier")
    return name + "$" if name in C_KEYWORDS or name.isupper() or name.startswith("_") or name.endswith("_t") else name


def struct_name(name: str) -> str:
    """The C struct of a P4 header or struct; standard metadata is the runtime's own."""
    return f"struct {name}" if name == "standard_metadata_t" else f"struct p4_{name}"


@dataclass(frozen=True)
class Type:
    """A P4 type."""


@dataclass(frozen=True)
class Bits(Type):
    """bit<width> or int<width>."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    @property
    def wide(self) -> bool:
        """True where C has no integer for it."""
        return self.width > 64

    @property
    def size(self) -> int:
        """Bytes that hold it on the wire, rounded up."""
        return (self.width + 7) // 8

    @property
    def storage(self) -> str:
        """The C type of a variable."""
        if self.wide:
            return f"wide{self.size}_t"
        bits = next(b for b in (8, 16, 32, 64) if self.width <= b)
        return f"{'int' if self.signed else 'uint'}{bits}_t"

    @property
    def compute(self) -> str:
        """The C type in which arithmetic happens: at least 32 bits, so that C's promotions change nothing."""
        if self.wide:
            return self.storage
        return f"{'int' if self.signed else 'uint'}{32 if self.width <= 32 else 64}_t"

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1


@dataclass(frozen=True)
class Bool(Type):
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Integer(Type):
    """`int`: a number known when compiling, of any size."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class StringType(Type):
    """A string literal: of annotations and log_msg."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class Void(Type):
    """What a call without a result returns."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class EnumType(Type):
    """An enum or `error`; `underlying` and `values` belong to a serializable enum (section 7.2.1)."""

    name: str
    members: tuple[str, ...] = field(compare=False)  # `error` grows while a program is read
    underlying: Bits | None = None
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name

    def value(self, member: str) -> int:
        i = self.members.index(member)
        return self.values[i] if self.underlying else i


@dataclass(frozen=True)
class Varbit(Type):
    """varbit<width>: bytes, with the length in use."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class TupleOf(Type):
    """tuple<…>, and a list of values."""

    members: tuple[Type, ...]

    def __str__(self) -> str:
        return "tuple<" + ", ".join(map(str, self.members)) + ">"


@dataclass(frozen=True)
class FieldOf:
    """A field of a header or struct; `lists` are the ids of its @field_list annotation."""

    name: str
    type: Type
    lists: tuple[int, ...] = ()


@dataclass(frozen=True)
class Struct(Type):
    """A struct. Its name alone says which."""

    name: str
    fields: tuple[FieldOf, ...] = field(compare=False)

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> FieldOf | None:
        return next((f for f in self.fields if f.name == name), None)


@dataclass(frozen=True)
class Header(Struct):
    """A header: a struct with a place on the wire, which may be valid or not."""

    @property
    def width(self) -> int:
        """Bits on the wire, without what a varbit adds."""
        return sum(bit_width(f.type) for f in self.fields if not isinstance(f.type, Varbit))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Stack(Type):
    """A stack of `size` headers of one type."""

    element: Header
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class PacketType(Type):
    """packet_in or packet_out."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ApplyResult(Type):
    """What table.apply() returns."""

    def __str__(self) -> str:
        return "the result of apply()"


BOOL, INTEGER, STRING, VOID = Bool(), Integer(), StringType(), Void()


def bit_width(type_: Type) -> int:
    """Bits that a value takes where values are laid side by side (wire, hash input, table key)."""
    if isinstance(type_, (Bits, Varbit)):
        return type_.width
    if isinstance(type_, Bool):
        return 1
    if isinstance(type_, EnumType):
        return type_.underlying.width if type_.underlying else 32
    if isinstance(type_, Struct):
        return sum(bit_width(f.type) for f in type_.fields)
    if isinstance(type_, Stack):
        return type_.size * bit_width(type_.element)
    raise TypeError(f"{type_} has no width")


def as_bits(type_: Type) -> Bits | None:
    """The bits behind a scalar type, None for a type that is not a scalar."""
    if isinstance(type_, Bits):
        return type_
    if isinstance(type_, Bool):
        return Bits(1)
    if isinstance(type_, EnumType):
        return type_.underlying or Bits(32)
    return None


def c_type(type_: Type) -> str:
    """The C type of a variable."""
    if isinstance(type_, Bits):
        return type_.storage
    if isinstance(type_, Bool):
        return "bool"
    if isinstance(type_, EnumType):
        return type_.underlying.storage if type_.underlying else "uint32_t"
    if isinstance(type_, Struct):
        return struct_name(type_.name)
    if isinstance(type_, Stack):
        return f"{struct_name(type_.element.name)}_stack{type_.size}"
    if isinstance(type_, Varbit):
        return f"struct varbit{type_.width // 8}"
    if isinstance(type_, Void):
        return "void"
    raise TypeError(f"{type_} has no C type")


def literal(value: int, type_: Bits) -> str:
    """A constant of a type, in C."""
    value &= type_.mask
    if type_.wide:
        return f"(({type_.storage}){{{{{', '.join(map(str, value.to_bytes(type_.size, 'big')))}}}}})"
    if type_.signed:
        if value >> (type_.width - 1):
            value -= 1 << type_.width
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"{value}" if type_.width <= 32 else f"INT64_C({value})"
    shown = str(value) if value < 10 else hex(value)
    return f"{shown}u" if type_.width <= 32 else f"UINT64_C({shown})"
