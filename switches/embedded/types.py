"""P4's types (specification, section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field


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
class FieldOf:
    """A field of a header or struct; `lists` are the ids of its @field_list annotation."""

    name: str
    type: Type
    lists: tuple[int, ...] = ()


@dataclass(frozen=True)
class TupleOf(Type):
    """tuple<…>, and a list of values."""

    members: tuple[Type, ...]

    @property
    def fields(self) -> tuple[FieldOf, ...]:
        """Its members, as C names them."""
        return tuple(FieldOf(f"f{i}", member) for i, member in enumerate(self.members))

    def __str__(self) -> str:
        return "tuple<" + ", ".join(map(str, self.members)) + ">"


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
class HeaderUnion(Struct):
    """Headers of which at most one is valid (section 7.2.4)."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Stack(Type):
    """A stack of `size` headers, or header unions, of one type."""

    element: Header | HeaderUnion
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class ExternType(Type):
    """An extern object: packet_in, register<bit<8>>. Its methods are those of the declaration of that name."""

    name: str
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.arguments))}>" if self.arguments else "")


@dataclass(frozen=True)
class BlockType(Type):
    """A parser, control or package: what main is made of."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TypeVariable(Type):
    """The T of a generic declaration, until a call or an instantiation binds it."""

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
