"""Type variables: what a generic declaration's parameters are bound to by the types of its arguments (section 8.20)."""

from __future__ import annotations

from dataclasses import replace

from ..types import INTEGER, ExternType, Stack, TupleOf, Type, TypeVariable


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
