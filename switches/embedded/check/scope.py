"""Names and what they stand for while a program is being checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import syntax as s
from ..advice import declared_nowhere
from ..errors import CompileError, Position
from ..types import Type


@dataclass(eq=False)
class Constant:
    """A `const`, or a constructor's parameter, with its value."""

    type: Type
    value: int | bool | str


@dataclass(eq=False)
class TypeName:
    """The name of a type."""

    type: Type


@dataclass(eq=False)
class Declaration:
    """A parser, control, extern object or generic type as declared, with the scope to check it in."""

    node: Any
    scope: Scope


@dataclass(eq=False)
class Overloads:
    """Functions of one name, extern or not: the number of arguments chooses."""

    nodes: list[s.Function]
    scope: Scope


class Scope:
    """A chain of name tables; looking up goes outwards."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def get(self, name: str, position: Position) -> Any:
        symbol = self.find(name)
        if symbol is None:
            raise CompileError(position, declared_nowhere(name, self._all()))
        return symbol

    def _all(self) -> list[str]:
        known: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            known += scope.names
            scope = scope.parent
        return known

    def declare(self, name: str, symbol: Any, position: Position) -> None:
        if name in self.names:
            raise CompileError(position, f"{name} is declared twice")
        self.names[name] = symbol
