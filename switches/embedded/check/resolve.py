"""Types as written made into types, type variables bound, and declarations of types and constants (section 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..parse import parse_number
from ..text import is_identifier
from ..types import (
    BOOL,
    INTEGER,
    STRING,
    VOID,
    Bits,
    BlockType,
    Bool,
    EnumType,
    ExternType,
    FieldOf,
    Header,
    HeaderUnion,
    Stack,
    Struct,
    TupleOf,
    Type,
    TypeVariable,
    Varbit,
)  # fmt: skip
from .context import Checker, Constant, Declaration, Scope, TypeName
from .values import coerce

WIDEST = 2048  # bits, as p4c
LONGEST_STACK = 1 << 16
BARE = {"bool": BOOL, "string": STRING, "void": VOID, "int": INTEGER, "_": TypeVariable("_")}


def resolve(c: Checker, node: s.TypeRef, scope: Scope) -> Type:
    """The type that a type expression means."""
    match node:
        case s.BareType():
            return BARE[node.name] if node.name in BARE else c.error_type()
        case s.BitsType():
            width = number(c, node.width, scope)
            if not 0 < width <= WIDEST:
                raise CompileError(node.position, f"a width of {width} bits is not possible here")
            return Bits(width, node.signed)
        case s.VarbitType():
            width = number(c, node.width, scope)
            if width % 8:
                raise unsupported(node.position, "varbit of a width that is no multiple of 8")
            return Varbit(width)
        case s.StackType():
            element = resolve(c, node.element, scope)
            if not isinstance(element, (Header, HeaderUnion)):
                raise CompileError(node.position, f"a stack is made of headers, and {element} is none")
            size = number(c, node.size, scope)
            if not 0 < size <= LONGEST_STACK:
                raise CompileError(node.position, f"a stack of {size} headers is not possible")
            return Stack(element, size)
        case s.TupleType():
            return TupleOf(tuple(resolve(c, m, scope) for m in node.members))
    return _named(c, node, scope)


def _named(c: Checker, node: s.NamedType, scope: Scope) -> Type:
    symbol = scope.get(node.name, node.position)
    arguments = tuple(resolve(c, a, scope) for a in node.arguments)
    if isinstance(symbol, TypeName):
        if arguments:
            raise CompileError(node.position, f"{node.name} has no type parameters")
        return _of_whole_bytes(symbol.type, node.position)
    declared = getattr(symbol, "node", None)
    if isinstance(declared, s.Extern):
        if len(arguments) > len(declared.type_parameters):
            raise CompileError(node.position, f"{node.name} has {len(declared.type_parameters)} type parameters")
        return ExternType(node.name, arguments)
    if isinstance(declared, s.Composite):
        if len(arguments) != len(declared.type_parameters):
            raise CompileError(node.position, f"{node.name} takes {len(declared.type_parameters)} type arguments")
        inner = bound_scope(symbol.scope, declared.type_parameters, arguments)
        return _of_whole_bytes(composite(c, declared, inner, f"{node.name}<{', '.join(map(str, arguments))}>"), node.position)
    raise CompileError(node.position, f"{node.name} is not a type")


def _of_whole_bytes(type_: Type, position: Position) -> Type:
    """A type that is used: a header of other widths may be declared, and no more."""
    if isinstance(type_, Header) and type_.width % 8:
        raise CompileError(position, f"header {type_.name} has {type_.width} bits, which is no multiple of 8")
    return type_


def bound_scope(scope: Scope, parameters: list[str], arguments: tuple[Type, ...]) -> Scope:
    """A scope in which type parameters stand for their arguments."""
    inner = Scope(scope)
    for name, argument in zip(parameters, arguments, strict=False):
        inner.names[name] = TypeName(argument)
    return inner


def number(c: Checker, node: s.Expression, scope: Scope) -> int:
    """A number that is known when compiling."""
    value = c.expression(node, scope).constant
    if not isinstance(value, int) or isinstance(value, bool):
        raise CompileError(node.position, "this must be a number known when compiling")
    return value


# --- declarations


def declare_type(c: Checker, node: s.Typedef | s.Composite | s.Enum | s.Names, scope: Scope) -> None:
    match node:
        case s.Names():
            _declare_names(c, node)
        case s.Typedef():
            scope.declare(node.name, TypeName(resolve(c, node.type, scope)), node.position)
        case s.Enum():
            scope.declare(node.name, TypeName(_enum(c, node, scope)), node.position)
        case s.Composite() if node.type_parameters:
            scope.declare(node.name, Declaration(node, scope), node.position)
        case s.Composite():
            scope.declare(node.name, TypeName(composite(c, node, scope, node.name)), node.position)


def _declare_names(c: Checker, node: s.Names) -> None:
    names = c.errors if node.kind == "error" else c.match_kinds
    for name in node.names:
        if name in names and (name, c.no_error_declared) != ("NoError", False):
            raise CompileError(node.position, f"{node.kind} {name} is declared twice")
        c.no_error_declared = c.no_error_declared or name == "NoError"
        if isinstance(names, set):
            names.add(name)
        elif name not in names:
            names.append(name)


def _enum(c: Checker, node: s.Enum, scope: Scope) -> EnumType:
    members = tuple(name for name, _ in node.members)
    for i, name in enumerate(members):
        if name in members[:i]:
            raise CompileError(node.position, f"{node.name}.{name} is declared twice")
    if node.underlying is None:
        return EnumType(node.name, members)
    underlying = resolve(c, node.underlying, scope)
    if not isinstance(underlying, Bits) or underlying.width > 64:
        raise unsupported(node.position, f"an enum over {underlying}")
    values = []
    for name, value in node.members:
        if value is None:
            raise CompileError(node.position, f"{node.name}.{name} needs a value, as the enum has a type")
        converted = coerce(c, c.expression(value, scope), underlying)
        if not isinstance(converted.constant, int):
            raise CompileError(value.position, "this must be a number known when compiling")
        values.append(converted.constant)
    return EnumType(node.name, members, underlying, tuple(values))


def composite(c: Checker, node: s.Composite, scope: Scope, name: str) -> Struct:
    """A header or struct; `name` has its type arguments in it."""
    fields: list[FieldOf] = []
    for written in node.fields:
        if any(f.name == written.name for f in fields):
            raise CompileError(written.position, f"field {written.name} occurs twice")
        type_ = resolve(c, written.type, scope)
        if isinstance(type_, ExternType) or type_ in (INTEGER, STRING, VOID):
            raise unsupported(written.position, f"a field of type {type_}")
        lists = tuple(n for a in written.annotations if a.name == "field_list" for n in _field_lists(c, a, scope))
        fields.append(FieldOf(written.name, type_, lists))
    match node.kind:
        case "header":
            header = Header(name, tuple(fields))
            _check_header(header, node.position)
            return header
        case "header_union":
            for written, f in zip(node.fields, fields, strict=True):
                if not isinstance(f.type, Header):
                    raise CompileError(written.position, f"a header_union is made of headers, and {f.type} is none")
            return HeaderUnion(name, tuple(fields))
    return Struct(name, tuple(fields))


def _field_lists(c: Checker, annotation: s.Annotation, scope: Scope) -> list[int]:
    """The numbers in @field_list(1, LIST): literals and constants."""
    numbers = []
    for word in "".join(annotation.body).split(","):
        base, _, member = word.partition(".")
        node: s.Expression = s.Name(annotation.position, base)
        if base[:1].isdigit():
            node = parse_number(annotation.position, base)
        elif not is_identifier(base):
            raise CompileError(annotation.position, "@field_list takes numbers and names of constants")
        if member:
            node = s.Member(annotation.position, node, member)
        numbers.append(number(c, node, scope))
    return numbers


def _check_header(header: Header, position: Position) -> None:
    for f in header.fields:
        if not isinstance(f.type, Varbit) and not has_layout(f.type):
            raise CompileError(position, f"a header cannot have a field of type {f.type}")
    varbits = [isinstance(f.type, Varbit) for f in header.fields]
    if sum(varbits) > 1:
        raise CompileError(position, f"header {header.name} has more than one varbit field")
    if True in varbits[:-1]:
        raise unsupported(position, f"a field behind the varbit of header {header.name}")


def has_layout(type_: Type) -> bool:
    """Whether a type has a layout on the wire: numbers, bool, enums with values, and structs of them."""
    if isinstance(type_, Struct):
        return not isinstance(type_, (Header, HeaderUnion)) and all(has_layout(f.type) for f in type_.fields)
    return isinstance(type_, (Bits, Bool)) or (isinstance(type_, EnumType) and type_.underlying is not None)


def declare_constant(c: Checker, node: s.Constant, scope: Scope) -> None:
    type_ = resolve(c, node.type, scope)
    value = coerce(c, c.expression(node.value, scope, type_), type_)
    if type_ == STRING:
        raise unsupported(node.position, "a constant string")
    if value.constant is None:
        raise CompileError(node.position, f"the value of {node.name} is not known when compiling")
    scope.declare(node.name, Constant(type_, value.constant), node.position)


def _declare_later(c: Checker, node: s.Parser | s.Control | s.Extern, scope: Scope) -> None:
    """A parser, control or extern object is made where it is instantiated."""
    scope.declare(node.name, Declaration(node, scope), node.position)


def _declare_block(c: Checker, node: s.BlockDeclaration, scope: Scope) -> None:
    scope.declare(node.name, TypeName(BlockType(node.name)), node.position)


DECLARATIONS: dict[type, Callable[[Checker, Any, Scope], None]] = {
    s.Typedef: declare_type, s.Composite: declare_type, s.Enum: declare_type, s.Names: declare_type, s.Constant: declare_constant,
    s.Parser: _declare_later, s.Control: _declare_later, s.Extern: _declare_later, s.BlockDeclaration: _declare_block,
}  # fmt: skip


# --- type variables: what a generic declaration's parameters are bound to by the types of its arguments (section 8.20)


def bound(type_: Type, bindings: dict[str, Type]) -> Type:
    """The type, with its variables replaced as far as they are bound."""
    match type_:
        case TypeVariable():
            return bindings.get(type_.name, type_)
        case TupleOf():
            return TupleOf(tuple(bound(m, bindings) for m in type_.members))
        case ExternType():
            return replace(type_, arguments=tuple(bound(a, bindings) for a in type_.arguments))
    return type_


def is_open(type_: Type, bindings: dict[str, Type]) -> bool:
    """Whether variables are left in it."""
    match bound(type_, bindings):
        case TypeVariable():
            return True
        case TupleOf(members):
            return any(is_open(m, {}) for m in members)
        case ExternType(_, arguments):
            return any(is_open(a, {}) for a in arguments)
    return False


def bind(declared: Type, actual: Type, bindings: dict[str, Type]) -> None:
    """Bind the variables of a declared type to what stands in their places. A number without a width gives way to one with."""
    if isinstance(declared, TypeVariable):
        if bindings.get(declared.name, INTEGER) == INTEGER:
            bindings[declared.name] = actual
    elif isinstance(declared, TupleOf) and isinstance(actual, TupleOf):
        for d, a in zip(declared.members, actual.members, strict=False):
            bind(d, a, bindings)
    elif isinstance(declared, ExternType) and isinstance(actual, ExternType):
        for d, a in zip(declared.arguments, actual.arguments, strict=False):
            bind(d, a, bindings)
    elif isinstance(declared, Stack) and isinstance(actual, Stack):
        bind(declared.element, actual.element, bindings)
