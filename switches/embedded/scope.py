"""Names and what they stand for while a program is being translated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position
from switches.embedded.types import Type


@dataclass
class Value:
    """A translated expression: C text and P4 type; `constant` where it is known when compiling."""

    text: str
    type: Type
    constant: int | bool | str | None = None
    assignable: bool = False
    items: list[Value] | None = None  # of a list expression


@dataclass
class Target:
    """What an assignment writes: a place, or bits high:low of one; `type` is that of the value it takes."""

    place: Value
    type: Type
    high: int | None = None
    low: int = 0


@dataclass
class VariableSymbol:
    """A parameter, local or part of the packet's state: something with a place in C."""

    text: str
    type: Type
    assignable: bool = True


@dataclass
class ConstantSymbol:
    """A `const`, with its value."""

    value: Value


@dataclass
class TypeSymbol:
    """The name of a type."""

    type: Type


@dataclass
class DeclarationSymbol:
    """A parser, control, function or action as declared, with the scope to translate it in."""

    node: Any
    scope: Scope


@dataclass(eq=False)
class ActionSymbol:
    """An action of one control instance; `c` is its function's name in C, `control_name` what the control plane calls it."""

    node: s.Action
    scope: Scope
    c: str
    control_name: str


@dataclass(eq=False)
class TableSymbol:
    """A table of one control instance; `actions` lists its actions in the order of their ids."""

    node: s.Table
    c: str
    control_name: str
    actions: list[ActionSymbol] = field(default_factory=list)


@dataclass(eq=False)
class InstanceSymbol:
    """An instance of a parser or control, translated when it is first applied."""

    node: Any
    scope: Scope
    path: tuple[str, ...]
    arguments: list[Value]


@dataclass
class ExternSymbol:
    """An instance of a v1model extern: register, counter, direct_counter."""

    kind: str
    c: str
    element: Type | None
    size: int
    control_name: str
    position: Position
    index: Type | None = None  # of its cells, where the declaration gives one


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
            raise CompileError(position, f"{name} is not declared")
        return symbol

    def declare(self, name: str, symbol: Any, position: Position) -> None:
        if name in self.names:
            raise CompileError(position, f"{name} is declared twice")
        self.names[name] = symbol
