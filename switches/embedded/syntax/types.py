"""The root of the syntax tree's nodes, and types as a program writes them (specification, section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import Position

if TYPE_CHECKING:
    from .expressions import Expression


@dataclass
class Node:
    """Anything in the tree."""

    position: Position


@dataclass
class NamedType(Node):
    """A type by its name, with its type arguments."""

    name: str
    arguments: list[TypeRef] = field(default_factory=list)


@dataclass
class BitsType(Node):
    """bit<width>, or int<width> if signed."""

    width: Expression
    signed: bool


@dataclass
class BareType(Node):
    """bool, error, string, void, `int` of any size, or `_`, a type argument that is left open."""

    name: str


@dataclass
class VarbitType(Node):
    """varbit<width>."""

    width: Expression


@dataclass
class StackType(Node):
    """element[size]."""

    element: NamedType
    size: Expression


@dataclass
class TupleType(Node):
    """tuple<members>."""

    members: list[TypeRef]


TypeRef = NamedType | BitsType | BareType | VarbitType | StackType | TupleType
